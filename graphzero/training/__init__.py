"""Training and evaluation of GraphSAGE on a dataset."""
