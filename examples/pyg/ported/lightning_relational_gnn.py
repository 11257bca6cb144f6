"""examples/pytorch_lightning/relational_gnn.py: a LightningDataModule of one's own."""

import parts
import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from torch_geometric.nn import to_hetero

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data


class Airports(LightningDataModule):
    def setup(self, stage=None):
        # PyG: self.data = parts.flights()
        self.data = from_data(parts.flights(), "store")

    def dataloader(self, mask, shuffle, num_workers=1):
        return NeighborLoader(
            self.data,
            num_neighbors=[10, 10],
            input_nodes=("airport", mask),
            batch_size=128,
            shuffle=shuffle,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
        )

    def train_dataloader(self):
        return self.dataloader(self.data["airport"].train_mask, shuffle=True)

    def test_dataloader(self):
        return self.dataloader(self.data["airport"].test_mask, shuffle=False)


class RelationalGNN(LightningModule):
    def __init__(self, metadata):
        super().__init__()
        self.model = to_hetero(parts.LazySAGE(64, 10), metadata, aggr="sum")

    @torch.no_grad()
    def setup(self, stage=None):
        loader = self.trainer.datamodule.dataloader(torch.arange(1), shuffle=False, num_workers=0)
        parts.of_airports(self.model, next(iter(loader)))

    def training_step(self, batch, batch_idx):
        return torch.nn.functional.cross_entropy(*parts.of_airports(self.model, batch))

    def test_step(self, batch, batch_idx):
        right = parts.right(*parts.of_airports(self.model, batch)).float()
        self.log("test_acc", right.mean(), on_epoch=True, batch_size=right.size(0))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.005)


options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
trainer = Trainer(accelerator="cpu", devices=1, max_epochs=4, **options)
model = RelationalGNN(parts.flights().metadata())
airports = Airports()
trainer.fit(model, airports)
(metrics,) = trainer.test(model, airports)
print(f"{metrics['test_acc']:.4f}")
