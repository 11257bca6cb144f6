"""Everything that imports torch_geometric."""
