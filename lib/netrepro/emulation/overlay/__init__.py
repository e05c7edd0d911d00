"""Container overlays with and without caches in eBPF: the network, and trials of what it must never do."""
