"""examples/infomax_inductive.py: embeddings of all nodes in their order, without labels."""

import parts
import torch
from torch_geometric.nn import DeepGraphInfomax

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

# PyG: data = parts.cora()
data = from_data(parts.cora(), "store")

kwargs = {"num_neighbors": [10, 10], "batch_size": 256}
train_loader = NeighborLoader(data, shuffle=True, **kwargs)
test_loader = NeighborLoader(data, **kwargs)


class Encoder(parts.SAGE):
    def forward(self, x, edge_index, batch_size):
        return super().forward(x, edge_index)[:batch_size]


model = DeepGraphInfomax(
    hidden_channels=128,
    encoder=Encoder(data.num_features, 128, 128),
    summary=lambda z, *args, **kwargs: z.mean(dim=0).sigmoid(),
    corruption=lambda x, *rest: (x[torch.randperm(x.size(0))], *rest),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for _ in range(6):
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model.loss(*model(batch.x, batch.edge_index, batch.batch_size)).backward()
        optimizer.step()

model.eval()
with torch.no_grad():
    z = torch.cat([model(b.x, b.edge_index, b.batch_size)[0] for b in test_loader])
print(f"{parts.probe(z, data):.4f}")
