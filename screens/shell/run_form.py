"""The forms that describe a run and show its cost: their base, and the form of a scoring run.

A request is the dataclass that describes a run. Its options are the fields of the form, by the same names. A field is
a line to type in, or it offers a few values to choose from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from engine.base.errors import AddressNotAllowed, WorkbenchError
from engine.base.request_options import Option, label_of, options_of, read_values
from engine.base.text import NOTICE_LIMIT, display_safe, one_line
from engine.completeness.records import Mode
from engine.completeness.scoring_request import ScoringRequest
from engine.conversations.filters import Filter
from engine.opener.jobs import JobService
from engine.project.records import Estimate, estimate_lines
from screens.shell.dialogs import Dialog, key_hints
from screens.widgets.background import DelayedCall, background
from screens.widgets.controls import Cycle, LineInput, titled

Request = TypeVar("Request")
"""What a form answers with: the request of a run."""
Cost = TypeVar("Cost")
"""The estimate of a run."""
TYPING_REST_SECONDS = 0.25
"""Seconds without a key before the cost of a run is estimated."""
MAX_HINT_CHARACTERS = 1_000
"""Most characters of what to do about a refusal, such as the names of all questions."""

FIELD_NAME_WIDTH = 13
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


def choices_of(request: type) -> dict[str, Mapping[Any, FormChoice]]:
    """Returns the values of the options of a request that have only a few, by the names of their fields.

    The default comes first: of yes and no, and where it is that no value is given.
    """
    choices: dict[str, Mapping[Any, FormChoice]] = {}
    defaults = {declared.name: declared.default for declared in fields(request)}
    for name, option in options_of(request).items():
        default = defaults[name]
        if isinstance(default, bool):
            words = {True: "yes", False: "no"}
            help = f"If {words[not default]}: {option.help}."
            choices[name] = {
                value: FormChoice(words[value], help) for value in (default, not default)
            }
        elif option.choices:
            no_value = {None: FormChoice(option.default)} if default is None else {}
            choices[name] = {**no_value, **{value: FormChoice(value) for value in option.choices}}
    return choices


class RunForm(Dialog[Request], Generic[Request, Cost]):
    """Asks what to run, one or two fields a line, and shows its cost, estimated again after each change.

    The dialog is dismissed with the request, or with None if the person leaves.
    """

    FORM_TITLE: ClassVar[str]
    FIRST_FIELD: ClassVar[str]
    """The id of the field that has the focus at first."""
    OPTIONS: ClassVar[Mapping[str, Option]]
    """The declared options of the request, by the names of its fields, which are the ids of the fields here."""
    choices: Mapping[str, Mapping[Any, FormChoice]]
    """The fields with several values to choose from: their values in the request, each with how it is shown."""
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-high")]  # noqa: RUF012 - Textual declares it

    def __init__(self) -> None:
        super().__init__()
        self._estimate_later = DelayedCall(self, TYPING_REST_SECONDS, self._begin_estimate)
        self._startable_request: Request | None = None  # what the shown estimate is of
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
        """Returns the estimate as text; a form whose cost is no `Estimate` overrides this."""
        assert isinstance(cost, Estimate)
        return Content("\n".join(estimate_lines(cost)))

    def field_help(self, field: str) -> str:
        """Returns what the chosen value of a field means, else what the field means; empty if there is no help."""
        chosen_help = self.choices[field][self.chosen(field)].help if field in self.choices else ""
        return chosen_help or (self.OPTIONS[field].sentence if field in self.OPTIONS else "")

    # Fields and their values

    def choice_field(self, field: str, chosen: Any = None) -> Cycle:
        """Returns a field that offers its `choices`; the value `chosen` is shown at first, or else the first one."""
        choices = self.choices[field]
        index = [*choices].index(chosen) if chosen in choices else 0
        return Cycle([choice.name for choice in choices.values()], index, id=field)

    def option_lines(
        self, *requests: type, first: Sequence[str], initial: Mapping[str, Any]
    ) -> ComposeResult:
        """Yields a line for each option of some requests.

        Args:
            first: Names of the fields that come before the others.
            initial: Values that differ from the defaults, by field: a value of the request for a field with choices,
                the text for a line to type in.
        """
        defaults = {field.name: field.default for request in requests for field in fields(request)}
        names = [name for request in requests for name in options_of(request)]
        for name in (*first, *(name for name in names if name not in first)):
            option, default = self.OPTIONS[name], defaults[name]
            if name in self.choices:
                widget: Widget = self.choice_field(name, initial.get(name, default))
            else:
                number = f"{default:g}" if isinstance(default, int | float) else ""
                placeholder = option.default or number
                widget = LineInput(initial.get(name, ""), placeholder=placeholder, id=name)
            yield field_line(label_of(name, option), widget)

    def show_lines(self, shown: Mapping[str, bool]) -> None:
        """Shows or hides the line of each field, by its name."""
        for name, display in shown.items():
            self.query_one(f"#field-{name}").display = display

    def values_of(self, request: type) -> dict[str, Any]:
        """Returns the values of the options of a request, by field, without empty fields and hidden lines.

        Raises:
            UsageError: A text cannot be used; the message names the field.
        """
        names = [name for name in options_of(request) if self.query_one(f"#field-{name}").display]
        typed = self.typed_values(*(name for name in names if name not in self.choices))
        return typed | {name: self.chosen(name) for name in names if name in self.choices}

    def text(self, field: str) -> str:
        """Returns what is typed in a field, display-safe and without spaces around it."""
        return display_safe(self.query_one(f"#{field}", Input).value.strip())

    def chosen(self, field: str) -> Any:
        """Returns the value that a field with `choices` shows, as the request has it."""
        return [*self.choices[field]][self.query_one(f"#{field}", Cycle).chosen_index]

    def typed_values(self, *fields: str) -> dict[str, Any]:
        """Returns the values of what is typed, by field; an empty field is left out, because it takes its default.

        Raises:
            UsageError: A text cannot be used; the message names the field.
        """
        return read_values(self.OPTIONS, {field: self.text(field) for field in fields}, fields)

    # Events

    def compose(self) -> ComposeResult:
        """Yields the fields, the help for the one in focus, the cost, and the keys."""
        with titled(Vertical(classes="dialog fields"), self.FORM_TITLE):
            with Vertical(id="lines"):
                yield from self.compose_fields()
            yield Static(id="help")
            yield Static(id="estimate")
            keys = (("↑↓", "field"), ("←→", "value"), ("enter", "starts"), ("escape", "cancels"))
            yield key_hints(*keys)

    def on_mount(self) -> None:
        """Estimates the run that is proposed."""
        self.update_lines()
        self.query_one(f"#{self.FIRST_FIELD}").focus()
        self._drop_estimate()
        self._begin_estimate()

    def on_input_changed(self) -> None:
        """Estimates again once no key was pressed for `TYPING_REST_SECONDS`."""
        self._drop_estimate()
        self._estimate_later.restart()
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
        if self._startable_request is not None:
            self.dismiss(self._startable_request)
        self._start_pressed = True

    def _drop_estimate(self) -> None:
        """Drops the estimate, which no longer fits the fields; no run starts before the next one."""
        self._startable_request, self._start_pressed = None, False
        self.workers.cancel_group(self, "estimate")
        self._show_estimate(Content.styled("estimating …", "$tone-muted"))

    def _begin_estimate(self) -> None:
        """Estimates the run that the fields describe, in a thread, and shows the estimate or why there is none."""
        try:
            request = self.request()
        except WorkbenchError as error:
            self._show_refusal(error)
            return

        def on_error(error: WorkbenchError) -> None:
            """Shows why there is no estimate. A run that may not send its texts yet can be started: the start asks."""
            if isinstance(error, AddressNotAllowed):
                asks = Content.styled("\nenter shows what would be sent, and asks", "$tone-accent")
                self._allow_start(request, Content.assemble(one_line(error.message), asks))
            else:
                self._show_refusal(error)

        background(
            self,
            lambda: self.estimate(request),
            lambda cost: self._allow_start(request, self.estimate_content(cost)),
            on_error,
            group="estimate",
        )

    def _show_refusal(self, error: WorkbenchError) -> None:
        """Shows why the run cannot be started, in place of the estimate."""
        self._start_pressed = False
        self._show_estimate(refusal_content(error))

    def _allow_start(self, request: Request, estimate: Content) -> None:
        """Shows the estimate of a run that can be started, and starts it if enter was pressed meanwhile."""
        self._startable_request = request
        self._show_estimate(estimate)
        if self._start_pressed:
            self.dismiss(request)

    def _show_estimate(self, content: Content) -> None:
        """Shows the estimate, or what stands in its place."""
        self.query_one("#estimate", Static).update(content)

    def _show_help(self) -> None:
        """Shows the help of the field in focus."""
        field = self.focused.id if self.focused is not None else None
        help_text = one_line(self.field_help(field or ""), NOTICE_LIMIT)
        self.query_one("#help", Static).update(Content.styled(help_text, "$tone-muted"))


def field_line(name: str, field: Widget) -> Widget:
    """Returns a line of a form: a name and its field. The id of the line is `field-` and the id of the field."""
    shown_name = Content.styled(f"{name:<{FIELD_NAME_WIDTH}}", "$tone-muted")
    return Horizontal(
        Static(shown_name, classes="name"), field, classes="field", id=f"field-{field.id}"
    )


def refusal_content(error: WorkbenchError) -> Content:
    """Returns why something cannot be run, and what to do about it."""
    return Content.assemble(
        (one_line(error.message), "$tone-incomplete"),
        ("\n" + one_line(error.hint, MAX_HINT_CHARACTERS), "$tone-muted"),
    )


MODES: dict[Mode, FormChoice] = {
    "words": FormChoice("words only", "The words of the last messages; no model, seconds."),
    "probe": FormChoice("words, then a model", "The model reads first what the words leave open."),
    "base": FormChoice("a model as it is", "It is asked what remains; often near chance."),
    "tuned": FormChoice("a model with an adapter", "The adapter in use, or one of yours."),
}
"""The ways of scoring, each with what it does."""
MODES_OF_FIELDS: dict[str, tuple[Mode, ...]] = {
    "minutes": ("probe",),
    "features": ("probe",),
    "layers": ("probe",),
    "adapter": ("probe", "tuned"),
    "paper": ("base", "tuned"),
    **dict.fromkeys(
        ("model", "context", "remaining", "tune", "max_cost", "fresh"),
        ("probe", "base", "tuned"),
    ),
}
"""The modes in which a field means something; a field that is not here applies in every mode."""
DEFAULT_MINUTES = 10
"""For how long the model reads in mode `probe` if nothing else is typed; where reading takes less, all is read."""


class ScoringForm(RunForm[ScoringRequest, Estimate]):
    """Asks how to score and which conversations; shows the cost before anything starts."""

    PLACE = "run"
    FORM_TITLE = "Score conversations"
    FIRST_FIELD = "mode"
    OPTIONS = options_of(ScoringRequest)
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, jobs: JobService, mode: Mode, listed: Filter) -> None:
        """Makes the form with what a project proposes.

        Args:
            jobs: The service that estimates the cost.
            mode: The mode that is proposed.
            listed: The filter of the list below the form, which proposes its conversations.
        """
        super().__init__()
        self.choices = choices_of(ScoringRequest) | {"mode": MODES}
        self._jobs, self._mode, self._listed = jobs, mode, listed
        self._in_force = jobs.scores_in_force()

    def compose_fields(self) -> ComposeResult:
        """Yields a line for each option."""
        initial = {
            "mode": self._mode,
            "minutes": str(DEFAULT_MINUTES),
            "filter": str(self._listed),
        }
        first = ("mode", "minutes", "filter")
        yield from self.option_lines(ScoringRequest, first=first, initial=initial)

    def update_lines(self) -> None:
        """Hides the fields that the chosen mode does not use."""
        mode = self.chosen("mode")
        self.show_lines({name: mode in modes for name, modes in MODES_OF_FIELDS.items()})

    def request(self) -> ScoringRequest:
        """Returns the run that the fields describe.

        Raises:
            WorkbenchError: A field cannot be understood.
        """
        return ScoringRequest(**self.values_of(ScoringRequest))

    def estimate(self, request: ScoringRequest) -> Estimate:
        """Returns the estimate of the run."""
        return self._jobs.estimate_scoring(request)

    def estimate_content(self, cost: Estimate) -> Content:
        """Returns the estimate in words, and which scores are in force."""
        estimate = super().estimate_content(cost)
        if self._in_force is None:
            return estimate
        sentence = "scores of another mode are stored beside them; S on the overview chooses"
        in_force = f"\nin force: {self._in_force}\n{sentence}"
        return Content.assemble(estimate, (in_force, "$tone-muted"))
