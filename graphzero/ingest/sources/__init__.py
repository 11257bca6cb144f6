"""What users have, as tables of checked columns: one module a kind of source."""
