"""Queue layers between threads: yqueue, ypipe, signaler, mailbox."""
