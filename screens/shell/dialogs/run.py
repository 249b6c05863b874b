"""The dialog before a scoring run: its mode, and what it would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine import number_format
from engine.errors import WorkbenchError
from engine.records.runs import Estimate
from engine.records.scores import Mode
from engine.text import one_line
from screens.shell.dialogs.basic import Dialog, hint_line
from screens.widgets.background import background

if TYPE_CHECKING:
    from engine.services.jobs import JobService

MODES: tuple[tuple[Mode, str], ...] = (
    ("probe", "learns where your own logs end; tested on logs it never saw"),
    ("base", "an unadapted model, asked what remains; often near chance"),
    ("tuned", "with an adapter: yours, else one trained on the demo's logs"),
    ("judge", "a yes/no question; the baseline to compare with"),
)


class RunDialog(Dialog[Mode | None]):
    """Asks in which mode to score; the estimate of the highlighted mode is shown before anything starts."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, jobs: JobService, first: Mode) -> None:
        """`first` is the mode under the cursor at first."""
        super().__init__()
        self._jobs, self._first = jobs, first
        self._known: dict[Mode, Content] = {}

    def compose(self) -> ComposeResult:
        """Modes, estimate, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Score conversations"
            yield OptionList(
                *[
                    Option(Content.assemble((f"{mode:<7}", "bold"), (what, "$tone-muted")))
                    for mode, what in MODES
                ],
                markup=False,
            )
            yield Static(id="estimate")
            now = self._jobs.scores_in_force()
            if now is not None:
                yield Static(_stays_content(now))
            yield Static(hint_line(("enter", "starts the run"), ("escape", "cancels")))

    def on_mount(self) -> None:
        """Begins at one of the modes."""
        names = [mode for mode, _ in MODES]
        self.query_one(OptionList).highlighted = names.index(self._first)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Shows what the mode would cost."""
        mode = MODES[event.option_index][0]
        if mode in self._known:
            self.query_one("#estimate", Static).update(self._known[mode])
            return
        self.query_one("#estimate", Static).update(Content.styled("estimating …", "$tone-muted"))
        background(
            self,
            lambda: self._jobs.estimate_scoring(mode),
            lambda estimate: self._show_estimate(mode, estimate_content(estimate)),
            lambda error: self._show_estimate(mode, refusal_content(error)),
            group="estimate",
        )

    def _show_estimate(self, mode: Mode, content: Content) -> None:
        self._known[mode] = content
        self.query_one("#estimate", Static).update(content)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click starts."""
        self.dismiss(MODES[event.option_index][0])


def estimate_content(estimate: Estimate) -> Content:
    """An estimate in words."""
    if estimate.items == 0:
        return Content(
            "Everything has been scored in this mode. Starting again writes the remaining tasks that are missing."
        )
    if estimate.tokens == 0:
        count = number_format.counted(estimate.items, "conversation")
        return Content(f"{count} read already; only the fit is left, which takes seconds")
    facts = [number_format.counted(estimate.items, "conversation")]
    if estimate.tokens is not None:
        facts.append(f"{number_format.amount(estimate.tokens)} tokens")
    if estimate.seconds is not None:
        facts.append(f"about {number_format.duration(estimate.seconds)}")
    else:
        facts.append("time unknown until the first batch")
    if estimate.tokens_per_second is not None:
        facts.append(f"{number_format.amount(estimate.tokens_per_second)} tokens/s")
    adapter = Content("")
    if estimate.adapter:
        adapter = Content.assemble(" and the adapter ", (one_line(estimate.adapter), "bold"))
    return Content.assemble(
        " · ".join(facts), "\nwith ", (one_line(estimate.model), "bold"), adapter
    )


def _stays_content(now: str) -> Content:
    """That scores of another mode do not replace those in force."""
    return Content.assemble(
        ("in force: ", "$tone-muted"),
        now,
        (
            "\nscores of another mode are stored beside them; S on the overview chooses",
            "$tone-muted",
        ),
    )


def refusal_content(error: WorkbenchError) -> Content:
    """Why a mode cannot run."""
    return Content.assemble(
        (one_line(error.message), "$tone-incomplete"), ("\n" + one_line(error.hint), "$tone-muted")
    )
