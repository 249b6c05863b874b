"""Formats as data: the mapping files of the program, and what reads, applies and guesses such files."""
