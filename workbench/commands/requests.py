"""`workbench requests` and `workbench second-goals`: what a conversation holds beside its first request and goal."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.base.conversation import State
from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.number_format import counted, figure, probability
from engine.base.text import one_line
from engine.completeness.requests import MIN_SCORE_FALL
from engine.goals.records import LEAST_SHARE, SecondGoal
from engine.opener.open_project import OpenProject
from workbench.arguments import (
    ANNOTATOR,
    FILTER,
    PROJECT,
    annotator,
    argument,
    number,
    one_of,
    positive,
    switch,
    takes,
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
        type=float,
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


# Second goals


@takes(
    PROJECT,
    argument("conversation", nargs="?", help="id of the conversation; not needed for --undo"),
    switch(
        "--all",
        f"also list those with a share below {figure(LEAST_SHARE)}; most of them are wrong, and they cannot be"
        " confirmed",
    ),
    one_of(
        argument("--confirm", metavar="GOAL", help="the conversation has this second goal"),
        argument("--remove", metavar="GOAL", help="the conversation has not this second goal"),
        switch("--undo", "take back the newest confirmation or removal"),
    ),
    ANNOTATOR,
)
def second_goals(arguments: argparse.Namespace) -> CommandResult:
    """Lists the second goals of a conversation, after it confirmed or removed one, or took that back.

    Raises:
        UsageError: There is no such conversation, or it has no such second goal.
        NotYet: There is nothing to undo.
    """
    changes = arguments.undo or arguments.confirm is not None or arguments.remove is not None
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        if arguments.undo:
            return _undo_second_goal(workspace, arguments.annotator)
        if arguments.conversation is None:
            raise UsageError("No conversation is named.", "Name one by its id.")
        key = conversation(workspace, arguments.conversation)
        for judgement in ("confirm", "remove"):
            label = getattr(arguments, judgement)
            if label is not None:
                group = _second_goal_named(workspace.goals.second_goals(key), label).group_id
                workspace.goals.judge_second_goal(key, group, judgement, arguments.annotator)
        second_goals_near = workspace.goals.second_goals(key, 0.0 if arguments.all else LEAST_SHARE)
    lines = [
        f"{goal.share:.2f}  {goal.state:<10} {one_line(goal.label)}" for goal in second_goals_near
    ]
    if not second_goals_near and arguments.all:
        lines = ["No other goal is near."]
    elif not second_goals_near:
        lines = [f"No other goal has a share of {figure(LEAST_SHARE)} or more."]
    return CommandResult(
        lines,
        {
            "conversation": arguments.conversation,
            "second_goals": list(map(asdict, second_goals_near)),
        },
    )


def _undo_second_goal(workspace: OpenProject, annotator: str) -> CommandResult:
    """Takes back the newest confirmation or removal of this person.

    Raises:
        NotYet: There is none.
    """
    undone = workspace.goals.undo_second_goal(annotator)
    if undone is None:
        raise NotYet(
            "There is nothing to undo.",
            "`workbench second-goals PROJECT CONVERSATION --confirm GOAL` confirms one.",
        )
    done = "confirmed" if undone.kind == "confirm" else "removed"
    hint = f"“{one_line(undone.label)}” is no longer {done}."
    return CommandResult([], {"undone": asdict(undone)}, hints=[hint])


def _second_goal_named(goals: Sequence[SecondGoal], label: str) -> SecondGoal:
    """Returns the second goal with this label, else that with this id.

    Raises:
        NotFound: There is none.
    """
    named = [goal for goal in goals if goal.label.casefold() == label.casefold()]
    named = named or [goal for goal in goals if goal.group_id == label.casefold()]
    if named:
        return named[0]
    labels = ", ".join(f"“{one_line(goal.label)}”" for goal in goals) or "none"
    raise NotFound(
        f"The conversation has no second goal “{one_line(label)}”.", f"Second goals: {labels}."
    )
