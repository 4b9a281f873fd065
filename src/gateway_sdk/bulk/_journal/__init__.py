"""The journal: what came of each item, in a file that is the output and the memory of a job."""
