"""Timers, purgatories and their loops in one process, under a scheduler that a seed decides for.

The threads are real and run the real code, but one at a time. Which of them takes the next step,
how long it goes on, and what time it is, is a function of the seed: an interleaving is a number.
"""
