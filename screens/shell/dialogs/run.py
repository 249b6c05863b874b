"""The dialog before a scoring run: its mode, and what it would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.completeness.records.scores import Mode
from engine.conversations.filters import Filter
from engine.project.records import Estimate
from screens.shell.dialogs.basic import Dialog, hint_line
from screens.widgets.background import background

if TYPE_CHECKING:
    from engine.opener.jobs import JobService

MODES: tuple[tuple[Mode, str], ...] = (
    ("probe", "learns where your own logs end; tested on logs it never saw"),
    ("base", "an unadapted model, asked what remains; often near chance"),
    ("tuned", "with an adapter: yours, else one trained on the demo's logs"),
    ("judge", "a yes/no question; the baseline to compare with"),
)


class RunDialog(Dialog[tuple[Mode, Filter] | None]):
    """Asks in which mode to score, and of a filtered list whether only that; shows the cost before anything starts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("a", "other_scope", "All or filtered", show=False),
    ]

    def __init__(self, jobs: JobService, first: Mode, listed: Filter | None = None) -> None:
        """
        Args:
            first: The mode under the cursor at first.
            listed: The filter of the list from which it is asked; only that is scored unless a person says all.
        """
        super().__init__()
        self._jobs, self._first = jobs, first
        self._listed = Filter() if listed is None else listed
        self._scope = self._listed
        self._known: dict[tuple[Mode, Filter], Content] = {}

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
            yield Static(id="scope")
            yield Static(id="estimate")
            now = self._jobs.scores_in_force()
            if now is not None:
                yield Static(_stays_content(now))
            yield Static(hint_line(("enter", "starts the run"), ("escape", "cancels")))

    def on_mount(self) -> None:
        """Begins at one of the modes."""
        self.query_one("#scope").display = bool(self._listed)
        names = [mode for mode, _ in MODES]
        self.query_one(OptionList).highlighted = names.index(self._first)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Shows what the mode would cost."""
        self._estimate(MODES[event.option_index][0])

    def action_other_scope(self) -> None:
        """Scores all in place of what is listed, or the other way round."""
        self._scope = Filter() if self._scope else self._listed
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self._estimate(MODES[at][0])

    def _estimate(self, mode: Mode) -> None:
        scope = self._scope
        self.query_one("#scope", Static).update(_scope_content(scope, self._listed))
        if (mode, scope) in self._known:
            self.query_one("#estimate", Static).update(self._known[mode, scope])
            return
        self.query_one("#estimate", Static).update(Content.styled("estimating …", "$tone-muted"))
        background(
            self,
            lambda: self._jobs.estimate_scoring(mode, scope),
            lambda estimate: self._show_estimate(mode, scope, estimate_content(estimate)),
            lambda error: self._show_estimate(mode, scope, refusal_content(error)),
            group="estimate",
        )

    def _show_estimate(self, mode: Mode, scope: Filter, content: Content) -> None:
        self._known[mode, scope] = content
        self.query_one("#estimate", Static).update(content)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click starts."""
        self.dismiss((MODES[event.option_index][0], self._scope))


def _scope_content(scope: Filter, listed: Filter) -> Content:
    """Which conversations are scored, and the key that chooses the others."""
    shown = one_line(str(listed), 60)
    now, other = (f"only what is listed: {shown}", "all") if scope else ("all", f"only {shown}")
    return Content.assemble(
        ("scores ", "$tone-muted"), now, ("   a", "bold $tone-accent"), (f" {other}", "$tone-muted")
    )


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
