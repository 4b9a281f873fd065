"""A login with a browser. Programs that use a stored token never come here."""
