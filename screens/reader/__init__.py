"""One conversation in full."""
