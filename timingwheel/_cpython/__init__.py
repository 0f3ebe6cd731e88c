"""What only timingwheel needs of CPython: the cycle collector, stores past caches, freezegun."""
