"""One module a command; each takes the parsed words and returns an exit code."""
