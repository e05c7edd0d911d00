"""Floor 3: one module a paper."""
