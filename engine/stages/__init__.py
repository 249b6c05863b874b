"""The stages, one for each kind of long work: a generator that commits its results batch by batch and yields
progress."""
