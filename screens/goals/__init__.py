"""The groups of conversations with one goal: list, members, map, drift."""
