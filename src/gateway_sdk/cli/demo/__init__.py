"""The command `gateway demo`: what is fetched, shown and written, each in a room of its own."""
