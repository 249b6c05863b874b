"""Scoring: makes the runs of a request, estimates their cost, and lists the sets of scores."""
