"""Training runs seen from the program: what one would take, its files, its process and its history."""
