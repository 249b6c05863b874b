"""What a clustering run would work on, before it starts."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from engine import number_format
from engine.errors import WorkbenchError
from engine.records.goals import ClusteringRow, Decide, GoalRequest, GoalText
from engine.records.runs import Estimate
from engine.services.goals.port import Goals
from engine.text import one_line
from screens.shell.run_form import KEYS, RunForm, field_line, whole_number
from screens.widgets.cycle import Cycle

TEXTS: dict[GoalText, tuple[str, str]] = {
    "first-user": (
        "the first user message",
        "It states the goal in many logs. No model reads anything.",
    ),
    "all-user": (
        "all user messages",
        "For goals that come out bit by bit. No model reads anything.",
    ),
    "all": (
        "what both sides wrote",
        "For goals that the assistant names. No model reads anything.",
    ),
    "summary": (
        "a summary",
        "The model writes what the user wants: one reply for each conversation.",
    ),
}
"""What a goal is told by, in words and more of them."""

DECIDES: dict[Decide, tuple[str, str]] = {
    "ask": (
        "you, on the desk",
        "Every proposed merge waits for your yes or no, with its evidence.",
    ),
    "auto": ("by probability", "What is probable enough is merged unattended; all can be undone."),
    "llm": ("by the model alone", "Its word decides, as in the paper; all can be undone."),
    "none": ("no proposals", "Plain clusters; the model is asked for nothing but labels."),
}
"""Who decides on merges, likewise."""

DEFAULT = GoalRequest()
HELP = {
    "embedder": "tfidf (words), minilm (meaning, extra embed), mixed (both), a GGUF file, or the URL of an endpoint.",
    "clusters": "More than there are goals: near ones are proposed as merges afterwards.",
    "seed": "The same seed clusters the same way.",
}


class GoalRunForm(RunForm[GoalRequest, Estimate]):
    """Asks for text, embedder, number of clusters, seed and who decides; says first how long it takes."""

    PLACE = "goal-run"
    ASKS = "Cluster conversations by what was wanted"
    FIRST = "text"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, goals: Goals, last: ClusteringRow | None) -> None:
        """`last` is the clustering that is shown: what it was made with stands there already."""
        super().__init__()
        self._goals, self._last = goals, last

    def fields(self) -> ComposeResult:
        """See the base."""
        last = self._last
        text = list(TEXTS).index(last.text if last is not None else DEFAULT.text)
        embedder = one_line(last.embedder) if last is not None else DEFAULT.embedder
        yield field_line("told by", Cycle([name for name, _ in TEXTS.values()], text, id="text"))
        yield field_line("embedder", Input(embedder, id="embedder"))
        proposed = "proposed from the data"
        if last is not None:
            made = number_format.counted(last.conversations, "conversation")
            proposed += f"; it was {last.k:,} for {made}"
        yield field_line("clusters", Input(placeholder=proposed, id="clusters"))
        yield field_line("seed", Input(str(DEFAULT.seed), id="seed"))
        yield field_line("merges", Cycle([name for name, _ in DECIDES.values()], id="decide"))

    def wish(self) -> GoalRequest:
        """See the base."""
        embedder = self.text("embedder")
        if not embedder:
            raise WorkbenchError("Say which embedder.", HELP["embedder"])
        seed = whole_number("seed", self.text("seed"), 0)
        return GoalRequest(
            [*TEXTS][self.at("text")],
            embedder,
            whole_number("clusters", self.text("clusters"), 2),
            DEFAULT.seed if seed is None else seed,
            [*DECIDES][self.at("decide")],
        )

    def cost(self, wish: GoalRequest) -> Estimate:
        """See the base."""
        return self._goals.estimate(wish)

    def told(self, wish: GoalRequest, cost: Estimate) -> Content:
        """See the base."""
        return estimate_content(cost, wish)

    def help_of(self, field: str) -> str:
        """See the base."""
        if field == "text":
            return [*TEXTS.values()][self.at("text")][1]
        if field == "decide":
            return [*DECIDES.values()][self.at("decide")][1]
        return HELP.get(field, "")


def estimate_content(estimate: Estimate, wish: GoalRequest) -> Content:
    """An estimate in words."""
    time = (
        "time unknown until the first are done"
        if estimate.seconds is None
        else f"about {number_format.duration(estimate.seconds)}"
    )
    parts: list[tuple[str, str] | str] = [
        (number_format.counted(estimate.items, "conversation"), "bold"),
        f" · {time}",
    ]
    asked = (
        ["summaries"] * (wish.text == "summary") + ["labels"] + ["merges"] * (wish.decide != "none")
    )
    parts += [f"\n{', '.join(asked)} asked of ", (one_line(estimate.model, 60), "bold")]
    return Content.assemble(*parts)
