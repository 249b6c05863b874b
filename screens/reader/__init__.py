"""The reader: one conversation in full."""
