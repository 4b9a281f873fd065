"""The commands `gateway wallet orders`, `history`, `balance` and `cancel`."""
