"""Jobs at a server: their states, orders, questions and changes."""
