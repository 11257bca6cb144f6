"""examples/cluster_gcn_ppi.py: several graphs as one in training, and one by one in tests."""

import parts
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv

# PyG: from torch_geometric.loader import ClusterData, ClusterLoader
from graphzero.pyg import ClusterData, ClusterLoader, from_data

train_dataset, test_data = parts.cora_in_parts()
# PyG: train_data = Batch.from_data_list(train_dataset)
train_data = from_data(Batch.from_data_list(train_dataset), "store")
cluster_data = ClusterData(train_data, num_parts=20, recursive=False, save_dir=".")
train_loader = ClusterLoader(cluster_data, batch_size=1, shuffle=True, num_workers=0)


def predict(model, data):
    return model(data.x, data.edge_index), data.y


model = parts.SAGE(train_data.num_features, 64, parts.CLASSES)
model.convs[1] = GATConv(64, parts.CLASSES, heads=2, concat=False)
parts.fit(model, train_loader, predict, epochs=5)
print(f"{parts.accuracy(model, DataLoader([test_data], batch_size=2), predict):.4f}")
