"""Models of this machine: list, add, pull, check, choose and remove them."""
