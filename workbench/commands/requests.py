"""`workbench requests`: the requests of conversations, found and corrected."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.number_format import counted, probability
from engine.base.outcomes import (
    State,
)
from engine.base.text import one_line
from engine.completeness.request_view import requests_of
from engine.completeness.starts_by_curve import FALL
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.simulate.service.request_starts import asking_simulation, starts_by_conversation
from workbench.commands.goals import conversation
from workbench.commands.narration import Result, narrate, print_json, print_text, run_stages
from workbench.commands.options import add_filter, add_labelling, positive, read_filter
from workbench.commands.playing import exit_code, played, read_options
from workbench.commands.report_text import cell_lines
from workbench.commands.scores import narrate_set
from workbench.exits import DONE


def find_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `find`."""
    parser.add_argument("project")
    parser.add_argument(
        "--by",
        choices=["curve", "model"],
        default="curve",
        help="curve: where the score falls; model: ask a model about each message of the user (default: curve)",
    )
    parser.add_argument(
        "--fall",
        type=float,
        default=FALL,
        metavar="X",
        help=f"with --by curve, least fall of the score over a turn, 0 to 1: less finds more (default: {FALL})",
    )
    add_labelling(parser)
    add_filter(parser)


def find(arguments: argparse.Namespace) -> int:
    """Finds where requests after the first begin, in place of what was found before. What a person said stays.

    Raises:
        UsageError: Nothing matches, or nothing is scored.
        WorkbenchError: A model cannot be had.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        wanted = _wanted(workspace, arguments.filter)
        code = DONE
        if arguments.by == "curve":
            narrate_set(workspace.score_sets)
            scored = [
                row.id for row in workspace.conversations.rows(wanted) if row.p_end is not None
            ]
            if not scored:
                raise NotYet(
                    "None of these conversations has a score.", "`workbench run complete PROJECT`."
                )
            looked_at, found = len(scored), workspace.requests.find_by_curve(scored, arguments.fall)
        else:
            options = read_options(arguments)
            simulation = asking_simulation(
                workspace.simulation_runs, workspace.project, wanted, options
            )
            rows = played(workspace, simulation)
            over = [row for row in rows if row.reason is None]
            looked_at = len(over)
            found = workspace.requests.store_found_by_model(starts_by_conversation(over))
            code = exit_code(rows)
    if arguments.json:
        print_json({"conversations": looked_at, "further_requests": found})
    else:
        print_text(
            f"Found {counted(found, 'further request')} in {counted(looked_at, 'conversation')}."
        )
    return code


def list_requests_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `list_requests`."""
    parser.add_argument("project")
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="only the first N conversations"
    )
    add_filter(parser)


def list_requests(arguments: argparse.Namespace) -> int:
    """Prints the requests of conversations with completeness and goal, a row each, the first ones included.

    Raises:
        UsageError: Nothing matches.
    """
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        wanted = _wanted(workspace, arguments.filter)[: arguments.limit]
        names = {row.id: row.external_id for row in workspace.conversations.rows(wanted)}
        with workspace.project.reading() as conn:
            found = list(requests_of(conn, wanted))
    lines = cell_lines(
        [
            ("conversation", "text"), ("request", "count"), ("requests", "count"), ("turn", "count"),
            ("user messages", "count"), ("state", "text"), ("p", "text"), ("goal", "text"),
            ("opening", "text"),
        ],
        [
            (
                one_line(names[key], 30), one.number, len(requests), one.turn, one.user_messages,
                str(one.state), probability(one.p), one_line(one.goal or "", 30),
                one_line(one.opening, 60),
            )
            for key, requests in found
            for one in requests
        ],
    )  # fmt: skip
    result = [
        {"conversation": names[key], "requests": [asdict(one) for one in requests]}
        for key, requests in found
    ]
    Result(lines, {"conversations": result}).print(arguments.json)
    return DONE


