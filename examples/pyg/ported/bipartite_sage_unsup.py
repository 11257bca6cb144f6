"""examples/hetero/bipartite_sage_unsup.py: edges that are added after the split of links."""

import parts

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

train_data, val_data, test_data = parts.split_of_links()
item_to_item = parts.bought_together(train_data["user", "item"].edge_index)
train_data["item", "item"].edge_index = item_to_item
val_data["item", "item"].edge_index = item_to_item
test_data["item", "item"].edge_index = item_to_item
# PyG: ...
train_data, test_data = from_data(train_data, "store/train"), from_data(test_data, "store/test")

kwargs = {"num_neighbors": [8, 4], "batch_size": 512, "num_workers": 1}
train_loader = LinkNeighborLoader(
    data=train_data,
    edge_label_index=("user", "to", "item"),
    neg_sampling="binary",
    shuffle=True,
    drop_last=True,
    **kwargs,
)
test_loader = LinkNeighborLoader(
    data=test_data,
    edge_label_index=(("user", "to", "item"), test_data["user", "to", "item"].edge_label_index),
    edge_label=test_data["user", "to", "item"].edge_label,
    shuffle=False,
    **kwargs,
)


def predict(model, batch):
    return model(batch), batch["user", "item"].edge_label


model = parts.BipartiteSAGE()
parts.fit(model, train_loader, predict, epochs=12)
print(f"{parts.accuracy(model, test_loader, predict):.4f}")
