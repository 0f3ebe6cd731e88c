"""How much memory a server's operations take, and how much they may."""
