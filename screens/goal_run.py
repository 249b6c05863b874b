"""What a clustering run would work on, before it starts."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.goal_rows import ClusteringRow, Decide, GoalText, GoalWish
from engine.rows import Estimate
from engine.text import one_line
from screens import figures
from screens.background import background
from screens.dialogs import Dialog, hint_line
from screens.goal_port import Goals
from screens.run_dialog import refusal_content
from screens.widgets.choices import Choices

TEXTS: dict[GoalText, str] = {
    "first-user": "the first user message, where it states the goal",
    "all-user": "all user messages together",
    "all": "everything that user and assistant wrote",
    "summary": "a summary that the model writes of each conversation",
}
DECIDES: dict[Decide, str] = {
    "ask": "you decide on each merge, on the desk",
    "auto": "merge what is probable enough, unattended",
    "llm": "the model's word alone, as in the paper",
    "none": "no proposals: plain clusters",
}
DEFAULT = GoalWish()


class GoalRunDialog(Dialog[GoalWish | None]):
    """Asks for text, embedder, number of clusters, seed and who decides; says first how long it takes."""

    PLACE = "goal-run"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "Start", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, goals: Goals, last: ClusteringRow | None) -> None:
        """`last` is the clustering that is shown: what it was made with stands there already."""
        super().__init__()
        self._goals, self._last = goals, last

    def compose(self) -> ComposeResult:
        """Fields, estimate, keys."""
        last = self._last
        proposed = "proposed from the data"
        if last is not None:
            proposed += (
                f"; it was {last.k:,} for {figures.counted(last.conversations, 'conversation')}"
            )
        with Vertical(classes="dialog") as box:
            box.border_title = "Cluster conversations by what was wanted"
            yield Static(Content.styled("A goal is told by", "$tone-muted"), classes="name")
            yield Choices(*[Option(Content(words)) for words in TEXTS.values()], id="text")
            yield from _field("embedder", one_line(last.embedder) if last else DEFAULT.embedder, "")
            yield from _field("clusters", "", proposed)
            yield from _field("seed", str(DEFAULT.seed), "a whole number")
            yield Static(Content.styled("Merges", "$tone-muted"), classes="name")
            yield Choices(*[Option(Content(words)) for words in DECIDES.values()], id="decide")
            yield Static(id="estimate")
            keys = (
                ("tab", "next field"),
                ("↑↓", "choose"),
                ("enter", "starts"),
                ("escape", "leaves it"),
            )
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Begins with what the clustering that is shown was made with."""
        text = self._last.text if self._last is not None else DEFAULT.text
        self.query_one("#text", Choices).highlighted = list(TEXTS).index(text)
        self.query_one("#decide", Choices).highlighted = 0
        self.query_one("#text").focus()

    def _wish(self) -> GoalWish | str:
        """What is asked for, or what is wrong with it."""
        clusters = self.query_one("#clusters", Input).value.strip()
        seed = self.query_one("#seed", Input).value.strip()
        embedder = self.query_one("#embedder", Input).value.strip()
        if clusters and not (clusters.isdecimal() and int(clusters) >= 2):
            return "Clusters are a whole number from 2 on, or nothing."
        if not seed.isdecimal():
            return "The seed is a whole number."
        if not embedder:
            return (
                "An embedder: tfidf, minilm, mixed (both), a GGUF file or the URL of an endpoint."
            )
        return GoalWish(
            list(TEXTS)[self.query_one("#text", Choices).highlighted or 0],
            embedder,
            int(clusters) if clusters else None,
            int(seed),
            list(DECIDES)[self.query_one("#decide", Choices).highlighted or 0],
        )

    def on_input_changed(self) -> None:
        """Another field is another run."""
        self._estimate()

    def on_option_list_option_highlighted(self) -> None:
        """So is another choice."""
        self._estimate()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click chooses; enter is taken before the list sees it."""
        event.stop()

    def _estimate(self) -> None:
        wish = self._wish()
        if isinstance(wish, str):
            self._tell(Content.styled(wish, "$tone-incomplete"))
            return
        self._tell(Content.styled("estimating …", "$tone-muted"))
        background(
            self,
            lambda: self._goals.estimate(wish),
            lambda estimate: self._tell(estimate_content(estimate, wish)),
            lambda error: self._tell(refusal_content(error)),
            group="estimate",
        )

    def _tell(self, content: Content) -> None:
        self.query_one("#estimate", Static).update(content)

    def action_start(self) -> None:
        """Answers with what was asked for; not while something is wrong with it."""
        wish = self._wish()
        if not isinstance(wish, str):
            self.dismiss(wish)


def _field(name: str, value: str, placeholder: str) -> ComposeResult:
    with Horizontal(classes="field"):
        yield Static(Content.styled(f"{name:<10}", "$tone-muted"), classes="name")
        yield Input(value, placeholder=placeholder, id=name)


def estimate_content(estimate: Estimate, wish: GoalWish) -> Content:
    """An estimate in words."""
    time = (
        "time unknown until the first are done"
        if estimate.seconds is None
        else f"about {figures.duration(estimate.seconds)}"
    )
    parts: list[tuple[str, str] | str] = [
        (figures.counted(estimate.items, "conversation"), "bold"),
        f" · {time}",
    ]
    if estimate.model and (wish.text == "summary" or wish.decide != "none"):
        parts += ["\nlabels and merges asked of ", (one_line(estimate.model, 60), "bold")]
    return Content.assemble(*parts)
