"""Dialogs before a run: forms that describe it and show what it costs, and the one of a scoring run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.text import display_safe, one_line
from engine.completeness.records import Mode
from engine.conversations.filters import Filter
from engine.project.records import Estimate
from screens.shell.dialogs import Dialog, hint_line
from screens.widgets.background import background
from screens.widgets.controls import Cycle

if TYPE_CHECKING:
    from engine.opener.jobs import JobService


Request = TypeVar("Request")
Cost = TypeVar("Cost")
TYPING_REST = 0.25
"""Seconds without a key before the cost of a run is estimated."""
KEYS: list[BindingType] = [
    Binding("escape", "dismiss(None)", "Leave"),
    Binding("enter", "start", "Start", priority=True),
    Binding("down", "app.focus_next", "Next field", show=False),
    Binding("up", "app.focus_previous", "Field before", show=False),
]
"""Keys of each such dialog; each dialog lists them in its own `BINDINGS`, under its own name in the table of keys."""


class RunForm(Dialog[Request | None], Generic[Request, Cost]):
    """Asks what to run, one or two fields a line, and shows its cost, estimated again after each change."""

    ASKS: ClassVar[str]
    """The title."""
    FIRST: ClassVar[str]
    """The id of the field that has the focus at first."""
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-high")]  # noqa: RUF012 - Textual declares it

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer | None = None
        self._known: Request | None = None
        self._pressed = False

    # To be defined by a subclass

    def fields(self) -> ComposeResult:
        """Its lines."""
        raise NotImplementedError

    def show_lines(self) -> None:
        """Hides the lines that do not apply to what is chosen."""

    def request(self) -> Request:
        """The run that the fields describe; raises WorkbenchError where a field cannot be understood."""
        raise NotImplementedError

    def cost(self, request: Request) -> Cost:
        """Estimates the run; called in a thread. Raises WorkbenchError where it cannot be run."""
        raise NotImplementedError

    def cost_text(self, request: Request, cost: Cost) -> Content:
        """The estimate as text."""
        raise NotImplementedError

    def help_of(self, field: str) -> str:
        """Help text of a field, by its id."""
        raise NotImplementedError

    # Values of the fields

    def text(self, field: str) -> str:
        """What is written in a field."""
        return display_safe(self.query_one(f"#{field}", Input).value.strip())

    def at(self, field: str) -> int:
        """Which of its choices a field is at."""
        return self.query_one(f"#{field}", Cycle).at

    # Events

    def compose(self) -> ComposeResult:
        """Fields, help for the one in focus, cost, keys."""
        with Vertical(classes="dialog fields") as box:
            box.border_title = Content(self.ASKS)
            yield from self.fields()
            yield Static(id="help")
            yield Static(id="estimate")
            keys = (("↑↓", "field"), ("←→", "value"), ("enter", "starts"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Estimates the run that is proposed."""
        self.show_lines()
        self.query_one(f"#{self.FIRST}").focus()
        self._forget()
        self._estimate()

    def on_input_changed(self) -> None:
        """The text of a field changed: estimates again once no key was pressed for `TYPING_REST`."""
        self._forget()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(TYPING_REST, self._estimate)
        self._show_help()

    def on_cycle_changed(self) -> None:
        """A choice changed: estimates again."""
        self.show_lines()
        self._show_help()
        self._forget()
        self._estimate()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Explains the field in focus."""
        self._show_help()

    def action_start(self) -> None:
        """Answers with the request, as soon as its cost is known; a change in between cancels that."""
        if self._known is not None:
            self.dismiss(self._known)
        self._pressed = True

    def _forget(self) -> None:
        """Drops the estimate, which no longer fits the fields; nothing starts before the next one."""
        self._known, self._pressed = None, False
        self._show_estimate(Content.styled("estimating …", "$tone-muted"))

    def _estimate(self) -> None:
        try:
            request = self.request()
        except WorkbenchError as error:
            self._refuse(error)
            return
        background(
            self,
            lambda: self.cost(request),
            lambda cost: self._show_cost(request, cost),
            self._refuse,
            group="estimate",
        )

    def _refuse(self, error: WorkbenchError) -> None:
        self._pressed = False
        self._show_estimate(refusal_content(error))

    def _show_cost(self, request: Request, cost: Cost) -> None:
        self._known = request
        self._show_estimate(self.cost_text(request, cost))
        if self._pressed:
            self.dismiss(request)

    def _show_estimate(self, content: Content) -> None:
        self.query_one("#estimate", Static).update(content)

    def _show_help(self) -> None:
        field = self.focused.id if self.focused is not None else None
        help_text = one_line(self.help_of(field or ""), 400)
        self.query_one("#help", Static).update(Content.styled(help_text, "$tone-muted"))


def field_line(name: str, first: Widget, second: Widget | None = None, other: str = "") -> Widget:
    """A line of a dialog: a name and its field, and perhaps another pair beside it. Its id is that of the first field
    behind `field-`."""
    shown: list[Widget] = [_name(name), first]
    if second is not None:
        shown += [_name(other), second]
    return Horizontal(*shown, classes="field", id=f"field-{first.id}")


def _name(name: str) -> Static:
    return Static(Content.styled(f"{name:<13}", "$tone-muted"), classes="name")


def whole_number(name: str, text: str, least: int) -> int | None:
    """The number that is written in a field, None for nothing; raises WorkbenchError for anything else."""
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        raise WorkbenchError(f"{name}: a whole number from {least} on, or nothing.")
    return int(text)


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
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self._estimate(MODES[index][0])

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
