"""GraphSAGE, trained and evaluated on a dataset."""
