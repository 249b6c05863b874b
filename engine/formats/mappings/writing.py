"""Writes the content of a mapping file as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def as_toml(table: Mapping[str, Any]) -> str:
    """A mapping file's content as TOML: plain keys first, then tables, then lists of tables."""
    plain: list[str] = []
    tables: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = [f"{_toml_key(name)} = {_toml(entry)}" for name, entry in value.items()]
            tables.append("\n".join(["", f"[{key}]", *rows]))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                rows = [f"{_toml_key(name)} = {_toml(inner)}" for name, inner in entry.items()]
                tables.append("\n".join(["", f"[[{key}]]", *rows]))
        else:
            plain.append(f"{key} = {_toml(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML: a text, a truth value, a list, or a table within a line."""
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{_toml_key(key)} = {_toml(one)}" for key, one in value.items())
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON and TOML write texts and truth values alike
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
