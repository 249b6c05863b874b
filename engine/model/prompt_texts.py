"""The prompts of plays: text files with places in double brackets, `[[LIKE_THIS]]`, in a folder for each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

_PLACE = re.compile(r"\[\[([A-Z0-9_]+)\]\]")


def prompt_kinds() -> list[str]:
    """Returns the kinds of plays that have prompt texts."""
    folder = resources.files("engine.model") / "prompts"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


def prompt_texts(kind: str) -> dict[str, str]:
    """Returns the bundled prompt texts of one kind of play by name: the files `prompts/KIND/*.txt`."""
    folder = resources.files("engine.model") / "prompts" / kind
    return {
        file.name.removesuffix(".txt"): file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".txt")
    }


def places(text: str) -> frozenset[str]:
    """Returns the names of the places in a prompt text."""
    return frozenset(_PLACE.findall(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Returns a prompt text with its places filled in one pass, so that brackets in a value stay unchanged.

    Raises:
        KeyError: A place has no value.
    """
    return _PLACE.sub(lambda place: values[place.group(1)], text)
