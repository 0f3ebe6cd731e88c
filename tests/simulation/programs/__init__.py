"""Programs that use the simulated service: clients, and what they ask for."""
