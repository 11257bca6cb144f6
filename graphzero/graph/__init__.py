"""The graph, its rows, and both together as a dataset, in the user's own ids."""
