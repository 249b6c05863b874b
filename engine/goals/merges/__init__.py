"""Merge decisions: their replay, their transfer to a new clustering, the merge probability, the order of the queue."""
