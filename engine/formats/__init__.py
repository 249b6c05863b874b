"""Reads conversations from files: one reader for each format, auto-detection, leak guard."""

from engine.formats.detect import FORMATS
from engine.formats.inputs import open_inputs
from engine.formats.records import Detection, Input, Leak, Parsed, Rejected
from engine.formats.single import parse_made

__all__ = [
    "FORMATS",
    "Detection",
    "Input",
    "Leak",
    "Parsed",
    "Rejected",
    "open_inputs",
    "parse_made",
]
