"""Asks what to run: the base of the forms that describe a run and show its cost, and the dialog before scoring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option as ListOption

from engine.base.errors import WorkbenchError
from engine.base.request_options import Option, options_of, read_values
from engine.base.text import display_safe, one_line
from engine.completeness.records import Mode
from engine.conversations.filters import Filter
from engine.project.estimate_text import estimate_lines
from engine.project.records import Estimate
from screens.shell.dialogs import Dialog, TextDialog, ask, hint_line
from screens.widgets.background import background
from screens.widgets.controls import Cycle

if TYPE_CHECKING:
    from engine.completeness.scoring_request import ScoringRequest
    from engine.opener.jobs import JobService


Request = TypeVar("Request")
"""What a form answers with: the description of a run."""
Cost = TypeVar("Cost")
"""The estimate of a run."""
TYPING_REST_SECONDS = 0.25
"""Seconds without a key before the cost of a run is estimated."""
FIELD_NAME_WIDTH = 13
"""Cells for the name of a field."""
FORM_KEYS: list[BindingType] = [
    Binding("escape", "dismiss(None)", "Leave"),
    Binding("enter", "start", "Start", priority=True),
    Binding("down", "app.focus_next", "Next field", show=False),
    Binding("up", "app.focus_previous", "Field before", show=False),
]
"""The keys of a form. Each form sets them as its own `BINDINGS`; so the table of keys lists them under its name."""


class FormChoice(NamedTuple):
    """One of the values of a field.

    Attributes:
        name: What the field shows.
        help: What the value means, a sentence or two; empty where the help of the field says enough.
    """

    name: str
    help: str = ""


class RunForm(Dialog[Request | None], Generic[Request, Cost]):
    """Asks what to run, one or two fields a line, and shows its cost, estimated again after each change.

    The dialog is dismissed with the request, or with None if the person leaves.
    """

    FORM_TITLE: ClassVar[str]
    """The title of the form."""
    FIRST_FIELD: ClassVar[str]
    """The id of the field that has the focus at first."""
    OPTIONS: ClassVar[Mapping[str, Option]]
    """The declared options of the request, by the names of its fields, which are the ids of the fields here."""
    choices: Mapping[str, Mapping[Any, FormChoice]]
    """The fields with several values to choose from: their values in the request, each with how it is shown."""
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-high")]  # noqa: RUF012 - Textual declares it

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer | None = None
        self._estimated_request: Request | None = None  # what the shown estimate is of
        self._start_pressed = False  # before the estimate came

    # To be defined by a subclass

    def compose_fields(self) -> ComposeResult:
        """Yields the lines of the form."""
        raise NotImplementedError

    def update_lines(self) -> None:
        """Hides the lines that do not apply to what is chosen."""

    def request(self) -> Request:
        """Returns the run that the fields describe.

        Raises:
            WorkbenchError: A field cannot be understood.
        """
        raise NotImplementedError

    def estimate(self, request: Request) -> Cost:
        """Returns the estimate of a run. This is called in a thread.

        Raises:
            WorkbenchError: The request cannot be run.
        """
        raise NotImplementedError

    def estimate_content(self, cost: Cost) -> Content:
        """Returns the estimate as text; a form with a cost that is no `Estimate` has its own."""
        assert isinstance(cost, Estimate)
        return estimate_content(cost)

    def field_help(self, field: str) -> str:
        """Returns what the chosen value of a field means, else what the field means; empty if it has no help."""
        chosen_help = self.choices[field][self.chosen(field)].help if field in self.choices else ""
        return chosen_help or (self.OPTIONS[field].sentence if field in self.OPTIONS else "")

    # Fields and their values

    def choice_field(self, field: str, chosen: Any = None) -> Cycle:
        """Returns the field for one of its `choices`, with a value of the request chosen at first; else the first."""
        choices = self.choices[field]
        index = [*choices].index(chosen) if chosen in choices else 0
        return Cycle([choice.name for choice in choices.values()], index, id=field)

    def text(self, field: str) -> str:
        """Returns what is typed in a field, display-safe and without spaces around it."""
        return display_safe(self.query_one(f"#{field}", Input).value.strip())

    def chosen(self, field: str) -> Any:
        """Returns the value in the request of the chosen one of its `choices`."""
        return [*self.choices[field]][self.query_one(f"#{field}", Cycle).chosen_index]

    def typed_values(self, *fields: str) -> dict[str, Any]:
        """Returns the values of what is typed, by field; an empty field takes its default and is left out.

        Raises:
            UsageError: A text cannot be used; the message names the field.
        """
        return read_values(self.OPTIONS, {field: self.text(field) for field in fields}, fields)

    # Events

    def compose(self) -> ComposeResult:
        """Yields the fields, the help for the one in focus, the cost, and the keys."""
        with Vertical(classes="dialog fields") as box:
            box.border_title = Content(self.FORM_TITLE)
            yield from self.compose_fields()
            yield Static(id="help")
            yield Static(id="estimate")
            keys = (("↑↓", "field"), ("←→", "value"), ("enter", "starts"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Estimates the run that is proposed."""
        self.update_lines()
        self.query_one(f"#{self.FIRST_FIELD}").focus()
        self._drop_estimate()
        self._begin_estimate()

    def on_input_changed(self) -> None:
        """Estimates again once no key was pressed for `TYPING_REST_SECONDS`."""
        self._drop_estimate()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(TYPING_REST_SECONDS, self._begin_estimate)
        self._show_help()

    def on_cycle_changed(self) -> None:
        """Estimates again, because another value was chosen."""
        self.update_lines()
        self._show_help()
        self._drop_estimate()
        self._begin_estimate()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Explains the field in focus."""
        self._show_help()

    def action_start(self) -> None:
        """Dismisses the form with the request, now or when its cost is known; a change in between cancels that."""
        if self._estimated_request is not None:
            self.dismiss(self._estimated_request)
        self._start_pressed = True

    def _drop_estimate(self) -> None:
        """Drops the estimate, which no longer fits the fields; no run starts before the next one."""
        self._estimated_request, self._start_pressed = None, False
        self._show_estimate(Content.styled("estimating …", "$tone-muted"))

    def _begin_estimate(self) -> None:
        """Estimates the run that the fields describe, in a thread, and shows the estimate or why there is none."""
        try:
            request = self.request()
        except WorkbenchError as error:
            self._show_refusal(error)
            return
        background(
            self,
            lambda: self.estimate(request),
            lambda cost: self._accept_estimate(request, cost),
            self._show_refusal,
            group="estimate",
        )

    def _show_refusal(self, error: WorkbenchError) -> None:
        """Shows why the run cannot be estimated, in place of the estimate."""
        self._start_pressed = False
        self._show_estimate(refusal_content(error))

    def _accept_estimate(self, request: Request, cost: Cost) -> None:
        """Shows an estimate, and dismisses the form with its request if enter was pressed meanwhile."""
        self._estimated_request = request
        self._show_estimate(self.estimate_content(cost))
        if self._start_pressed:
            self.dismiss(request)

    def _show_estimate(self, content: Content) -> None:
        """Shows the estimate, or what stands in its place."""
        self.query_one("#estimate", Static).update(content)

    def _show_help(self) -> None:
        """Shows the help of the field in focus."""
        field = self.focused.id if self.focused is not None else None
        help_text = one_line(self.field_help(field or ""), 400)
        self.query_one("#help", Static).update(Content.styled(help_text, "$tone-muted"))


def field_line(
    first_name: str, first: Widget, second: Widget | None = None, second_name: str = ""
) -> Widget:
    """Returns a line of a dialog: a name and its field, and perhaps a second pair beside it.

    The id of the line is `field-` and the id of the first field.
    """
    pairs: list[Widget] = [_field_name(first_name), first]
    if second is not None:
        pairs += [_field_name(second_name), second]
    return Horizontal(*pairs, classes="field", id=f"field-{first.id}")


def _field_name(name: str) -> Static:
    """Returns the name before a field."""
    return Static(Content.styled(f"{name:<{FIELD_NAME_WIDTH}}", "$tone-muted"), classes="name")


MINUTES = (2, 5, 10, 20, 30, 60, 120, 240)
"""For how long the model may read, in minutes, to choose from."""

DEFAULT_MINUTES = 10
"""The time that is proposed: where reading takes less, all is read."""


class ScoringChoice(NamedTuple):
    """One way of scoring.

    Attributes:
        timed: Whether the model reads only for some minutes.
    """

    mode: Mode
    name: str
    help: str
    timed: bool = False


SCORING_CHOICES = (
    ScoringChoice("words", "words only", "the words of the last messages; no model, seconds"),
    ScoringChoice(
        "probe", "{} min", "words, then the model reads what they leave open", timed=True
    ),
    ScoringChoice("probe", "read all", "words, then the model reads every conversation"),
    ScoringChoice("base", "base", "an unadapted model, asked what remains; often near chance"),
    ScoringChoice("tuned", "tuned", "with an adapter of yours"),
    ScoringChoice("judge", "judge", "a yes/no question; the baseline to compare with"),
)
"""The ways of scoring in the order of the dialog, each with a few words on what it does."""


def scoring_request(
    mode: Mode,
    filter: Filter | None = None,
    minutes: int | None = None,
    *,
    max_cost: float | None = None,
    fresh: bool = False,
) -> ScoringRequest:
    """Returns a scoring run with the defaults of its other options; see `ScoringRequest`."""
    from engine.completeness.scoring_request import ScoringRequest  # the first frame needs none

    return ScoringRequest(
        mode=mode, filter=filter or Filter(), minutes=minutes, max_cost=max_cost, fresh=fresh
    )


class RunDialog(Dialog["ScoringRequest | None"]):
    """Asks how to score, and of a filtered list whether only that; shows the cost before anything starts.

    The dialog is dismissed with the run, or with None if the person leaves.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("a", "other_scope", "All or filtered", show=False),
        Binding("left", "other_time(-1)", "Less time", show=False),
        Binding("right", "other_time(1)", "More time", show=False),
        Binding("c", "limit_cost", "Most that the run may cost", show=False),
        Binding("f", "ask_again", "Ask again about failures", show=False),
    ]

    def __init__(self, jobs: JobService, first_mode: Mode, listed: Filter | None = None) -> None:
        """
        Args:
            jobs: The service that estimates the cost.
            first_mode: The mode under the cursor at first; a probe is proposed with a time.
            listed: The filter of the list below the dialog. Only what it matches is scored unless the person says all.
        """
        super().__init__()
        self._jobs, self._first_mode = jobs, first_mode
        self._listed = Filter() if listed is None else listed
        self._scope = self._listed  # what is scored; an empty filter is all
        self._minutes = DEFAULT_MINUTES
        self._max_cost: float | None = None
        self._fresh = False
        self._estimates: dict[ScoringRequest, Estimate | WorkbenchError] = {}

    def compose(self) -> ComposeResult:
        """Yields the ways of scoring, the scope, the estimate, and the keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Score conversations"
            yield OptionList(*map(self._option, SCORING_CHOICES), markup=False)
            yield Static(id="scope")
            yield Static(id="estimate")
            yield Static(id="spending")
            in_force = self._jobs.scores_in_force()
            if in_force is not None:
                yield Static(_scores_in_force_content(in_force))
            keys = (("←→", "minutes"), ("enter", "starts the run"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Puts the cursor on the first mode, and hides the scope where the list is not filtered."""
        self.query_one("#scope").display = bool(self._listed)
        self.query_one("#spending").display = False
        modes = [choice.mode for choice in SCORING_CHOICES]
        self.query_one(OptionList).highlighted = modes.index(self._first_mode)

    def _option(self, choice: ScoringChoice) -> ListOption:
        """Returns the line of one way of scoring."""
        name = choice.name.format(self._minutes)
        return ListOption(Content.assemble((f"{name:<12}", "bold"), (choice.help, "$tone-muted")))

    def _chosen(self, index: int) -> ScoringRequest:
        """Returns what the line of this index asks for."""
        choice = SCORING_CHOICES[index]
        minutes = self._minutes if choice.timed else None
        return scoring_request(
            choice.mode, self._scope, minutes, max_cost=self._max_cost, fresh=self._fresh
        )

    def on_option_list_option_highlighted(self) -> None:
        """Shows what the line under the cursor would cost."""
        self._begin_estimate()

    def action_other_scope(self) -> None:
        """Switches between all conversations and the listed ones, and estimates again."""
        self._scope = Filter() if self._scope else self._listed
        self._begin_estimate()

    def action_other_time(self, step: int) -> None:
        """Lets the model read for less or more time, and estimates again; elsewhere than on that line does nothing."""
        lines = self.query_one(OptionList)
        if lines.highlighted is None or not SCORING_CHOICES[lines.highlighted].timed:
            return
        index = min(max(MINUTES.index(self._minutes) + step, 0), len(MINUTES) - 1)
        self._minutes = MINUTES[index]
        prompt = self._option(SCORING_CHOICES[lines.highlighted]).prompt
        lines.replace_option_prompt_at_index(lines.highlighted, prompt)
        self._begin_estimate()

    def action_limit_cost(self) -> None:
        """Asks for the most that the run may cost over endpoints, and estimates again."""
        options = options_of(type(self._chosen(0)))

        def limit(text: str) -> None:
            try:
                values = read_values(
                    options, {"max_cost": display_safe(text.strip())}, ["max_cost"]
                )
            except WorkbenchError as error:
                self.show_error(error)
                return
            self._max_cost = values.get("max_cost")
            self._begin_estimate()

        value = "" if self._max_cost is None else f"{self._max_cost:g}"
        title = "Most that the run may cost"
        ask(self, TextDialog(title, value=value, placeholder=options["max_cost"].default), limit)

    def action_ask_again(self) -> None:
        """Switches between failures that stay and those that are asked about again, and estimates again."""
        self._fresh = not self._fresh
        self._begin_estimate()

    def _begin_estimate(self) -> None:
        """Shows what the line under the cursor would cost, from memory or estimated in a thread."""
        self.query_one("#scope", Static).update(_scope_content(self._scope, self._listed))
        index = self.query_one(OptionList).highlighted
        if index is None:
            return
        chosen = self._chosen(index)
        if chosen in self._estimates:
            self._show_estimate(chosen, self._estimates[chosen])
            return
        self.query_one("#estimate", Static).update(Content.styled("estimating …", "$tone-muted"))
        background(
            self,
            lambda: self._jobs.estimate_scoring(chosen),
            lambda estimate: self._show_estimate(chosen, estimate),
            lambda error: self._show_estimate(chosen, error),
            group="estimate",
        )

    def _show_estimate(self, chosen: ScoringRequest, estimate: Estimate | WorkbenchError) -> None:
        """Shows an estimate, or why there is none, and remembers it; over endpoints also the limits on what is sent."""
        self._estimates[chosen] = estimate
        if isinstance(estimate, WorkbenchError):
            content, over_endpoints = refusal_content(estimate), self._max_cost is not None
        else:
            content, over_endpoints = estimate_content(estimate), bool(estimate.costs)
        self.query_one("#estimate", Static).update(content)
        spending = self.query_one("#spending", Static)
        spending.display = over_endpoints
        spending.update(_spending_content(self._max_cost, fresh=self._fresh))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Dismisses the dialog with the line that was chosen by enter or a click."""
        self.dismiss(self._chosen(event.option_index))


def _scope_content(scope: Filter, listed: Filter) -> Content:
    """Returns which conversations are scored, and the key that chooses the others."""
    filter_text = one_line(str(listed), 60)
    chosen, other = (
        (f"only what is listed: {filter_text}", "all") if scope else ("all", f"only {filter_text}")
    )
    return Content.assemble(
        ("scores ", "$tone-muted"),
        chosen,
        ("   a", "bold $tone-accent"),
        (f" {other}", "$tone-muted"),
    )


def _spending_content(max_cost: float | None, *, fresh: bool) -> Content:
    """Returns the limits on what is asked of endpoints, with the keys that change them."""
    limit = "no limit" if max_cost is None else f"{max_cost:g}"
    return Content.assemble(
        ("most cost ", "$tone-muted"),
        limit,
        (" c", "bold $tone-accent"),
        ("   failures ", "$tone-muted"),
        "are asked about again" if fresh else "stay as they are",
        (" f", "bold $tone-accent"),
    )


def estimate_content(estimate: Estimate) -> Content:
    """Returns the lines of an estimate."""
    return Content("\n".join(estimate_lines(estimate)))


def _scores_in_force_content(in_force: str) -> Content:
    """Returns which scores are in force, and that scores of another mode do not replace them."""
    return Content.assemble(
        ("in force: ", "$tone-muted"),
        in_force,
        (
            "\nscores of another mode are stored beside them; S on the overview chooses",
            "$tone-muted",
        ),
    )


def refusal_content(error: WorkbenchError) -> Content:
    """Returns why something cannot be run, and what to do about it."""
    return Content.assemble(
        (one_line(error.message), "$tone-incomplete"), ("\n" + one_line(error.hint), "$tone-muted")
    )
