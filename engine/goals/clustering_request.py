"""The request for a clustering run: its options, with their flags and help texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from engine.base import request_options as options
from engine.base.errors import UsageError
from engine.conversations.filters import FILTER, Filter
from engine.goals.records import (
    DECIDE_THRESHOLD,
    DEFAULT_TEXT,
    GOAL_TEXTS,
    REASON_TEXTS,
    Decide,
    GoalText,
    subject_of_reasons,
)

MAX_ASKED_PAIRS = 24
"""Most pairs that one run asks the model about: some minutes of work, and more than a person decides meanwhile."""


@dataclass(frozen=True, slots=True)
class ClusteringRequest:
    """A request for a run that clusters goals.

    Attributes:
        text: The text that a conversation is clustered by.
        embedder: `tfidf`, `minilm`, `mixed` (both), the path of a GGUF embedding model, or the URL of an endpoint.
        k: Number of clusters to begin with, an overestimate; None proposes one from the data.
        paper: Whether it runs as Algorithm 1 of Soroka et al.: free summaries, every conversation in a cluster,
            clusters described and pairs decided on by the model, the most similar descriptions first.
        decide: Who decides on merges; None is the model with `paper`, else a person.
        threshold: Merge probability from which `auto` merges.
        ask: Most pairs that the model is asked about before a person decides.
        seed: Seed of all random numbers of the run.
        model: Name or path of the model; None takes the one that the project uses for goals.
        labels: Whether a model is asked: to write labels, unless it is the built-in one, and to answer about pairs.
        filter: Only conversations that match it are clustered.
        limit: Most conversations, in the order of import; None takes all.
        max_cost, fresh: See `engine.model.interface.Spending`.

    Raises:
        UsageError: A value cannot be used.
    """

    text: GoalText = options.declare_option(
        DEFAULT_TEXT,
        options.Option(
            f"what stands for a goal: {', '.join(GOAL_TEXTS)} (a model's); or what shows why it went wrong:"
            f" explanation:QUESTION (why it was answered yes), {', '.join(REASON_TEXTS)}",
            metavar="TEXT",
            allowed=lambda text: text in GOAL_TEXTS or bool(subject_of_reasons(text)),
            must=f"one of {', '.join((*GOAL_TEXTS, *REASON_TEXTS))}, explanation:QUESTION",
        ),
    )
    embedder: str = options.declare_option(
        "tfidf",
        options.Option(
            "what makes vectors: tfidf, minilm, mixed (both), a GGUF embedding model, or a URL",
            metavar="E",
        ),
    )
    k: int | None = options.whole_number(
        None,
        "clusters to begin with, an overestimate",
        words="proposed from the data",
        flag="k1",
        metavar="K",
        label="clusters",
    )
    seed: int = options.whole_number(0, "seed of everything random", least=0, metavar="")
    model: str | None = options.declare_option(None, options.MODEL)
    paper: bool = options.switch(
        "as Algorithm 1 of Soroka et al.: the model summarizes, describes clusters, and decides on pairs"
    )
    decide: Decide | None = options.choice(
        None,
        "who decides on merges: a person at the merge desk, the merge probability, the model's answer"
        " alone, or nobody",
        get_args(Decide),
        words="ask; with --paper llm",
    )
    threshold: float = options.share(
        DECIDE_THRESHOLD, "merge probability from which `--decide auto` merges", metavar="P"
    )
    ask: int = options.whole_number(
        MAX_ASKED_PAIRS,
        "pairs that the model is asked about for `--decide ask`; the merge desk asks about more",
    )
    labels: bool = options.switch("ask no model", default=True, flag="no-labels")
    filter: Filter = options.declare_option(Filter(), FILTER)
    limit: int | None = options.whole_number(None, "only the first N conversations", metavar="")
    max_cost: float | None = options.declare_option(None, options.MAX_COST)
    fresh: bool = options.declare_option(False, options.FRESH)

    def __post_init__(self) -> None:
        options.check(self)
        if self.paper and not self.labels:
            raise UsageError("The paper's algorithm asks a model.", "Leave out --no-labels.")
        if self.paper and self.text not in (DEFAULT_TEXT, "summary"):
            raise UsageError("The paper's algorithm clusters summaries.", "Leave out --text.")

    @property
    def goal_text(self) -> GoalText:
        """The text that is clustered by: with `paper` the summary."""
        return "summary" if self.paper else self.text

    @property
    def decided_by(self) -> Decide:
        """Who decides on merges."""
        return self.decide or ("llm" if self.paper else "ask")
