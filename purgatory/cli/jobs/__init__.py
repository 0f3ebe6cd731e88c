"""The commands that run jobs and look after those that were given up."""
