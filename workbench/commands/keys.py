"""`workbench keys`: the table of keys that is in force, and what is wrong with `keymap.toml`."""

from __future__ import annotations

import argparse

from engine import folders
from screens.shell.key_table import Place, key_table, markdown, shown_key
from workbench.app import WorkbenchApp
from workbench.commands.narration import say, show, tell
from workbench.commands.tui import load_keymap
from workbench.exits import DONE, FAILED


def keys(arguments: argparse.Namespace) -> int:
    """Prints the keys; as a page of the documentation they are the default ones."""
    if arguments.markdown:
        say(markdown(key_table(WorkbenchApp)).rstrip("\n"))
        return DONE
    keymap, problems = load_keymap()
    places = key_table(WorkbenchApp, keymap)
    if arguments.json:
        show(
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
            say("\n".join(_lines(place, keymap)))
        tell(f"To change them: {folders.keymap_file()}")
    for problem in problems:
        tell(problem)
    return FAILED if problems else DONE


def _lines(place: Place, keymap: dict[str, str]) -> list[str]:
    lines = [f"{place.title}: {place.what}"]
    for action in place.actions:
        shown = " ".join(shown_key(key) for key in action.keys)
        mark = "*" if action.id in keymap else " "
        lines.append(f" {mark}{shown:<20} {action.meaning:<48} {action.id}")
    return [*lines, ""]
