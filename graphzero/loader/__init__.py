"""Mini-batches for the standard DataLoader."""
