"""`workbench prompts`: shows and edits the prompts of a project."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.text import display_safe
from engine.model.service.run_setup import (
    names,
    shipped,
)
from engine.opener.open_project import OpenProject
from workbench.narration import narrate, print_json, print_text


def prompts_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `prompts`."""
    parser.add_argument("project")
    parser.add_argument("name", nargs="?", help="print this prompt")
    parser.add_argument("--set", metavar="FILE", dest="file", help="use the prompt in this file")
    parser.add_argument("--reset", action="store_true", help="go back to the built-in prompt")


def prompts(arguments: argparse.Namespace) -> int:
    """Lists, prints, replaces or resets the prompts of a project."""
    changing = arguments.file is not None or arguments.reset
    with OpenProject(Path(arguments.project), read_only=not changing) as workspace:
        if arguments.name is None:
            if changing:
                raise UsageError("Which prompt?", f"Prompts are: {', '.join(names())}.")
            edited = {name: workspace.prompts.source(name) != shipped(name) for name in names()}
            if arguments.json:
                print_json({"prompts": [{"name": n, "edited": e} for n, e in edited.items()]})
            else:
                for name, changed in edited.items():
                    print_text(f"{name}{'  (edited)' if changed else ''}")
            return 0
        if changing:
            workspace.prompts.edit(arguments.name, _read(arguments.file))
            narrate("What was made with another prompt stays; a new run adds a new set beside it.")
        source = workspace.prompts.source(arguments.name)
        if arguments.json:
            print_json({"name": arguments.name, "text": source})
        elif not changing:
            sys.stdout.write(display_safe(source) if sys.stdout.isatty() else source)
    return 0


def _read(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
