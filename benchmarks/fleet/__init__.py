"""A fleet whose workers, gateway and database are killed, stopped and taken away."""
