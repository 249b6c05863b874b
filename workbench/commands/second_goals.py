"""`workbench second-goals`: what other goals a conversation has, and whether it has them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.number_format import figure
from engine.base.text import one_line
from engine.goals.records import LEAST_SHARE, SecondGoal
from engine.opener.open_project import OpenProject
from workbench.commands.narration import narrate, print_json, print_text
from workbench.exits import DONE


def second_goals_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `second-goals`."""
    parser.add_argument("project")
    parser.add_argument(
        "conversation", nargs="?", help="id of the conversation; not needed for --undo"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"also list those with a share below {figure(LEAST_SHARE)}; most of them are wrong, and they cannot be"
        " confirmed",
    )
    act = parser.add_mutually_exclusive_group()
    act.add_argument("--confirm", metavar="GOAL", help="the conversation has this second goal")
    act.add_argument("--remove", metavar="GOAL", help="the conversation has not this second goal")
    act.add_argument(
        "--undo", action="store_true", help="take back the newest confirmation or removal"
    )
    parser.add_argument(
        "--annotator", metavar="NAME", default="", help="name of the person who judges"
    )


def second_goals(arguments: argparse.Namespace) -> int:
    """Lists the second goals of a conversation, after it confirmed or removed one, or took that back.

    Raises:
        UsageError: There is no such conversation, or it has no such second goal.
        NotYet: There is nothing to undo.
    """
    changes = arguments.undo or arguments.confirm is not None or arguments.remove is not None
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        if arguments.undo:
            return _undo(workspace, arguments)
        if arguments.conversation is None:
            raise UsageError("No conversation is named.", "Name one by its id.")
        key = _conversation(workspace, arguments.conversation)
        for judgement in ("confirm", "remove"):
            label = getattr(arguments, judgement)
            if label is not None:
                group = _named(workspace.goals.second_goals(key), label).group_id
                workspace.goals.judge_second_goal(key, group, judgement, arguments.annotator)
        found = workspace.goals.second_goals(key, 0.0 if arguments.all else LEAST_SHARE)
    if arguments.json:
        print_json(
            {"conversation": arguments.conversation, "second_goals": list(map(asdict, found))}
        )
        return DONE
    for one in found:
        print_text(f"{one.share:.2f}  {one.state:<10} {one_line(one.label)}")
    if not found:
        none = (
            "No other goal is near."
            if arguments.all
            else f"No other goal has a share of {figure(LEAST_SHARE)} or more."
        )
        print_text(none)
    return DONE


def _undo(services: OpenProject, arguments: argparse.Namespace) -> int:
    undone = services.goals.undo_second_goal(arguments.annotator)
    if undone is None:
        raise NotYet(
            "There is nothing to undo.",
            "`workbench second-goals PROJECT CONVERSATION --confirm GOAL` confirms one.",
        )
    if arguments.json:
        print_json({"undone": asdict(undone)})
    else:
        done = "confirmed" if undone.kind == "confirm" else "removed"
        narrate(f"“{one_line(undone.label)}” is no longer {done}.")
    return DONE


def _conversation(services: OpenProject, name: str) -> int:
    found = services.conversations.named(name)
    if not found:
        raise NotFound(
            f"There is no conversation “{one_line(name)}”.", "`workbench list` has their ids."
        )
    return found[0]


def _named(found: list[SecondGoal], label: str) -> SecondGoal:
    named = [one for one in found if one.label.casefold() == label.casefold()]
    for one in named or found:
        if named or one.group_id == label.casefold():
            return one
    labels = ", ".join(f"“{one_line(one.label)}”" for one in found) or "none"
    raise NotFound(
        f"The conversation has no second goal “{one_line(label)}”.", f"Second goals: {labels}."
    )
