"""What a process and the page cache hold."""
