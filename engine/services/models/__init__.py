"""Models of this machine for the command line and the screen: what they take, the pulls, checking and removing them."""
