"""`workbench keys`: the table of keys that is in force, and what is wrong with `keymap.toml`."""

from __future__ import annotations

import argparse

from engine.base import folders
from workbench import launcher
from workbench.narration import narrate, print_json, print_text
from workbench.result import DONE, FAILED


def keys_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `keys`."""
    parser.add_argument(
        "--markdown",
        action="store_true",
        help="print the default keys as a page of the documentation",
    )


def keys(arguments: argparse.Namespace) -> int:
    """Prints the keys; as a page of the documentation they are the default ones."""
    if arguments.markdown:
        print_text(launcher.default_keys_page().rstrip("\n"))
        return DONE
    places, keymap, problems = launcher.keys_in_force()
    if arguments.json:
        print_json(
            {
                "file": str(folders.keymap_file()),
                "problems": problems,
                "keys": [
                    {
                        "id": action.id,
                        "place": place.name,
                        "keys": list(action.keys),
                        "what": action.meaning,
                        "changed": action.id in keymap,
                    }
                    for place in places
                    for action in place.actions
                ],
            }
        )
    else:
        for place in places:
            print_text("\n".join(launcher.key_lines(place, keymap)))
        narrate(f"To change them: {folders.keymap_file()}")
    for problem in problems:
        narrate(problem)
    return FAILED if problems else DONE
