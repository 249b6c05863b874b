"""`workbench tree`: grows the response tree of one conversation and prints it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, UsageError
from engine.base.number_format import bar, counted
from engine.base.text import one_line
from engine.conversations.filters import Filter, ListQuery, Term
from engine.opener.open_project import OpenProject
from engine.trees.growth import Budget
from engine.trees.guarantee import (
    MIN_USELESS_WIDTH,
    TOO_WIDE,
    ProbabilityBounds,
    guarantee,
    parse_predicate,
)
from engine.trees.meaning import AnswerMeanings, GroupedAnswers
from engine.trees.measures import Answer, Measures, answers, measure, subtree_mass
from engine.trees.model_requests import Grow, GrownTree, Place, places
from engine.trees.records import At, TreeRow
from engine.trees.reports import meanings_line, tree_line
from engine.trees.stages import tree_row
from engine.trees.tree import ROOT, Kind, Tree
from workbench.arguments import PROJECT, argument, number, share, switch, takes
from workbench.command_result import CommandResult
from workbench.commands.trees import GROWTH_ARGUMENTS, tree_request
from workbench.narration import narrate

MAX_TREE_LINES = 60
"""Lines of a tree that are printed; the others are counted."""


@takes(
    PROJECT,
    argument("conversation", help="its name, as `workbench list` shows it"),
    *GROWTH_ARGUMENTS,
    number("--step", "before the assistant's step N instead"),
    argument("--seconds", type=float, help="stop after this many seconds"),
    argument("--property", metavar="P", help="bound the probability of `contains yes`, ..."),
    switch("--text", "print complete answers instead"),
    argument(
        "--meaning",
        type=share,
        metavar="S",
        help="group answers that are at least this similar, like 0.85",
    ),
)
def tree(arguments: argparse.Namespace) -> CommandResult:
    """Grows the tree of one conversation, or one at each of its assistant steps."""
    request = tree_request(arguments)
    predicate = parse_predicate(arguments.property) if arguments.property else None
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        chosen_places = _places(workspace, arguments, request.at)
        chosen = workspace.models_in_use.resolve(request.model_request)
        steps = ", ".join(str(place.step) for place in chosen_places)
        narrate(f"Growing a tree before step {steps} with {chosen.label}.")
        model = workspace.process.client_for(chosen)
        model.load(chosen.path, chosen.options, chosen.adapter, chosen.weights_copy)
        max_nodes = None if request.nodes is None else request.nodes * len(chosen_places)
        grown, work = model.ask(
            Grow(chosen_places, request.tree, Budget(max_nodes, arguments.seconds))
        )
    nodes = sum(len(one_tree.tree.nodes) for one_tree in grown)
    shown = []
    for place, one_tree in zip(chosen_places, grown, strict=True):
        # The trees grow together: each gets the part of the seconds that it has of the nodes.
        row = tree_row(0, place.step, one_tree, work.seconds * len(one_tree.tree.nodes) / nodes)
        shown.append(
            _GrownTree(row, one_tree, guarantee(one_tree.tree, predicate) if predicate else None)
        )
    documents = [_json(arguments, tree) for tree in shown]
    lines: list[str] = []
    hints: list[str] = []
    for tree in shown:
        if len(shown) > 1:
            lines.append(f"step {tree.row.step}")
        lines += _tree_lines(arguments, tree)
        if tree.grown.note:
            hints.append(f"The log did not fit: {tree.grown.note}.")
    if len(shown) > 1:
        lines += turn_lines([tree.row for tree in shown])
    if not work.finished:
        hints.append("Not everything is grown to its end: the budget was used up.")
    return CommandResult(lines, documents if request.at == "every" else documents[0], hints=hints)


@dataclass(frozen=True, slots=True)
class _GrownTree:
    """A grown tree with its measures, and the bounds on the probability of --property."""

    row: TreeRow
    grown: GrownTree
    bounds: ProbabilityBounds | None


def _json(arguments: argparse.Namespace, shown: _GrownTree) -> dict[str, Any]:
    """Returns a tree as JSON, with the bounds and the groups of meaning where they were asked for."""
    line = tree_line(arguments.conversation, shown.row, shown.grown.tree)
    if shown.bounds:
        line["property"] = {"text": arguments.property, **asdict(shown.bounds)}
    if arguments.meaning:
        grouped = AnswerMeanings().of(shown.grown.tree, arguments.meaning)
        line["meanings"] = meanings_line(grouped, arguments.meaning)
    return line


def _tree_lines(arguments: argparse.Namespace, shown: _GrownTree) -> list[str]:
    """Returns a tree as lines: by meaning, as answers or as branches, then its figures and bounds."""
    grown, row = shown.grown, shown.row
    if arguments.meaning:
        grouped = AnswerMeanings().of(grown.tree, arguments.meaning)
        lines = meaning_lines(grouped, arguments.meaning)
    elif arguments.text:
        lines = [_answer_line(answer) for answer in answers(grown.tree)]
    else:
        lines = tree_lines(grown.tree)
    lines.append(summary(measure(grown.tree), whole_answers(grown.tree)))
    if row.answer_log_prob is not None:
        lines.append(
            f"recorded answer: log-probability {row.answer_log_prob:.2f} over "
            f"{row.answer_tokens} tokens; its first {row.answer_held} are in the tree"
        )
    if shown.bounds:
        low, high = shown.bounds.low, shown.bounds.high
        lines.append(f"P({arguments.property}) in [{low:.3f}, {high:.3f}]")
        if high - low >= MIN_USELESS_WIDTH:
            lines.append(f"  {TOO_WIDE}")
    return lines


def _places(workspace: OpenProject, arguments: argparse.Namespace, at: At) -> list[Place]:
    """Returns the places of one conversation where a tree grows.

    Raises:
        NotFound: There is no such conversation.
        UsageError: Several have the name, or the step is no answer of the assistant.
    """
    name = arguments.conversation
    query = ListQuery(Filter((Term("name", ":", (name,)),)))
    conversations = workspace.conversations
    similar = conversations.rows(conversations.ids(query)[:1000])
    exact = [row for row in similar if row.external_id == name]
    if not exact:
        near = ", ".join(one_line(row.external_id, 40) for row in similar[:3])
        raise NotFound(
            f"There is no conversation {name!r}.",
            f"Similar names: {near}." if near else "`workbench list` shows their names.",
        )
    if len(exact) > 1:
        raise UsageError(f"{len(exact)} conversations are named {name!r}.")
    log = conversations.log(exact[0].id)
    if arguments.step is None:
        return places(log, at)
    every = places(log, "every")
    at_step = [place for place in every if place.step == arguments.step]
    if not at_step:
        steps = ", ".join(str(place.step) for place in every)
        raise UsageError(
            f"Step {arguments.step} is no answer of the assistant.",
            f"The assistant's steps are {steps}.",
        )
    return at_step


def _answer_line(answer: Answer, indent: str = "") -> str:
    """Returns an answer with its probability and how it ends."""
    return (
        f"{answer.probability:7.4f}  {answer.end.name.lower():5}  {indent}{one_line(answer.text)}"
    )


def meaning_lines(grouped: GroupedAnswers, threshold: float) -> list[str]:
    """Returns the answers grouped by meaning, and the entropy over meanings."""
    meanings = grouped.meanings
    lines: list[str] = []
    for group in meanings.groups:
        several = len(group.answers) > 1
        if several:
            wordings = counted(len(group.answers), "wording")
            lines.append(f"{group.probability:7.4f}  {wordings}")
        indent = "  " if several else ""
        lines += [_answer_line(grouped.answers[index], indent) for index in group.answers]
    lines.append(
        f"{counted(len(meanings.groups), 'meaning')} at a similarity of {threshold:g} ({grouped.by})"
        f" · entropy of meanings {meanings.entropy_low:.1f}-{meanings.entropy_high:.1f} bits,"
        f" {meanings.entropy:.1f} of what is covered"
    )
    return lines


def turn_lines(rows: Sequence[TreeRow]) -> list[str]:
    """Returns the uncertainty of the model along a conversation: a line for each step."""
    worst = max((-(row.max_log_prob or 0.0) for row in rows), default=0.0)
    return [
        f"step {row.step:3}  {bar(-(row.max_log_prob or 0.0) / worst if worst else 0.0)}"
        f"  best {row.max_log_prob or 0.0:6.2f}  {row.leaves:4} leaves"
        f"  entropy {row.entropy_low:.1f}-{row.entropy_high:.1f} bits"
        for row in rows
    ]


def whole_answers(grown: Tree) -> int:
    """Returns the number of leaves that are whole answers; the others only begin one."""
    return sum(node.kind is Kind.ENDED for node in grown.nodes)


def summary(measures: Measures, whole: int) -> str:
    """Returns the figures of a tree in one line, given how many of its leaves are whole answers."""
    fork = measures.first_fork
    parts = [
        f"{measures.leaves} {'leaf' if measures.leaves == 1 else 'leaves'}, {whole} of them whole answers",
        counted(measures.answers, "distinct text"),
        f"best {measures.max_log_prob:.2f}",
        f"covered {measures.covered:.2f}, pruned {measures.pruned:.2f}, unexpanded {measures.unexpanded:.2f}",
        f"entropy {measures.entropy_low:.1f}-{measures.entropy_high:.1f} bits",
    ]
    if fork is not None:
        parts.append(f"first fork after {fork.depth} tokens ({fork.entropy:.1f} bits)")
    return " · ".join(parts)


def tree_lines(grown: Tree) -> list[str]:
    """Returns the tree as indented lines: single continuations share a line, branches are ordered by descending
    mass.
    """
    masses = subtree_mass(grown)
    lines: list[str] = []
    left_out = 0

    def draw(children: Sequence[int], depth: int) -> None:
        """Appends the lines of these nodes and of all below them."""
        nonlocal left_out
        for child in sorted(children, key=lambda at: (-grown.nodes[at].path_log_p, at)):
            end = child
            while len(grown.nodes[end].children) == 1:
                end = grown.nodes[end].children[0]
            if len(lines) >= MAX_TREE_LINES:
                left_out += 1
                continue
            before = grown.text(grown.nodes[child].parent)
            text = grown.text(end)[len(before) :].decode("utf-8", "replace")
            node = grown.nodes[child]
            kind = "" if grown.nodes[end].children else f"  ({grown.nodes[end].kind.name.lower()})"
            shown = one_line(text, 60) or "·"
            lines.append(
                f"{bar(node.mass)} {node.mass:.3f} {masses[child]:.3f} {'  ' * depth}{shown}{kind}"
            )
            draw(grown.nodes[end].children, depth + 1)

    draw(grown.nodes[ROOT].children, 0)
    if left_out:
        lines.append(f"… {left_out} more branches")
    return lines