def goals_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `goals`."""
    parser.add_argument("project")
    add_filter(parser)


def goals(arguments: argparse.Namespace) -> int:
    """Assigns each request of conversations with several to a goal of the clustering that is shown, and prints how
    many requests of each goal are in each state. The only request of a conversation has the goal of the conversation.

    Raises:
        UsageError: Nothing matches, nothing was clustered, or the clustering is of summaries.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        wanted = _wanted(workspace, arguments.filter)
        stage = workspace.goal_stages().assign_requests(read_filter(arguments.filter))
        run_stages(workspace, [stage])
        counts: dict[str | None, Counter[str]] = {}
        with workspace.project.reading() as conn:
            for _, found in requests_of(conn, wanted):
                for one in found:
                    row = counts.setdefault(one.goal, Counter())
                    row.update(["requests", str(one.state), *["further"] * (one.number > 1)])
    columns = ("requests", "further", *map(str, State))
    order = sorted(counts, key=lambda goal: (goal is None, -counts[goal]["requests"], goal or ""))
    lines = cell_lines(
        [("goal", "text"), *((name, "count") for name in columns)],
        [
            (one_line(goal or "in no goal", 40), *(counts[goal][name] for name in columns))
            for goal in order
        ],
    )
    values = [{"goal": goal, **{name: counts[goal][name] for name in columns}} for goal in order]
    Result(lines, {"assigned": stage.assigned, "novel": stage.novel, "goals": values}).print(
        arguments.json
    )
    return DONE


def mark_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `mark`."""
    parser.add_argument("project")
    parser.add_argument("conversation", metavar="ID", help="id of the conversation")
    parser.add_argument(
        "turn",
        type=positive,
        metavar="TURN",
        help="number of the turn, as in `requests list` and in the reader",
    )
    parser.add_argument(
        "--not", dest="none", action="store_true", help="no request begins there, whatever is found"
    )
    parser.add_argument(
        "--annotator", default="", metavar="NAME", help="name of the person who marks it"
    )


def mark(arguments: argparse.Namespace) -> int:
    """Says that a further request begins with a turn, or that none does.

    Raises:
        UsageError: There is no such conversation or turn.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        key = conversation(workspace, arguments.conversation)
        of_user = [one for one in workspace.conversations.messages(key) if one.role == "user"]
        message = next((one for one in of_user[1:] if one.turn == arguments.turn), None)
        if message is None:
            turns = ", ".join(str(one.turn) for one in of_user[1:]) or "none"
            raise UsageError(
                f"No further request can begin with turn {arguments.turn}.",
                f"Turns in which the user speaks again: {turns}.",
            )
        workspace.requests.mark(key, message.index, arguments.annotator, begins=not arguments.none)
        found = workspace.requests.of_conversation(key)
    if arguments.json:
        print_json(
            {
                "conversation": arguments.conversation,
                "requests": [asdict(one) for one in found],
            }
        )
    else:
        narrate(f"The conversation has {counted(len(found), 'request')} now.")
    return DONE


def undo_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `undo`."""
    parser.add_argument("project")
    parser.add_argument(
        "--annotator", default="", metavar="NAME", help="name of the person who takes it back"
    )


def undo(arguments: argparse.Namespace) -> int:
    """Takes back the newest mark that is in force, whichever conversation it is of.

    Raises:
        NotYet: There is none.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        undone = workspace.requests.undo(arguments.annotator)
        if undone is None:
            raise NotYet(
                "There is nothing to undo.", "`workbench requests mark` makes the first mark."
            )
        [row] = workspace.conversations.rows([undone.conversation_id])
        turn = workspace.conversations.messages(row.id)[undone.message].turn
    said = "a request begins" if undone.begins else "no request begins"
    Result(
        [f"Taken back: {said} with turn {turn} of “{one_line(row.external_id)}”."],
        {"undone": {"conversation": row.external_id, "turn": turn, "begins": undone.begins}},
    ).print(arguments.json)
    return DONE


def _wanted(services: OpenProject, text: str) -> Sequence[int]:
    found = services.conversations.ids(ListQuery(read_filter(text)))
    if not found:
        raise NotFound("No conversation matches.", "Leave out --filter, or import some.")
    return found
