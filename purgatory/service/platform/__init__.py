"""What the service takes from the machine that it runs on."""
