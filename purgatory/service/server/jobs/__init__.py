"""The life of a job at a server: its states, the order of jobs, questions and changes."""
