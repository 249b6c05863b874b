"""Reviewing merge proposals: one pair of groups at a time."""
