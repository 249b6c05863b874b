"""Whether users got what they wanted: boundaries, windows, packing and scoring. Pure: given a model it computes."""
