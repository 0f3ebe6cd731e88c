"""The life of a job at a server: its states, the order of jobs, what is asked and changed."""
