"""Floor 4: experiments of the notebooks without a paper: checks of the simulator, own kernel modules and networks."""
