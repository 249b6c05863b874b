"""Conversations in the forms of other programs."""
