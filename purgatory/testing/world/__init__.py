"""The machines of a world: clocks, disks, network, threads, and time itself."""
