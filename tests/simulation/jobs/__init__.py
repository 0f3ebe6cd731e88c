"""Jobs in a world: a program that schedules them, workers that run them, and what is promised."""
