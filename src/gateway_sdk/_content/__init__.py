"""What is sent: documents from disk, iterators and forms."""
