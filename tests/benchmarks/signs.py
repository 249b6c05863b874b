"""How well signs of trouble tell failed conversations: `python -m tests.benchmarks.signs PROJECT:FILTER...`.

A filter selects the conversations that failed by their truth, such as `intercode.wb:truth.reward<1`. Of each project
the AUROC of the sum of the signs, and of each sign with that of the sum without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.base.arrays import Bools, Floats
from engine.base.number_format import figure
from engine.base.sign import Sign
from engine.base.statistics.ranking import auroc
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.signs import tables
from engine.signs.sums import standard_scores, trouble


def read(project: str, filter: str) -> tuple[Floats, Bools]:
    """The standard scores of the signs, shape (conversations, signs), and which conversations a filter selects."""
    with OpenProject(Path(project), read_only=True) as workspace:
        values = workspace.project.read(tables.sign_values)
        failed = workspace.conversations.ids(ListQuery(parse_filter(filter)))
    return standard_scores(values.values), np.isin(values.ids, failed)


def cells(scores: Floats, failed: Bools) -> list[str]:
    """Numbers of conversations, and the AUROC of all signs with its interval, of each one, and of all without it."""
    labels = failed.tolist()
    total = auroc(trouble(scores).tolist(), labels)
    shown = [f"{len(failed):,}, {failed.mean():.0%}"]
    shown.append(f"**{figure(total.value)}** ({figure(total.low)} to {figure(total.high)})")
    for column in range(len(Sign)):
        alone, without = scores[:, column], scores.copy()
        without[:, column] = 0
        shown.append(
            f"{figure(auroc(alone.tolist(), labels).value)},"
            f" {figure(auroc(trouble(without).tolist(), labels).value)}"
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a column for each project, in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.signs")
    parser.add_argument("sets", nargs="+", metavar="PROJECT:FILTER")
    sets = [each.partition(":") for each in parser.parse_args(arguments).sets]
    columns = [cells(*read(project, filter)) for project, _, filter in sets]
    titles = ["conversations, failed", "sum", *(f"`{sign}`" for sign in Sign)]
    print("|", *(f"| {Path(project).stem}, `{filter}`" for project, _, filter in sets), "|")
    print("|---|" + "--:|" * len(sets))
    for title, *row in zip(titles, *columns, strict=True):
        print("|", title, "|", " | ".join(row), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
