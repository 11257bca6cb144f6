"""The sub-commands of ``graphzero``, one a module: `add_parser` describes it, `run` does it."""
