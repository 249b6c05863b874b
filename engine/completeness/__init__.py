"""Whether conversations are complete: the probability that a conversation ends at each place where it could end."""
