"""Floor 4: what the notebooks show that are no paper's: the simulator checked, kernels and networks of one's own."""
