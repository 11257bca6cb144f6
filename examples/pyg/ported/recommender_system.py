"""examples/hetero/recommender_system.py: own ids of nodes, and recommendations for all users."""

import copy

import parts
import torch
import torch_geometric.transforms as T
from torch_geometric.nn import to_hetero

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

graph = parts.with_features(T.ToUndirected()(parts.ratings()))
for kind in graph.node_types:
    graph[kind].n_id = torch.arange(graph[kind].num_nodes)
train_data, test_data = copy.deepcopy(graph), copy.deepcopy(graph)
for store in graph.edge_stores:
    for name, value in store.items():
        train_data[store._key][name] = value[..., :7200]
        test_data[store._key][name] = value[..., 7200:]
# PyG: ...
train_data, test_data = from_data(train_data, "store/train"), from_data(test_data, "store/test")

train_loader = LinkNeighborLoader(
    data=train_data,
    num_neighbors=[5, 5],
    neg_sampling_ratio=1,
    edge_label_index=(("user", "to", "item"), train_data["user", "to", "item"].edge_index),
    edge_label_time=train_data["user", "to", "item"].time,
    batch_size=256,
    shuffle=True,
    time_attr="time",
)


class Model(torch.nn.Module):
    def __init__(self, metadata):
        super().__init__()
        self.own = torch.nn.ModuleDict(
            {kind: torch.nn.Embedding(400, 32) for kind in ("user", "item")}
        )
        self.encoder = to_hetero(parts.LazySAGE(32, 32), metadata, aggr="sum")

    def forward(self, data):
        x_dict = data.x_dict
        for kind in ("user", "item"):
            x_dict[kind] = torch.cat([self.own[kind](data[kind].n_id), x_dict[kind]], dim=-1)
        return self.encoder(x_dict, data.edge_index_dict)


def predict(model, batch):
    z, (source, target) = model(batch), batch["user", "item"].edge_label_index
    return (z["user"][source] * z["item"][target]).sum(dim=-1), batch["user", "item"].edge_label


model = Model(train_data.metadata())
with torch.no_grad():
    model(next(iter(train_loader)))
parts.fit(model, train_loader, predict, epochs=4)
model.eval()
with torch.no_grad():
    z = model(test_data)
best = (z["user"] @ z["item"].T).topk(20).indices
print(f"{(best % 8 == test_data['user'].n_id[:, None] % 8).float().mean():.4f}")
