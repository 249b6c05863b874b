"""One module for each kind of conversation, each with a small world whose facts stay consistent."""
