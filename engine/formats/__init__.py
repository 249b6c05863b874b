"""Reads conversations from files: one reader for each format, auto-detection, leak guard."""
