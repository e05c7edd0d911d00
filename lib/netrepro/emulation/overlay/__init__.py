"""Container overlays with and without caches in eBPF: the network, and packets that must not be lost in it."""
