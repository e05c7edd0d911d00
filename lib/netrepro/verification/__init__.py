"""Floor 1: performance queries on schedulers and small networks, answered by a solver (the FPerf API)."""
