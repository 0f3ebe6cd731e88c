"""What a server keeps in memory: clients, operations, outcomes, held keys and replies."""
