"""Formats that need code."""
