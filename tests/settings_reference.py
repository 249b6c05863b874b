"""The reference of settings, from the code that reads them; `python -m tests.settings_reference` writes it.

A setting of a project is a constant of the module that reads it, with a docstring that begins with "Setting:".
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.completeness.records import DecisionRule
from engine.model.endpoints.endpoint_book import EndpointEntry
from workbench.launcher import PreferenceValues

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "reference" / "settings.md"
MARK = "Setting: "
IN_FILES = {"can": "capabilities"}
"""Names of fields that a file calls otherwise."""
_CALL = re.compile(r"\bsettings\.(?:get|put)\(\s*\w+,\s*(?:\"([\w.]+)\"|([A-Z_]+)\b)")
"""A setting that is read or written: its name, or the constant that holds it."""


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


def page() -> str:
    """All settings as a page in Markdown."""
    parts = [
        "# Settings",
        "What the program remembers. Nothing here has to be set: without any of these files, and in a new project, the"
        " defaults hold. Options of a command are no settings: they hold for that run ([commands](commands.md))."
        " Folders and variables of the environment are on [their own page](files.md).",
        "This page is generated: `python -m tests.settings_reference`.",
        "## For you: preferences.json",
        "In the configuration folder. The program writes it; a file that cannot be read is moved aside.",
        _table(("name", "default", "meaning"), _rows(PreferenceValues)),
        "## Your keys: keymap.toml",
        "In the configuration folder; `workbench keys` says where, and whether something in it is wrong. You write it."
        " Without it, each action has the keys of [the table of keys](../keys.md).",
        _table(
            ("name", "default", "meaning"),
            [
                (
                    "`[keys]` `NAME`",
                    "of the table",
                    "the keys of an action, with commas between them; `NAME` stands in the last column of the table of"
                    " keys",
                ),
            ],
        ),
        "## Models and endpoints: models.json, endpoints.json",
        "In the data folder. `workbench models` writes both; they are not meant to be edited. `models.json` has the"
        " paths of added models and adapters, their checksums, and what was measured of them on this machine."
        " `endpoints.json` has for each name:",
        _table(("name", "default", "meaning"), _rows(EndpointEntry)),
        "## In a project",
        "In the table `setting` of the project file, as JSON. They are changed by keys and commands, not by hand.",
        _table(("name", "meaning"), _project_rows()),
        "The decision rule, `rule`:",
        _table(("name", "default", "meaning"), _rows(DecisionRule)),
    ]
    return "\n\n".join(parts) + "\n"


def project_settings() -> dict[str, str]:
    """The meaning of each setting of a project, by name; a name in capitals stands for many."""
    found: dict[str, str] = {}
    for _, value, meaning in _constants(_sources()):
        if value.endswith("."):
            name = f"{value}NAME"
        elif value == "shared_text":
            name = "shared_text, shared_text:HASH"
        else:
            name = value
        found[name] = meaning
    return dict(sorted(found.items()))


def unexplained() -> set[str]:
    """Settings that code reads or writes without a constant that explains them."""
    known = project_settings().keys()
    found: set[str] = set()
    for path in _sources():
        text = path.read_text(encoding="utf-8")
        explained = {name for name, _, _ in _constants([path])}
        for name, constant in _CALL.findall(text):
            if name and name not in known:
                found.add(name)
            if re.search(rf"^{constant} = ", text, re.M) and constant not in explained:
                found.add(f"{constant} in {path.relative_to(REPOSITORY)}")
    return found


def attributes(record: type) -> dict[str, str]:
    """What the docstring of a record says of its attributes, by name."""
    lines = (inspect.getdoc(record) or "").partition("Attributes:\n")[2].split("\n\n")[0]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(lines).splitlines():
        if not line.startswith(" ") and ":" in line:
            head, _, text = line.partition(":")
            names = head.split(", ")
            found |= dict.fromkeys(names, text.strip())
        else:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def _constants(paths: Iterable[Path]) -> Iterator[tuple[str, str, str]]:
    """Constant, name and meaning of the settings that these files explain."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        body = ast.parse(text).body if MARK in text else []
        for statement, following in pairwise(body):
            if (
                isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Constant)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
                and str(following.value.value).startswith(MARK)
            ):
                (target,) = statement.targets
                meaning = " ".join(str(following.value.value).removeprefix(MARK).split())
                yield ast.unparse(target), str(statement.value.value), meaning.rstrip(".")


def _sources() -> Iterator[Path]:
    for room in ("engine", "workbench"):
        yield from sorted((REPOSITORY / room).rglob("*.py"))


def _rows(record: Any) -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning of each field of a record."""
    meanings = attributes(record)
    for field in fields(record):
        if record is EndpointEntry and field.name == "name":
            continue
        default = "" if field.default is MISSING else _written(field.default)
        meaning = meanings[field.name].rstrip(".").replace("None", "none")
        yield f"`{IN_FILES.get(field.name, field.name)}`", default, meaning


def _written(value: object) -> str:
    return "none" if value in (None, "", ()) else f"`{value}`"


def _project_rows() -> Iterator[tuple[str, str]]:
    for name, meaning in project_settings().items():
        yield ", ".join(f"`{each}`" for each in name.split(", ")), meaning


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, *rows]
    written = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([written[0], "|---" * len(head) + "|", *written[1:]])


if __name__ == "__main__":
    sys.exit(main())
