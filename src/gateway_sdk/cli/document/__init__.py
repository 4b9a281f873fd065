"""The commands `gateway document upload`, `update` and `status`."""
