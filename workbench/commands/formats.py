"""`workbench formats`: the formats of logs that an import knows, the person's own first."""

from __future__ import annotations

import argparse

from engine.formats.registry import all_readers, built_in, mapping_folder, unusable
from workbench.commands.narration import narrate, print_json, print_text
from workbench.exits import DONE


def formats(arguments: argparse.Namespace) -> int:
    """Prints name and records of each format."""
    ours = set(built_in())
    known = [
        {
            "name": reader.name,
            "records": reader.title,
            "from": "workbench" if reader in ours else "you",
        }
        for reader in sorted(all_readers(), key=lambda reader: (reader in ours, reader.name))
    ]
    if arguments.json:
        print_json({"folder": str(mapping_folder()), "formats": known})
        return DONE
    width = max(len(one["name"]) for one in known)
    for one in known:
        mark = "" if one["from"] == "workbench" else "  (yours)"
        print_text(f"{one['name']:<{width}}  {one['records']}{mark}")
    for error in unusable():
        narrate(f"{error.message} {error.hint}")
    narrate(
        f"Your own mapping files belong into {mapping_folder()}; `workbench import --map` makes one."
    )
    return DONE
