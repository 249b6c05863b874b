"""The reference of all commands, from the parser of the command line; `python -m tests.command_reference` writes it.

Two files: a page of the documentation, and the man page that the wheel installs. A third one has the codes of errors.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

from argparse_manpage.manpage import Manpage

from workbench.cli import EPILOG, Parser, build_parser
from workbench.commands.explaining import errors_page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGE, MANUAL, ERRORS = FOLDER / "commands.md", FOLDER / "workbench.1", FOLDER / "errors.md"
EVERYWHERE = ("help", "json", "offline")
"""Options of all commands, which are explained once."""


def main() -> int:
    """Writes the files."""
    PAGE.write_text(page(), encoding="utf-8")
    ERRORS.write_text(errors_page(), encoding="utf-8")
    MANUAL.write_text(manual(), encoding="utf-8")
    return 0


def page() -> str:
    """All commands as a page in Markdown."""
    parts = [
        "# Commands",
        "All commands with their options, as `workbench COMMAND --help` prints them. `workbench PATH` is"
        " `workbench open PATH`, and `workbench train PROJECT` is `workbench train start PROJECT`. Every command takes"
        " `--json` (print the result as JSON), `--offline` (use no network, not even for endpoints and hubs that"
        " you named) and `--help`.",
        f"```text\n{EPILOG}\n```",
        "This page is generated: `python -m tests.command_reference`.",
    ]
    parts += [
        _section(parser)
        for parser in build_parser().with_commands()
        if not any(isinstance(each, argparse._SubParsersAction) for each in parser._actions)
    ]
    return "\n\n".join(parts) + "\n"


def manual() -> str:
    """All commands as a man page, without a date, so that it changes only when they do."""
    parser: Any = build_parser()
    os.environ["COLUMNS"] = "80"  # of the usage lines, whatever the terminal
    for each in parser.with_commands():
        each.description = each.description and each.description[:1].upper() + each.description[1:]
    parser.man_short_description = (
        "what users wanted, whether conversations ended, how sure the model was"
    )
    head = '.TH WORKBENCH "1" "" "" "Conversation Workbench"'
    return re.sub(r"^\.TH .*$", head, str(Manpage(parser)), count=1, flags=re.M)


def _section(parser: Parser) -> str:
    actions = [each for each in parser._actions if each.dest not in EVERYWHERE]
    described = parser.description or ""
    lines = [f"## {parser.prog}", "", f"{described[:1].upper()}{described[1:]}."]
    if actions:
        lines += ["", "| | |", "|---|---|"]
    for each in actions:
        text = " ".join((each.help or "").replace("%%", "%").split())
        lines.append(f"| `{_written(each)}` | {_cell(text)} |")
    return "\n".join(lines)


def _written(action: argparse.Action) -> str:
    """An option or a word as one writes it, such as `--mode MODE`, `[PATH ...]`."""
    if isinstance(action.metavar, tuple):
        value = " ".join(action.metavar)
    elif action.choices is not None and not action.metavar:
        value = " \\| ".join(map(str, action.choices))
    else:
        value = action.metavar or action.dest.upper()
    value = {0: "", "?": f"[{value}]", "+": f"{value} ...", "*": f"[{value} ...]"}.get(
        action.nargs or 1, value
    )
    if action.nargs == 0:
        value = ""
    return f"{', '.join(action.option_strings)} {value}".strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
