"""One module for each command. Its function takes the parsed arguments and returns the exit code."""
