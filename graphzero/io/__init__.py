"""How rows and topology come into memory before they are wanted."""
