"""Response trees: the list and one tree."""
