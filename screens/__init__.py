"""Textual only: screens and their widgets. Of the engine they see rows, events, errors, text and their ports."""
