"""What a person chose for a run, before it is stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.filters import Filter
from engine.records.conversations import Mode
from engine.records.models import Work
from engine.trees.places import At
from engine.trees.tree import TreeOptions


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """What a person chose for a scoring run.

    Attributes:
        model: Name or path; None is the one that the project uses for the work.
        work: What the model is loaded for.
        adapter: Name, file or run of an adapter; None in mode `tuned` is the one in use, otherwise none.
        end_tag: Text tag of a tuned model; None is its end-of-text token.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        filter: Which conversations.
        held_out_by: Of them only those that this training run was not trained on.
        limit: The first so many of them.
        tune: Tune the model first if it never was on this machine.
        remaining: Spell out the remaining tasks of what is below the threshold.
    """

    mode: Mode = "base"
    model: str | None = None
    work: Work = "scoring"
    adapter: str | Path | None = None
    end_tag: str | None = None
    context: int | None = None
    filter: Filter = field(default_factory=Filter)
    held_out_by: str | None = None
    limit: int | None = None
    tune: bool = True
    remaining: bool = True


@dataclass(frozen=True, slots=True)
class TreeRunOptions:
    """What a person chose for a run that grows trees.

    Attributes:
        tree: How each tree grows.
        at: Where in each conversation.
        model: Name or path; None is the one that the project uses for trees.
        adapter: Name, file or run of an adapter, or None.
        filter: Which conversations.
        limit: The first so many of them.
        nodes: Bound on the nodes of a tree.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        only: In place of the filter these conversations, in id order; the trees that are shown stay what they are.
    """

    tree: TreeOptions
    at: At = "last-answer"
    model: str | None = None
    adapter: Path | None = None
    filter: Filter = field(default_factory=Filter)
    limit: int | None = None
    nodes: int | None = None
    context: int | None = None
    only: tuple[int, ...] | None = None
