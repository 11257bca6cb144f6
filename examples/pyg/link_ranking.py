"""Whom is a node linked to? All nodes are ranked, but those that it is known to be linked to.

python examples/pyg/link_ranking.py FOLDER

The graph that is sampled, and trained on, lacks the edges that are to be predicted: a tenth, drawn
at random.
"""

import argparse

import graphs
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.data import Data
from torch_geometric.metrics import LinkPredHitRatio, LinkPredMetricCollection, LinkPredMRR
from torch_geometric.nn import SAGEConv

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", help="a graph as graphs.py describes it")
parser.add_argument("--store", default="store", help="where graphzero keeps the graph")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

K = 1000  # a node that is not among so many counts as not found

torch.manual_seed(args.seed)
edges = graphs.load_edges(args.folder)[:2]
edges = edges[:, torch.randperm(edges.shape[1])]
known, held_out = edges.tensor_split([int(0.9 * edges.shape[1])], dim=1)
x = graphs.load(args.folder).x
graph = T.ToUndirected()(Data(x=x, edge_index=known))

# PyG: data = graph
data = from_data(graph, args.store)

loader = LinkNeighborLoader(
    data,
    num_neighbors=[10, 5],
    edge_label_index=known,
    neg_sampling_ratio=1.0,
    batch_size=256,
    shuffle=True,
)


class GNN(torch.nn.Module):
    def __init__(self, in_channels, hidden):
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden)
        self.conv2 = SAGEConv(hidden, hidden)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


model = GNN(data.num_features, 64)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)


def train():
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        x = model(batch.x, batch.edge_index)
        one, other = batch.edge_label_index
        score = (x[one] * x[other]).sum(dim=-1)
        F.binary_cross_entropy_with_logits(score, batch.edge_label.float()).backward()
        optimizer.step()


@torch.no_grad()
def test():
    model.eval()
    x = model(graph.x, graph.edge_index)
    num_nodes = len(x)
    metrics = LinkPredMetricCollection([LinkPredHitRatio(k=10), LinkPredMRR(k=K)])
    for sources in held_out[0].unique().split(1024):
        number = torch.full((num_nodes,), -1)
        number[sources] = torch.arange(len(sources))
        scores = x[sources] @ x.T
        scores[torch.arange(len(sources)), sources] = -torch.inf
        linked = known[:, number[known[0]] >= 0]
        scores[number[linked[0]], linked[1]] = -torch.inf
        wanted = held_out[:, number[held_out[0]] >= 0]
        wanted = torch.stack([number[wanted[0]], wanted[1]])
        metrics.update(scores.topk(K).indices, wanted)
    return metrics.compute()


for epoch in range(1, args.epochs + 1):
    train()
    print(f"epoch {epoch:02d}", flush=True)
for name, value in test().items():
    print(f"{name} {value:.4f}")
