"""What `verify` checks: blocks and checksums, one module a kind of file, what a manifest says."""
