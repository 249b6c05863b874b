"""Textual only: screens and their widgets. They see of the engine rows, events, errors and the ports they are handed."""
