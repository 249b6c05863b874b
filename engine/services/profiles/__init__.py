"""Users of a project, simulated and real: their words, their profiles, and predictions of them."""
