"""`workbench analyse trees`: the response trees that stand out, as in appendix C.2.2 of Soroka et al., and how probable
a property is over all."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.base.errors import NotYet
from engine.conversations.filters import ListQuery
from engine.conversations.service.line_files import write_file
from engine.opener.open_project import OpenProject
from engine.trees.reports import lines, table, unusual
from workbench.commands.narration import Result, narrate
from workbench.commands.options import add_filter, add_formulas, read_filter
from workbench.commands.report_text import table_lines
from workbench.exits import DONE


def trees_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `analyse trees`."""
    parser.add_argument("project")
    add_filter(parser)
    parser.add_argument(
        "--property",
        metavar="P",
        help="bound the probability of `contains yes`, ... over the first answers of all conversations (one"
        " conversation: `workbench tree --property`)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="also write the rows, as .csv or as lines of JSON"
    )
    add_formulas(parser)


def trees(arguments: argparse.Namespace) -> int:
    """Prints the trees with the most branches whose best response is improbable, with state and goal.

    Raises:
        UsageError: There is no tree, or --property names no property.
        ProjectError: The file cannot be written.
    """
    query = ListQuery(read_filter(arguments.filter))
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        service = workspace.trees
        items = service.items(query)
        grown = [item for item in items if item.row.reason is None]
        if not grown:
            raise NotYet("There is no tree.", "`workbench run trees PROJECT --paper` grows them.")
        asked = service.bounds_of_all(grown, arguments.property) if arguments.property else None
    found = unusual(items)
    if arguments.output:
        path = Path(arguments.output)
        kind = "csv" if path.suffix == ".csv" else "jsonl"
        write_file(lines(found), path, kind, formulas=arguments.formulas)
        narrate(f"Wrote {len(found):,} lines to {path}.")
    shown = table(found, len(grown))
    text = [shown.notes[0], *(table_lines(shown) if found else [])]
    result: dict[str, Any] = {"of": len(grown), "trees": lines(found)}
    if asked is not None:
        text = [*asked.lines, "", *text]
        result["property"] = asked.as_json()
    Result(text, result).print(arguments.json)
    return DONE
