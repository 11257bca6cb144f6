"""examples/hetero/temporal_link_pred.py: ratings that are predicted from earlier ones."""

import parts
import torch
import torch_geometric.transforms as T
from torch_geometric.nn import to_hetero

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

graph = parts.with_features(T.ToUndirected()(parts.ratings()))
del graph["item", "rev_to", "user"].edge_label
# PyG: data = graph
data = from_data(graph, "store")

perm = torch.argsort(data["user", "item"].time)
edge_index = data["user", "item"].edge_index


def make_loader(ids, **options):
    return LinkNeighborLoader(
        data=data,
        num_neighbors=[5, 5],
        batch_size=128,
        time_attr="time",
        temporal_strategy="last",
        edge_label_index=(("user", "item"), edge_index[:, ids]),
        edge_label=data["user", "item"].edge_label[ids],
        edge_label_time=data["user", "item"].time[ids] - 1,
        **options,
    )


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = to_hetero(parts.LazySAGE(32, 32), data.metadata(), aggr="sum")

    def forward(self, batch):
        z = self.encoder(batch.x_dict, batch.edge_index_dict)
        source, target = batch["user", "item"].edge_label_index
        return (z["user"][source] * z["item"][target]).sum(dim=-1)


def predict(model, batch):
    return model(batch), batch["user", "item"].edge_label == 5


model = Model()
train_loader, test_loader = make_loader(perm[:7200], shuffle=True), make_loader(perm[7200:])
with torch.no_grad():
    model(next(iter(train_loader)))
parts.fit(model, train_loader, predict, epochs=4)
print(f"{parts.accuracy(model, test_loader, predict):.4f}")
