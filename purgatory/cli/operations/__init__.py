"""The commands for operations at a server: submit, complete, extend, cancel and look."""
