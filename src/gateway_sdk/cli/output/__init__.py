"""Standard output and files of data: tables, JSON, CSV, always whole."""
