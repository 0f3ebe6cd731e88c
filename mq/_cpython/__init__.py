"""What mq needs to know of CPython: fork, atomic sections, mypyc."""
