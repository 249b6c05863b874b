"""Response trees: every continuation above a probability threshold, its measures and what it guarantees."""
