"""What is measured inside a process of its own, one module per kind."""
