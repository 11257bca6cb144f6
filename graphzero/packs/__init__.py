"""The rows of mini-batches, written in the order of their use."""
