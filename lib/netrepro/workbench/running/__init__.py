"""Running notebooks: plans, lanes, the process that executes one, what a run leaves, and what shuts it in."""
