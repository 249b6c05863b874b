"""Decisions on groups: replaying them, taking them over to a new clustering, and how probable the next one is."""
