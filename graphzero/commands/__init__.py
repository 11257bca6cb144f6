"""The sub-commands of ``graphzero``, one per module: `add_parser` adds it, `run` executes it."""
