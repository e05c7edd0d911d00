"""The tiers `rootless` and `privileged`: networks of this machine's kernel, in real time."""
