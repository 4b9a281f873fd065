"""Who talks to the network, and tells the truth about what was sent."""
