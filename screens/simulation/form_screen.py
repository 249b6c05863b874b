"""Fills a form in conversation: the person answers in place of the simulated user, and sees the replies of the
modules.

A *module* is one prompt with one kind of reply: the modules ask questions, extract facts from answers, and fill and
check the form.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from engine.base.text import display_safe, one_line
from engine.opener.open_project import OpenProject
from engine.simulate.records import AskedField, LiveLine, SessionState, chosen_models
from engine.simulate.request import SimulationOffers
from engine.simulate.service.person import PersonSession
from screens.shell.dialogs import ChoiceDialog, Dialog, hint_line
from screens.shell.run_form import FORM_KEYS, field_line
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.simulation import formatting
from screens.widgets.controls import Cycle, LineInput
from screens.widgets.jobs import EngineFeed
from screens.widgets.messages import wrap

POLL_SECONDS = 0.2
"""Seconds between two reads of the state."""

MAX_MESSAGE_CHARS = 2_000
"""Most characters of a message that are shown."""

MAX_REPLIES = 200
"""Most replies of modules that are shown, the newest."""

SPEAKER_WIDTH = 6
"""Cells of the column with the speaker's name."""

RIGHT_MARGIN = 2
"""Cells at the right of a pane that its lines leave free, for the scroll bar and a gap."""

MAX_RESULT_CELLS = 400
"""Most cells of the sentence that says how the form ended."""

MAX_MODULE_CELLS = 40
"""Most cells of the name of a module in the line of state."""

MAX_FIELDS = 6
"""Most fields of a question that are named."""

WayOut = Literal["stop", "wait"]
"""Ways to leave a form that is not finished: end it with what is filled, or come back to it later."""

OTHER_FORM = "another: a JSON file"
"""The choice of a form of one's own."""


@dataclass(frozen=True, slots=True)
class FormToFill:
    """The form, its variant (how it is filled), and the model; a model of None is that of the project."""

    form: str
    variant: str
    model: str | None


