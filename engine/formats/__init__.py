"""Reads conversations from files: one reader for each format, auto-detection, leak guard."""

from engine.formats.inputs import open_inputs
from engine.formats.readers import all_readers
from engine.formats.single import parse_made
from engine.records.imports import Detection, Input, Leak, Parsed, Rejected

__all__ = [
    "Detection",
    "Input",
    "Leak",
    "Parsed",
    "Rejected",
    "all_readers",
    "open_inputs",
    "parse_made",
]
