"""Whether conversations are complete: boundaries, windows, packing and scoring. Pure: given a model it computes."""