class FormChoiceDialog(Dialog[FormToFill | None]):
    """Asks for a form, a variant and a model."""

    PLACE = "form-choice"
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, offers: SimulationOffers) -> None:
        super().__init__()
        self._offers = offers

    def compose(self) -> ComposeResult:
        """Yields the fields and keys."""
        offers = self._offers
        forms = [f"{name}: {what}" for name, what in offers.forms]
        fields = (
            ("form", Cycle([*forms, OTHER_FORM], id="form")),
            ("file", LineInput(id="path", placeholder="a form as JSON")),
            ("variant", Cycle(offers.variants, id="variant")),
            ("model", Cycle([f"{offers.models[0]} (the project's)", *offers.models], id="model")),
        )
        with Vertical(classes="dialog fields") as box:
            box.border_title = Content("Fill a form yourself")
            for name, widget in fields:
                yield field_line(name, widget)
            yield Static(
                Content.styled(
                    "You answer, the model asks. Other work of the model waits until it is over.",
                    "$tone-muted",
                ),
                id="help",
            )
            keys = (("↑↓", "field"), ("←→", "value"), ("enter", "starts"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Begins at the form."""
        self.on_cycle_changed()
        self.query_one("#form").focus()

    def on_cycle_changed(self) -> None:
        """Shows the line for a file where one is asked for."""
        self.query_one("#field-path").display = self._bundled_form is None

    @property
    def _bundled_form(self) -> str | None:
        """Name of the bundled form that is chosen; None for a file."""
        index = self.query_one("#form", Cycle).chosen_index
        forms = self._offers.forms
        return forms[index][0] if index < len(forms) else None

    def action_start(self) -> None:
        """Closes the dialog with the choice; does nothing while a file is missing."""
        name = self._bundled_form or self.query_one("#path", Input).value.strip()
        if name:
            variant = self._offers.variants[self.query_one("#variant", Cycle).chosen_index]
            model = chosen_models(self._offers.models, self.query_one("#model", Cycle).chosen_index)
            self.dismiss(FormToFill(name, variant, model))


class FormScreen(WorkbenchScreen[None]):
    """Shows the questions, takes the answers, and shows the replies of the modules turn by turn."""

    PLACE = "form"
    CSS_PATH = "simulation.tcss"
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Stop …", tooltip="Stop and keep it, or leave it waiting"),
        Binding("ctrl+r", "conversation", "Read", tooltip="Read the conversation, once it is over"),
        Binding("pageup", "scroll(-1)", "Up", show=False, tooltip="Scroll the dialogue"),
        Binding("pagedown", "scroll(1)", "Down", show=False, tooltip="Scroll the dialogue"),
    ]

    def __init__(
        self, services: OpenProject, feed: EngineFeed, session: PersonSession, mode: str
    ) -> None:
        """`mode` is the mode of the screen from which this one is opened."""
        super().__init__(services, feed, mode)
        self._session = session
        self._state = SessionState((), None)
        self._is_current = False  # whether `_state` is drawn at the present width

    def compose_body(self) -> ComposeResult:
        """Yields the dialogue, the modules, what it waits for, the line of the answer."""
        with Vertical(id="panes"):
            with VerticalScroll(id="dialogue", can_focus=False):
                yield Static(id="messages")
            with VerticalScroll(id="modules", can_focus=False):
                yield Static(id="calls")
        yield Static(id="state")
        yield LineInput(placeholder="your answer")

    def on_mount(self) -> None:
        """Reads the state every `POLL_SECONDS`."""
        super().on_mount()
        self.query_one(TitleLine).say(Content.styled("Fill a form", "bold"))
        self.set_interval(POLL_SECONDS, self._read_and_draw)

    def refresh_data(self) -> None:
        """Draws the state."""
        self._read_and_draw()

    def on_resize(self) -> None:
        """Lines have another width, which is known once all is laid out."""
        self._is_current = False
        self.call_after_refresh(self._read_and_draw)

    def _read_and_draw(self) -> None:
        """Reads the state, and draws it where it changed."""
        state = self._session.state()
        if state == self._state and self._is_current:
            return
        self._state, self._is_current = state, True
        width = self.query_one("#dialogue").content_size.width - RIGHT_MARGIN
        self.query_one("#messages", Static).update(dialogue_content(state, width))
        calls = self.query_one("#calls", Static)
        width = self.query_one("#modules").content_size.width - RIGHT_MARGIN
        lines = [
            formatting.line_content(line.module, line.role, line.text, width)
            for line in state.lines[-MAX_REPLIES:]
        ]
        calls.update(Content("\n").join(lines))
        self.query_one("#state", Static).update(state_content(state))
        self.query_one(Input).display = state.over is None
        for name in ("#dialogue", "#modules"):
            self.query_one(name, VerticalScroll).scroll_end(animate=False)

    # Acting

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answers the open question; before it is asked nothing is sent."""
        if self._state.question is None:
            self.notify("The next question is still being made.", markup=False)
            return
        self._session.answer(event.value)
        event.input.clear()
        self._read_and_draw()

    def action_scroll(self, by: int) -> None:
        """Scrolls both panes by half a screen."""
        for name in ("#dialogue", "#modules"):
            pane = self.query_one(name, VerticalScroll)
            pane.scroll_relative(y=by * max(1, pane.size.height // 2), animate=False)

    def action_leave(self) -> None:
        """Asks whether to stop; goes back at once when it is over."""
        if self._session.state().over is not None:
            self.dismiss(None)
            return
        choices: list[tuple[WayOut, str]] = [
            ("stop", "Stop here and keep the conversation"),
            ("wait", "Leave it waiting; F comes back to it"),
        ]

        def act_on_choice(way: WayOut | None) -> None:
            if way == "stop":
                self._session.stop()
                self._read_and_draw()
            elif way == "wait":
                self.dismiss(None)

        self.app.push_screen(ChoiceDialog("This form is not finished", choices), act_on_choice)

    def action_conversation(self) -> None:
        """Opens the conversation that was stored of the finished form."""
        key = self._state.conversation_id
        if key is None:
            self.notify("There is no conversation yet.", markup=False)
            return
        self.open_reader(array("q", [key]), 0)


def dialogue_content(state: SessionState, width: int) -> Content:
    """Returns the questions and answers, and the question that is open, in lines of so many cells.

    A reply of the person answers the latest question that a module wrote before it; other replies of modules, such as
    decisions and filled sections, are not part of the dialogue.
    """
    parts: list[tuple[str, str, str]] = []  # speaker, text and its style
    question = ""
    for line in state.lines:
        if line.role == "user":
            if question:
                parts.append(("asks", question, "$tone-muted"))
            parts.append(("you", line.text, "$tone-accent"))
            question = ""
        else:
            question = question_of(line) or question
    if state.question is not None:
        parts.append(("asks", state.question, "bold $tone-bright"))
        parts += [("for", format_field(field), "$tone-muted") for field in state.asked[:MAX_FIELDS]]
        if len(state.asked) > MAX_FIELDS:
            parts.append(("", f"and {len(state.asked) - MAX_FIELDS} more", "$tone-muted"))
    return Content("\n").join(_message(*part, width=width) for part in parts)


def format_field(field: AskedField) -> str:
    """Returns a field as its label, whether it is optional, and its options."""
    optional_mark = "" if field.required else " (optional)"
    options = f": {' | '.join(field.options)}" if field.options else ""
    return f"{field.label}{optional_mark}{options}"


def question_of(line: LiveLine) -> str:
    """Returns the question that a module wrote; "" for another reply.

    A module replies with a JSON object. Its question is under `question`, or under `new question` where the module
    asks again after an answer that did not match.
    """
    try:
        value = json.loads(line.text)
    except (ValueError, RecursionError):
        return ""
    question = value.get("question", value.get("new question")) if isinstance(value, dict) else None
    return question if isinstance(question, str) else ""


def _message(who: str, text: str, style: str, width: int) -> Content:
    """Returns a message beside the name of its speaker."""
    lines = wrap(display_safe(text[:MAX_MESSAGE_CHARS]), width - SPEAKER_WIDTH)
    text = f"\n{' ' * SPEAKER_WIDTH}".join(lines)
    return Content.assemble((who.ljust(SPEAKER_WIDTH), "$tone-muted"), (text, style))


def state_content(state: SessionState) -> Content:
    """Returns what the form waits for, or the result once it is finished."""
    if state.over is not None:
        keys: list[tuple[str, str]] = []
        if state.conversation_id is not None:
            keys = [("  ctrl+r", "bold $tone-accent"), (" reads it", "$tone-muted")]
        back = [("  escape", "bold $tone-accent"), (" goes back", "$tone-muted")]
        return Content.assemble((one_line(state.over, MAX_RESULT_CELLS), "bold"), *keys, *back)
    if state.question is not None:
        return Content.styled("Your answer, then enter.", "$tone-accent")
    doing = f" after {one_line(state.lines[-1].module, MAX_MODULE_CELLS)}" if state.lines else ""
    return Content.styled(f"The modules are at work{doing} …", "$tone-muted")
