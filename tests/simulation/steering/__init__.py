"""Worlds in which a program steers jobs: cancels, moves, limits and repeats them."""
