"""`workbench requests`: what a conversation holds beside its first request."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from engine.base.conversation import State
from engine.base.errors import NotYet, UsageError
from engine.base.number_format import counted, probability
from engine.base.text import one_line
from engine.completeness.requests import MIN_SCORE_FALL
from engine.opener.open_project import OpenProject
from workbench.arguments import (
    FILTER,
    PROJECT,
    annotator,
    argument,
    number,
    positive,
    switch,
    takes,
    unit_interval,
)
from workbench.command_result import CommandResult
from workbench.commands.goals import conversation
from workbench.commands.listing import matching
from workbench.commands.summaries import narrate_set
from workbench.narration import run_stages
from workbench.text_tables import cell_lines


@takes(
    PROJECT,
    argument(
        "--fall",
        type=unit_interval,
        default=MIN_SCORE_FALL,
        metavar="X",
        help="least fall of the score over a turn, 0 to 1: less finds more",
    ),
    FILTER,
)
def find(arguments: argparse.Namespace) -> CommandResult:
    """Finds where requests after the first begin, in place of what was found before. What a person said stays.

    Raises:
        NotFound: Nothing matches.
        NotYet: Nothing is scored.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        keys = matching(workspace, arguments.filter)
        narrate_set(workspace.score_sets)
        scored = [row.id for row in workspace.conversations.rows(keys) if row.p_end is not None]
        if not scored:
            raise NotYet(
                "None of these conversations has a score.", "`workbench run complete PROJECT`."
            )
        further = workspace.requests.find_by_curve(scored, arguments.fall)
    return CommandResult(
        [f"Found {counted(further, 'further request')} in {counted(len(scored), 'conversation')}."],
        {"conversations": len(scored), "further_requests": further},
    )


@takes(
    PROJECT,
    number("--limit", "only the first N conversations"),
    FILTER,
)
def list_requests(arguments: argparse.Namespace) -> CommandResult:
    """Lists the requests of conversations with state, score and goal, a row each, the first ones included.

    Raises:
        NotFound: Nothing matches.
    """
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        keys = matching(workspace, arguments.filter)[: arguments.limit]
        names = {row.id: row.external_id for row in workspace.conversations.rows(keys)}
        requests = workspace.requests.of_conversations(keys)
    lines = cell_lines(
        [
            ("conversation", "text"), ("request", "count"), ("requests", "count"), ("turn", "count"),
            ("user messages", "count"), ("state", "text"), ("p", "text"), ("goal", "text"),
            ("opening", "text"),
        ],
        [
            (
                one_line(names[key], 30), request.number, len(several), request.turn, request.user_messages,
                request.state.word, probability(request.p), one_line(request.goal or "", 30),
                one_line(request.opening, 60),
            )
            for key, several in requests
            for request in several
        ],
    )  # fmt: skip
    rows = [
        {"conversation": names[key], "requests": list(map(asdict, several))}
        for key, several in requests
    ]
    return CommandResult(lines, {"conversations": rows})


@takes(PROJECT, FILTER)
def goals(arguments: argparse.Namespace) -> CommandResult:
    """Assigns each request of conversations with several to a goal of the clustering that is shown, and counts how many
    requests of each goal are in each state. The only request of a conversation has the goal of the conversation.

    Raises:
        UsageError: Nothing matches, nothing was clustered, or the clustering is of summaries.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        keys = matching(workspace, arguments.filter)
        stage = workspace.goal_stages().assign_requests_stage(arguments.filter)
        run_stages(workspace, [stage])
        counts: dict[str | None, Counter[str]] = {}
        for _, several in workspace.requests.of_conversations(keys):
            for request in several:
                row = counts.setdefault(request.goal, Counter())
                row.update(["requests", str(request.state), *["further"] * (request.number > 1)])
    columns = ("requests", "further", *map(str, State))
    order = sorted(counts, key=lambda goal: (goal is None, -counts[goal]["requests"], goal or ""))
    lines = cell_lines(
        [
            ("goal", "text"),
            *((name, "count") for name in columns[:2]),
            *((state.word, "count") for state in State),
        ],
        [
            (one_line(goal or "in no goal", 40), *(counts[goal][name] for name in columns))
            for goal in order
        ],
    )
    values = [{"goal": goal, **{name: counts[goal][name] for name in columns}} for goal in order]
    return CommandResult(lines, {"assigned": stage.assigned, "novel": stage.novel, "goals": values})


@takes(
    PROJECT,
    argument("conversation", metavar="ID", help="id of the conversation"),
    argument(
        "turn",
        type=positive,
        metavar="TURN",
        help="number of the turn, as in `requests list` and in the reader",
    ),
    switch("--not", "no request begins there, whatever is found", dest="none"),
    annotator("name of the person who marks it"),
)
def mark(arguments: argparse.Namespace) -> CommandResult:
    """Says that a further request begins with a turn, or that none does.

    Raises:
        UsageError: There is no such conversation or turn.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        key = conversation(workspace, arguments.conversation)
        of_user = [row for row in workspace.conversations.messages(key) if row.role == "user"]
        message = next((row for row in of_user[1:] if row.turn == arguments.turn), None)
        if message is None:
            turns = ", ".join(str(row.turn) for row in of_user[1:]) or "none"
            raise UsageError(
                f"No further request can begin with turn {arguments.turn}.",
                f"Turns in which the user speaks again: {turns}.",
            )
        workspace.requests.mark(key, message.index, arguments.annotator, begins=not arguments.none)
        requests = workspace.requests.of_conversation(key)
    return CommandResult(
        [],
        {"conversation": arguments.conversation, "requests": list(map(asdict, requests))},
        hints=[f"The conversation has {counted(len(requests), 'request')} now."],
    )


@takes(
    PROJECT,
    annotator("name of the person who takes it back"),
)
def undo(arguments: argparse.Namespace) -> CommandResult:
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
    mark_text = "a request begins" if undone.begins else "no request begins"
    return CommandResult(
        [f"Taken back: {mark_text} with turn {turn} of “{one_line(row.external_id)}”."],
        {"undone": {"conversation": row.external_id, "turn": turn, "begins": undone.begins}},
    )
