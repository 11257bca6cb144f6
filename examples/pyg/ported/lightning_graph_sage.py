"""examples/pytorch_lightning/graph_sage.py: a LightningNodeData."""

import parts
import torch
from lightning.pytorch import LightningModule, Trainer
from torch_geometric.nn import GraphSAGE

# PyG: from torch_geometric.data.lightning import LightningNodeData
from graphzero.pyg import DataModule as LightningNodeData
from graphzero.pyg import from_data


class Model(LightningModule):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        norm = torch.nn.BatchNorm1d(64)
        self.gnn = GraphSAGE(in_channels, 64, 2, out_channels, dropout=0.5, norm=norm)

    def training_step(self, data, batch_idx):
        return torch.nn.functional.cross_entropy(*parts.of_seeds(self.gnn, data))

    def test_step(self, data, batch_idx):
        right = parts.right(*parts.of_seeds(self.gnn, data)).float()
        self.log("test_acc", right.mean(), on_epoch=True, batch_size=right.size(0))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


# PyG: data = parts.cora()
data = from_data(parts.cora(), "store")
datamodule = LightningNodeData(
    data,
    input_train_nodes=data.train_mask,
    input_test_nodes=data.test_mask,
    loader="neighbor",
    num_neighbors=[25, 10],
    batch_size=64,
)
options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
trainer = Trainer(accelerator="cpu", devices=1, max_epochs=8, **options)
model = Model(data.num_node_features, parts.CLASSES)
trainer.fit(model, datamodule)
(metrics,) = trainer.test(model, datamodule=datamodule)
print(f"{metrics['test_acc']:.4f}")
