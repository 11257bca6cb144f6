"""The sub-commands: each is a `Command`."""
