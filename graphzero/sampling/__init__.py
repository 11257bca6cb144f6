"""Which seeds make a mini-batch, and the neighbours that are drawn for them."""
