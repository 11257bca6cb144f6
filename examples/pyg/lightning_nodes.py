"""Node classification with Lightning's Trainer, in one process or several.

python examples/pyg/lightning_nodes.py FOLDER --devices 2
"""

import argparse
import atexit

import graphs
import torch
import torch.distributed as dist
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer
from torch_geometric.nn import GraphSAGE

# PyG: from torch_geometric.data.lightning import LightningNodeData
from graphzero.pyg import DataModule as LightningNodeData
from graphzero.pyg import from_data


class Model(LightningModule):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.gnn = GraphSAGE(in_channels, 64, 2, out_channels, dropout=0.5)

    def setup(self, stage):
        if dist.is_initialized():  # Gloo's threads may abort a process that exits with them
            atexit.register(dist.destroy_process_group)

    def forward(self, batch):
        return self.gnn(batch.x, batch.edge_index)[: batch.batch_size]

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch), batch.y[: batch.batch_size])

    def evaluate(self, batch, name):
        hits = (self(batch).argmax(dim=-1) == batch.y[: batch.batch_size]).float()
        self.log(name, hits.mean(), batch_size=batch.batch_size, prog_bar=True, sync_dist=True)

    def validation_step(self, batch, batch_idx):
        self.evaluate(batch, "val_accuracy")

    def test_step(self, batch, batch_idx):
        self.evaluate(batch, "test_accuracy")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a graph as graphs.py describes it")
    parser.add_argument("--store", default="store", help="where graphzero keeps the graph")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    # PyG: data = graphs.load(args.folder)
    data = from_data(graphs.load(args.folder), args.store)
    datamodule = LightningNodeData(
        data,
        input_train_nodes=data.train_mask,
        input_val_nodes=data.val_mask,
        input_test_nodes=data.test_mask,
        num_neighbors=[10, 10],
        batch_size=64,
    )
    trainer = Trainer(
        accelerator="cpu",
        devices=args.devices,
        strategy="ddp_spawn" if args.devices > 1 else "auto",
        max_epochs=args.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    model = Model(data.num_features, int(data.y.max()) + 1)
    trainer.fit(model, datamodule)
    (metrics,) = trainer.test(model, datamodule)
    print(f"test accuracy {metrics['test_accuracy']:.4f}")


if __name__ == "__main__":
    main()
