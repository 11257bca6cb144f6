"""examples/cluster_gcn_reddit.py: training in clusters, and layer-wise inference."""

import parts

# PyG: from torch_geometric.loader import ClusterData, ClusterLoader, NeighborLoader
from graphzero.pyg import ClusterData, ClusterLoader, NeighborLoader, from_data

# PyG: data = parts.cora()
data = from_data(parts.cora(), "store")

cluster_data = ClusterData(data, num_parts=30, recursive=False, save_dir=".")
train_loader = ClusterLoader(cluster_data, batch_size=5, shuffle=True, num_workers=1)
subgraph_loader = NeighborLoader(
    data, num_neighbors=[-1], batch_size=1024, shuffle=False, num_workers=1
)

model = parts.SAGE(data.num_features, 64, parts.CLASSES)
parts.fit(model, train_loader, parts.in_mask)
model.eval()
right = model.inference(data.x, subgraph_loader).argmax(dim=-1).eq(data.y)
for mask in (data.train_mask, data.val_mask, data.test_mask):
    print(f"{right[mask].sum().item() / mask.sum().item():.4f}")
