"""Floor 1: single-server queues, in closed form and simulated."""
