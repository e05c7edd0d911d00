"""Floor 1: topologies and workloads as plain descriptions."""
