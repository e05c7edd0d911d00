"""Floor 4: one module or package for each paper."""
