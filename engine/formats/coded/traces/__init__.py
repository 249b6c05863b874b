"""Traces: a module for each tool that records calls of models reads its spans, with times, sessions and messages.

`spans` makes conversations of the spans of all tools; `readers` has the reader of each.
"""
