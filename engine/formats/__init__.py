"""Reads conversations from files: one reader for each format, auto-detection, leak guard."""

from engine.formats.detect import FORMATS
from engine.formats.inputs import open_inputs
from engine.formats.single import parse_made
from engine.records.imports import Detection, Input, Leak, Parsed, Rejected

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
