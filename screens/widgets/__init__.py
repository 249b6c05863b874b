"""Widgets and formatting that several screens share."""
