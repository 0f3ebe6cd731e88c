"""Queues between two threads: yqueue, ypipe, signaler, mailbox."""
