"""A plan on several workers, while workers, the queue and the store are killed."""
