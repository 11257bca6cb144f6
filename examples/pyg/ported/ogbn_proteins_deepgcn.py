"""examples/ogbn_proteins_deepgcn.py: attributes of edges in parts of random nodes."""

import parts
import torch
from torch_geometric.nn import DeepGCNLayer, GENConv
from torch_geometric.utils import scatter

# PyG: from torch_geometric.loader import RandomNodeLoader
from graphzero.pyg import RandomNodeLoader, from_data

graph = parts.cora()
graph.node_species = None
graph.y = torch.nn.functional.one_hot(graph.y).to(torch.float)
row, col = graph.edge_index
graph.edge_attr = (graph.x @ torch.randn(graph.num_features, 64))[row]
graph.x = scatter(graph.edge_attr, col, 0, dim_size=graph.num_nodes, reduce="sum")
# PyG: data = graph
data = from_data(graph, "store")

train_loader = RandomNodeLoader(data, num_parts=4, shuffle=True, num_workers=1)
test_loader = RandomNodeLoader(data, num_parts=2, num_workers=1)


class DeeperGCN(torch.nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        self.nodes = torch.nn.Linear(data.x.size(-1), hidden)
        self.edges = torch.nn.Linear(data.edge_attr.size(-1), hidden)
        self.layers = torch.nn.ModuleList(
            DeepGCNLayer(
                GENConv(hidden, hidden, aggr="softmax", learn_t=True, num_layers=2, norm="layer"),
                torch.nn.LayerNorm(hidden),
                torch.nn.ReLU(),
                block="res+",
                dropout=0.1,
            )
            for _ in range(layers)
        )
        self.lin = torch.nn.Linear(hidden, data.y.size(-1))

    def forward(self, x, edge_index, edge_attr):
        x, edge_attr = self.nodes(x), self.edges(edge_attr)
        for layer in self.layers:
            x = layer(x, edge_index, edge_attr)
        return self.lin(x)


def predict(model, batch, split="train"):
    out, mask = model(batch.x, batch.edge_index, batch.edge_attr), batch[f"{split}_mask"]
    return out[mask], batch.y[mask].argmax(dim=-1)


model = DeeperGCN(64, 2)
parts.fit(model, train_loader, predict, epochs=10)
print(f"{parts.accuracy(model, test_loader, lambda *given: predict(*given, 'test')):.4f}")
