"""Finds, counts and orders conversations in the project file: queries, indexes, pages of rows."""
