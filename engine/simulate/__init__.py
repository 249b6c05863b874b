"""Conversations made here instead of recorded. Pure: neither SQL nor models nor processes."""
