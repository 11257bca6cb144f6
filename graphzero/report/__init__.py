"""Reports about memory: of processes, and of the page cache."""
