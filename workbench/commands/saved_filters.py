"""`workbench filters`: the filters that are saved under names."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.base.errors import NotFound, UsageError
from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from workbench.commands.narration import print_json, print_text
from workbench.commands.options import read_filter
from workbench.exits import DONE


def saved_filters_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `saved_filters`."""
    parser.add_argument("project")
    act = parser.add_mutually_exclusive_group()
    act.add_argument(
        "--save", nargs=2, metavar=("NAME", "FILTER"), help="save a filter, or change a saved one"
    )
    act.add_argument("--delete", metavar="NAME", help="delete a saved filter")


def saved_filters(arguments: argparse.Namespace) -> int:
    """Saves or deletes a filter, if asked to, and prints all that are saved.

    Raises:
        UsageError: There is no such filter to delete, a name is empty, or the filter cannot be understood.
    """
    changes = arguments.save is not None or arguments.delete is not None
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        saved = workspace.saved
        if arguments.save is not None:
            name, text = arguments.save
            if not name.strip():
                raise UsageError("A filter needs a name.", "--save NAME FILTER")
            saved.save_filter(name.strip(), str(read_filter(text)))
        if arguments.delete is not None:
            if arguments.delete not in saved.filters():
                raise NotFound(
                    f"No filter is called {arguments.delete!r}.",
                    f"Saved: {', '.join(saved.filters()) or 'none'}.",
                )
            saved.delete_filter(arguments.delete)
        found = saved.filters()
    if arguments.json:
        print_json({"filters": found})
        return DONE
    for name, text in found.items():
        print_text(f"{one_line(name)}: {text}")
    if not found:
        print_text("No filters are saved.")
    return DONE
