"""Trials of prefetch options under a memory limit, and the choice among them."""
