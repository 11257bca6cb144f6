"""The graph, the feature rows, and both together as a dataset, in the user's own ids."""
