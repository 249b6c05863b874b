"""Decisions on groups: replay, transfer to a new clustering, merge probability, order of the queue."""
