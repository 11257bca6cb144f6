"""The sub-commands, one per module: its `HELP`, `EXAMPLES`, `add_options` and `run`."""
