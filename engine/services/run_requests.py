"""Requests for runs, from a command or a screen: one type for each kind of run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.filters import Filter
from engine.records.goals import DECIDE_THRESHOLD, DEFAULT_TEXT, Decide, GoalText
from engine.records.kinds_of_work import Work
from engine.records.scores import Mode
from engine.trees.places import At
from engine.trees.tree import TreeOptions

STEP_STOP = "\n\nTURN"
"""The beginning of the header of the next step in a log, where an answer ends."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Which model a run is to load.

    Attributes:
        work: What the model is loaded for.
        model: Name or path; None is the one that the adapter was made for, or that the project uses for the work.
        adapter: Name, file or run of an adapter, or None.
        tuned: Where no adapter is named, take the one in use, otherwise the one that comes with the program.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
    """

    work: Work
    model: str | None = None
    adapter: str | Path | None = None
    tuned: bool = False
    context: int | None = None


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """A run that scores conversations.

    Attributes:
        mode: None takes `probe`, or what is best where there are too few conversations for it.
        model: Name or path; None is the one that the project uses for scoring.
        adapter: Name, file or run of an adapter; None in mode `tuned` is the one in use, otherwise none.
        end_tag: Text tag of a tuned model; None is the one that its adapter was trained with, else its end-of-text
            token.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        filter: Which conversations.
        held_out_by: Of them only those that this training run was not trained on.
        limit: The first so many of them.
        part: See `engine.stages.selection.Selection`. Nothing is fitted and no remaining tasks are written then: that
            is for the project that the parts are merged into.
        tune: Tune the model first if it never was on this machine.
        remaining: Write the remaining tasks of the conversations below the threshold.
        seconds: In mode `probe`, read a random part of the logs for about so long, for provisional scores; None reads
            all.
        ends: In mode `probe`, read each log at its last boundary and one earlier one only.
        paper: As in Soroka et al.: what the model writes next decides, and is what remains. Only in the modes `base`
            and `tuned`; where `mode` is None, `tuned` with an adapter, else `base`.
    """

    mode: Mode | None = None
    model: str | None = None
    adapter: str | Path | None = None
    end_tag: str | None = None
    context: int | None = None
    filter: Filter = field(default_factory=Filter)
    held_out_by: str | None = None
    limit: int | None = None
    part: tuple[int, int] | None = None
    tune: bool = True
    remaining: bool = True
    seconds: float | None = None
    ends: bool = False
    paper: bool = False

    @property
    def model_request(self) -> ModelRequest:
        """The model that the run loads."""
        return ModelRequest(
            "scoring", self.model, self.adapter, tuned=self.mode == "tuned", context=self.context
        )


@dataclass(frozen=True, slots=True)
class TreeRequest:
    """A run that grows response trees, from the command line or a dialog.

    Attributes:
        tree: How each tree grows; by default an answer ends where the next step of the log begins.
        at: Where in each conversation.
        tuned: Where no adapter is named, take the one that scores completeness, as in mode `tuned`.
        model: Name or path; None is the one that the project uses for trees.
        adapter: Name, file or run of an adapter, or None.
        filter: Which conversations.
        limit: The first so many of them.
        nodes: Bound on the nodes of a tree.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        only: In place of the filter these conversations, in id order; the trees that are shown stay what they are.
    """

    tree: TreeOptions = field(default_factory=lambda: TreeOptions(stop=(STEP_STOP,)))
    at: At = "last-answer"
    model: str | None = None
    adapter: str | Path | None = None
    filter: Filter = field(default_factory=Filter)
    limit: int | None = None
    nodes: int | None = None
    context: int | None = None
    only: tuple[int, ...] | None = None
    tuned: bool = False

    @property
    def model_request(self) -> ModelRequest:
        """The model that the run loads."""
        return ModelRequest("trees", self.model, self.adapter, self.tuned, self.context)


ASK = 24
"""Pairs that one run asks the model about: some minutes of work, and more than a person decides meanwhile."""


@dataclass(frozen=True, slots=True)
class ClusteringRequest:
    """A run that clusters goals.

    Attributes:
        text: The text that a conversation is clustered by.
        embedder: `tfidf`, `minilm`, `mixed` (both), the path of a GGUF embedding model, or the URL of an endpoint.
        k: Number of clusters, an overestimate; None proposes one from the data.
        decide: Who decides on merges.
        threshold: Merge probability from which `auto` merges.
        ask: Pairs that the model is asked about before a person decides.
        largest: Clusters with more members are split again; None splits none.
        model: Name or path; None is the one that the project uses for goals.
        labels: Let the model write labels, unless it is the built-in one, and answer about pairs; else none is asked.
        near: Show the model the texts nearest to a cluster outside it; else any.
        filter: Which conversations.
        limit: The first so many of them.
    """

    text: GoalText = DEFAULT_TEXT
    embedder: str = "tfidf"
    k: int | None = None
    seed: int = 0
    decide: Decide = "ask"
    threshold: float = DECIDE_THRESHOLD
    ask: int = ASK
    largest: int | None = None
    model: str | None = None
    labels: bool = True
    near: bool = True
    filter: Filter = field(default_factory=Filter)
    limit: int | None = None
