"""The form of a clustering run, with what it costs.

A clustering groups conversations by what their users wanted. Its first groups, the clusters, are too small on purpose:
pairs of them that mean the same are proposed for a merge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.goals.records import ClusteringSummary, Decide, GoalText
from engine.goals.requests import ClusteringRequest
from engine.project.records import ClusteringEstimate
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line, parse_whole_number
from screens.widgets.controls import Cycle, LineInput

GOAL_TEXTS: dict[GoalText, FormChoice] = {
    "first-user": FormChoice(
        "the first user message",
        "It states the goal in many logs. Clusters are made without a model.",
    ),
    "all-user": FormChoice(
        "all user messages",
        "For goals that users state bit by bit. Clusters are made without a model.",
    ),
    "all": FormChoice(
        "what both sides wrote",
        "For goals that the assistant names. Clusters are made without a model.",
    ),
    "summary": FormChoice(
        "the model's summary",
        "The model writes what the user wants: one reply for each conversation.",
    ),
}
"""The texts by which conversations are clustered."""

MERGE_DECIDERS: dict[Decide, FormChoice] = {
    "ask": FormChoice(
        "you, on the merge desk",
        "Every proposed merge waits for your yes or no, with its evidence.",
    ),
    "auto": FormChoice(
        "by probability",
        "Pairs that are probable enough are merged without you; all can be undone.",
    ),
    "llm": FormChoice(
        "by the model alone", "Its yes or no decides, as in Soroka et al.; all can be undone."
    ),
    "none": FormChoice("no proposals", "Clusters with labels, without merges."),
}
"""Who decides on proposed merges."""

DEFAULT_REQUEST = ClusteringRequest()
"""What the form begins with where no clustering is shown."""
TYPED_FIELD_HELP = {
    "embedder": "tfidf (words), minilm (meaning, extra embed), mixed (both), a GGUF file, or the URL of an endpoint.",
    "clusters": "More than there are goals: similar clusters are proposed for a merge afterwards.",
    "seed": "The same seed gives the same clusters.",
}
"""What can be typed in the fields that are not a choice, by the id of the field."""


class GoalRunForm(RunForm[ClusteringRequest, ClusteringEstimate]):
    """Asks for text, embedder, clusters, seed and who decides on merges; shows how long the run takes."""

    PLACE = "goal-run"
    FORM_TITLE = "Cluster conversations by goal"
    FIRST_FIELD = "text"
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(
        self,
        estimate: Callable[[ClusteringRequest], ClusteringEstimate],
        shown: ClusteringSummary | None,
    ) -> None:
        """Begins with the text and the embedder of `shown`, the clustering on the screen, and with defaults elsewhere.

        Args:
            estimate: Returns the estimate of a run.
            shown: The clustering; None where none is shown.
        """
        super().__init__()
        self._estimate, self._shown = estimate, None if shown is None else shown.clustering

    def compose_fields(self) -> ComposeResult:
        """Yields the lines of the form."""
        shown = self._shown
        text = DEFAULT_REQUEST.text if shown is None else shown.text
        text_names = [choice.name for choice in GOAL_TEXTS.values()]
        text_index = [*GOAL_TEXTS].index(text)
        embedder = DEFAULT_REQUEST.embedder if shown is None else one_line(shown.embedder)
        yield field_line("text", Cycle(text_names, text_index, id="text"))
        yield field_line("embedder", LineInput(embedder, id="embedder"))
        proposed = "proposed from the data"
        if shown is not None:
            conversations = number_format.counted(shown.conversations, "conversation")
            proposed += f"; it was {shown.k:,} for {conversations}"
        yield field_line("clusters", LineInput(placeholder=proposed, id="clusters"))
        yield field_line("seed", LineInput(str(DEFAULT_REQUEST.seed), id="seed"))
        decider_names = [decider.name for decider in MERGE_DECIDERS.values()]
        yield field_line("merges", Cycle(decider_names, id="decide"))

    def request(self) -> ClusteringRequest:
        """Returns the run that the fields describe.

        Raises:
            WorkbenchError: No embedder is given, or the number of clusters or the seed is not a whole number in range.
        """
        embedder = self.text("embedder")
        if not embedder:
            raise WorkbenchError("Say which embedder.", TYPED_FIELD_HELP["embedder"])
        seed = parse_whole_number("seed", self.text("seed"), 0)
        return ClusteringRequest(
            text=self.chosen_key("text", GOAL_TEXTS),
            embedder=embedder,
            k=parse_whole_number("clusters", self.text("clusters"), 2),
            seed=DEFAULT_REQUEST.seed if seed is None else seed,
            decide=self.chosen_key("decide", MERGE_DECIDERS),
        )

    def estimate(self, request: ClusteringRequest) -> ClusteringEstimate:
        """Returns the estimate of the run."""
        return self._estimate(request)

    def estimate_text(self, request: ClusteringRequest, cost: ClusteringEstimate) -> Content:
        """Returns the estimate in words."""
        return estimate_content(cost)

    def field_help(self, field: str) -> str:
        """Returns what the chosen value means, or what can be typed; empty for a field without help."""
        if field == "text":
            return GOAL_TEXTS[self.chosen_key(field, GOAL_TEXTS)].help
        if field == "decide":
            return MERGE_DECIDERS[self.chosen_key(field, MERGE_DECIDERS)].help
        return TYPED_FIELD_HELP.get(field, "")


def estimate_content(estimate: ClusteringEstimate) -> Content:
    """Returns the number of conversations, the time, and what the model is asked for, in words."""
    time = (
        "time unknown until the first are done"
        if estimate.seconds is None
        else f"about {number_format.duration(estimate.seconds)}"
    )
    parts: list[tuple[str, str] | str] = [
        (number_format.counted(estimate.items, "conversation"), "bold"),
        f" · {time}",
    ]
    if estimate.asked:
        model = one_line(estimate.model, 60)
        parts += ["\nasked of ", (model, "bold"), f": {', '.join(estimate.asked)}"]
    else:
        parts.append("\nno model is asked")
    return Content.assemble(*parts)
