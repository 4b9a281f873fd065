"""Where tokens are kept: in memory, in a private file, in the system's keyring, in Redis."""
