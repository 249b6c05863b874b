"""Users of a project, simulated and real: what they said and who they are, and what a model says of them."""
