"""The form of a clustering run, with what it costs."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.goals.records import ClusteringRow, Decide, GoalText
from engine.goals.requests import ClusteringRequest
from engine.goals.service.service import GoalService
from engine.project.records import ClusteringEstimate
from screens.shell.run_form import KEYS, RunForm, field_line, whole_number
from screens.widgets.controls import Cycle, LineInput

TEXTS: dict[GoalText, tuple[str, str]] = {
    "first-user": (
        "the first user message",
        "It states the goal in many logs. Clusters are made without a model.",
    ),
    "all-user": (
        "all user messages",
        "For goals that users state bit by bit. Clusters are made without a model.",
    ),
    "all": (
        "what both sides wrote",
        "For goals that the assistant names. Clusters are made without a model.",
    ),
    "summary": (
        "the model's summary",
        "The model writes what the user wants: one reply for each conversation.",
    ),
}
"""The texts that conversations are clustered by: name and explanation."""

DECIDES: dict[Decide, tuple[str, str]] = {
    "ask": (
        "you, on the merge desk",
        "Every proposed merge waits for your yes or no, with its evidence.",
    ),
    "auto": (
        "by probability",
        "Pairs that are probable enough are merged without you; all can be undone.",
    ),
    "llm": ("by the model alone", "Its yes or no decides, as in Soroka et al.; all can be undone."),
    "none": ("no proposals", "Clusters with labels, without merges."),
}
"""Who decides on merges: name and explanation."""

DEFAULT = ClusteringRequest()
HELP = {
    "embedder": "tfidf (words), minilm (meaning, extra embed), mixed (both), a GGUF file, or the URL of an endpoint.",
    "clusters": "More than there are goals: similar clusters are proposed for a merge afterwards.",
    "seed": "The same seed gives the same clusters.",
}


class GoalRunForm(RunForm[ClusteringRequest, ClusteringEstimate]):
    """Asks for text, embedder, clusters, seed and who decides on merges; shows how long the run takes."""

    PLACE = "goal-run"
    ASKS = "Cluster conversations by goal"
    FIRST = "text"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, goals: GoalService, last: ClusteringRow | None) -> None:
        """Begins with the settings of `last`, the clustering that is shown."""
        super().__init__()
        self._goals, self._last = goals, last

    def fields(self) -> ComposeResult:
        """The lines of the form."""
        last = self._last
        text = list(TEXTS).index(last.text if last is not None else DEFAULT.text)
        embedder = one_line(last.embedder) if last is not None else DEFAULT.embedder
        yield field_line("text", Cycle([name for name, _ in TEXTS.values()], text, id="text"))
        yield field_line("embedder", LineInput(embedder, id="embedder"))
        proposed = "proposed from the data"
        if last is not None:
            made = number_format.counted(last.conversations, "conversation")
            proposed += f"; it was {last.k:,} for {made}"
        yield field_line("clusters", LineInput(placeholder=proposed, id="clusters"))
        yield field_line("seed", LineInput(str(DEFAULT.seed), id="seed"))
        yield field_line("merges", Cycle([name for name, _ in DECIDES.values()], id="decide"))

    def request(self) -> ClusteringRequest:
        """The run that the fields describe.

        Raises:
            WorkbenchError: No embedder, or a number that is none.
        """
        embedder = self.text("embedder")
        if not embedder:
            raise WorkbenchError("Say which embedder.", HELP["embedder"])
        seed = whole_number("seed", self.text("seed"), 0)
        return ClusteringRequest(
            text=[*TEXTS][self.at("text")],
            embedder=embedder,
            k=whole_number("clusters", self.text("clusters"), 2),
            seed=DEFAULT.seed if seed is None else seed,
            decide=[*DECIDES][self.at("decide")],
        )

    def cost(self, request: ClusteringRequest) -> ClusteringEstimate:
        """Reads how many conversations the run is about and how long it takes."""
        return self._goals.estimate(request)

    def cost_text(self, request: ClusteringRequest, cost: ClusteringEstimate) -> Content:
        """The cost as text."""
        return estimate_content(cost)

    def help_of(self, field: str) -> str:
        """The explanation of the choice, or of what can be typed."""
        if field == "text":
            return [*TEXTS.values()][self.at("text")][1]
        if field == "decide":
            return [*DECIDES.values()][self.at("decide")][1]
        return HELP.get(field, "")


def estimate_content(estimate: ClusteringEstimate) -> Content:
    """The number of conversations, the time, and what the model is asked for."""
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
        name = one_line(estimate.model, 60)
        parts += ["\nasked of ", (name, "bold"), f": {', '.join(estimate.asked)}"]
    else:
        parts.append("\nno model is asked")
    return Content.assemble(*parts)
