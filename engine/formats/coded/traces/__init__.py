"""Traces: where each tool that records calls of models has its spans, their times, sessions and messages.

`spans` makes conversations of the spans of any of them.
"""
