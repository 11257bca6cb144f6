"""Which seeds make up a mini-batch, and which neighbours are drawn for them."""
