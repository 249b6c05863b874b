"""`workbench tree`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.conversation import render_log
from engine.errors import UsageError
from engine.filters import Filter, ListQuery, Term
from engine.stages.trees import tree_row
from engine.store import conversations
from engine.text import one_line
from engine.trees.growth import Budget
from engine.trees.guarantee import guarantee, parse_predicate
from engine.trees.measures import Measures, answers, measure, subtree_mass
from engine.trees.places import Place, places
from engine.trees.tree import ROOT, Tree
from screens.figures import bar
from workbench.commands.narration import say, show, tell
from workbench.commands.trees import tree_options
from workbench.exits import DONE
from workbench.services import ScoringOptions, Workspace
from workbench.tree_lines import tree_line

LINES = 60
"""Lines of a tree that are printed; the rest is counted."""


def tree(arguments: argparse.Namespace) -> int:
    """Grows the tree of one conversation and prints it."""
    options = tree_options(arguments)
    predicate = parse_predicate(arguments.property) if arguments.property else None
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        place = _place(workspace, arguments)
        adapter = Path(arguments.adapter) if arguments.adapter else None
        chosen = workspace.model_for(ScoringOptions(model=arguments.model, adapter=adapter))
        tell(f"Growing a tree before step {place.step} with {chosen.label}.")
        workspace.process.load(chosen.path, chosen.options, chosen.adapter)
        budget = Budget(arguments.nodes, arguments.seconds)
        (grown,), work = workspace.process.grow([place], options, budget)
    interval = guarantee(grown.tree, predicate) if predicate else None
    if arguments.json:
        row = tree_row(0, place.step, grown, work["seconds"])
        line = tree_line(arguments.conversation, row, grown.tree)
        if interval:
            line["property"] = {"text": arguments.property, **asdict(interval)}
        show(line)
        return DONE
    if arguments.text:
        for answer in answers(grown.tree):
            say(f"{answer.probability:7.4f}  {answer.end.name.lower():5}  {one_line(answer.text)}")
    else:
        for text in tree_lines(grown.tree):
            say(text)
    say(summary(measure(grown.tree)))
    if grown.answer_log_probs:
        held = grown.tree.follow(list(grown.answer))
        say(
            f"recorded answer: log-probability {sum(grown.answer_log_probs):.2f} over "
            f"{len(grown.answer_log_probs)} tokens; its first {held} are in the tree"
        )
    if interval:
        say(f"P({arguments.property}) in [{interval.low:.3f}, {interval.high:.3f}]")
    if not work["finished"]:
        tell("The tree is not grown to its end: the budget was used up.")
    if grown.note:
        tell(f"The log did not fit: {grown.note}.")
    return DONE


def _place(workspace: Workspace, arguments: argparse.Namespace) -> Place:
    name = arguments.conversation
    query = ListQuery(Filter((Term("name", ":", (name,)),)))
    with workspace.project.reading() as conn:
        found = conversations.rows(conn, conversations.ids(conn, query)[:1000])
        exact = [row for row in found if row.external_id == name]
        if not exact:
            near = ", ".join(one_line(row.external_id, 40) for row in found[:3])
            raise UsageError(
                f"There is no conversation {name!r}.",
                f"Like it: {near}." if near else "`workbench list` shows their names.",
            )
        if len(exact) > 1:
            raise UsageError(f"{len(exact)} conversations are named {name!r}.")
        ((_, messages),) = conversations.conversations_for(conn, [exact[0].id])
    return places(render_log(messages), arguments.at)[-1]


def summary(found: Measures) -> str:
    """The figures of a tree in one line."""
    fork = found.first_fork
    parts = [
        f"{found.leaves} leaves",
        f"{found.answers} distinct answers",
        f"best {found.max_log_prob:.2f}",
        f"covered {found.covered:.2f}, pruned {found.pruned:.2f}, unexpanded {found.unexpanded:.2f}",
        f"entropy {found.entropy_low:.1f}-{found.entropy_high:.1f} bits",
    ]
    if fork is not None:
        parts.append(f"first fork after {fork.depth} tokens ({fork.entropy:.1f} bits)")
    return " · ".join(parts)


def tree_lines(grown: Tree) -> list[str]:
    """The tree as text: runs of single tokens in one line, branches by falling mass, indented."""
    masses = subtree_mass(grown)
    lines: list[str] = []
    left_out = 0

    def draw(children: Sequence[int], depth: int) -> None:
        nonlocal left_out
        for child in sorted(children, key=lambda at: (-grown.nodes[at].path, at)):
            end = child
            while len(grown.nodes[end].children) == 1:
                end = grown.nodes[end].children[0]
            if len(lines) >= LINES:
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
