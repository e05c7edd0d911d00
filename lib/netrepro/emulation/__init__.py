"""Floor 2: networks of real kernels."""
