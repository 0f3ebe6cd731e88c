"""Worker: runs the jobs of a server, each by one worker at a time."""
