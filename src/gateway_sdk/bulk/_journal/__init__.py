"""The journal: a file with the result of each item, which a later run can continue."""
