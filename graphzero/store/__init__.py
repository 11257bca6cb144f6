"""The files: their format, how they are written and replaced, mapped and kept in memory."""
