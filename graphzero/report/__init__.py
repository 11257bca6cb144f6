"""Reports: of memory, and of faults in files."""
