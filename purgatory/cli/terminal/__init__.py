"""What the commands read and print: durations, values, tables, the screen of `top`."""
