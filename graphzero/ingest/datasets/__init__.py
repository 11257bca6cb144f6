"""Datasets in the layouts of other projects: which files have what, as arguments of a build."""
