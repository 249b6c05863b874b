"""`workbench run splits`: groups of conversations that seem to hold several goals."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.text import one_line
from engine.goals.records import SplitProposal
from engine.opener.open_project import OpenProject
from workbench.commands.narration import Result, narrate, run_stages
from workbench.commands.options import positive
from workbench.commands.report_text import cell_lines
from workbench.exits import DONE

LONGEST = 40


def run_splits_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_splits`."""
    parser.add_argument("project")
    parser.add_argument(
        "--ask", action="store_true", help="ask a model first whether the parts are one goal"
    )
    parser.add_argument("--model", metavar="M", help="the model that is asked")
    parser.add_argument("--limit", type=positive, metavar="N", help="ask about at most N groups")
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="GROUP",
        help="split this group as proposed; may be repeated",
    )


def run_splits(arguments: argparse.Namespace) -> int:
    """Lists the groups whose two parts lie about as far apart as groups do, and splits those that are accepted.

    Raises:
        UsageError: Nothing was clustered yet, or a group is not proposed.
    """
    with OpenProject(
        Path(arguments.project), read_only=not (arguments.ask or arguments.accept)
    ) as workspace:
        if arguments.ask:
            stages = workspace.goal_stages().ask_splits(arguments.model, arguments.limit)
            run_stages(workspace, stages)
        goals = workspace.goals
        found = goals.split_proposals()
        proposed = {one.group_id: one for one in found}
        for group in arguments.accept:
            if group not in proposed:
                raise UsageError(
                    f"{group} is not proposed for splitting.",
                    f"These are: {', '.join(proposed) or 'none'}.",
                )
        for group in arguments.accept:
            goals.split(group, proposed[group].parts)
            narrate(f"Split {group}; `u` in the goals undoes it.")
        left = [one for one in found if one.group_id not in arguments.accept]
    rows = [
        {key: value for key, value in asdict(one).items() if key != "parts"}
        | {"sizes": [len(part) for part in one.parts]}
        for one in found
    ]
    Result(_lines(left), {"proposals": rows, "split": arguments.accept}).print(arguments.json)
    return DONE


def _lines(found: list[SplitProposal]) -> list[str]:
    if not found:
        return ["No group seems to hold several goals."]
    return cell_lines(
        [
            ("group", "text"), ("label", "text"), ("parts", "text"), ("apart", "share"), ("one goal", "share"),
            ("words of the parts", "text"),
        ],
        [
            (
                one.group_id, one_line(one.label, LONGEST), " + ".join(f"{len(part):,}" for part in one.parts),
                one.apart, one.same, one_line(" | ".join(" ".join(words) for words in one.words), 2 * LONGEST),
            )
            for one in found
        ],
    )  # fmt: skip
