"""The dialogs over training runs: a new run and what it costs, everything about one, the log of its process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from engine.base.errors import FilterError, WorkbenchError
from engine.base.text import one_line
from engine.conversations.filter_completion import completions
from engine.conversations.filters import parse_filter
from engine.training.records import Choice, RunDetail, TrainingChoices, TrainingEstimate
from engine.training.service import TrainingService, estimate_lines
from engine.training.training_request import OPTIONS, TrainingRequest, read_request
from screens.shell.reading_dialogs import ReadingDialog, reading_keys
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.training import formatting
from screens.widgets.background import background
from screens.widgets.controls import LineInput
from screens.widgets.text_pane import TextPane

HELD_OUT = {
    share: FormChoice(f"{100 * float(share):.0f}% of the conversations")
    for share in ("0.5", "0.3", "0.2", "0.1")
}
"""Shares to choose from, the default first."""
OTHER_BASE = ""
"""The last choice of the field `base`; the field `path` then says which."""
PATH_HELP = "A GGUF file, or a folder as Hugging Face writes it."
"""What can be typed in the field `path`."""


class TrainingRunForm(RunForm[TrainingRequest, TrainingEstimate]):
    """Asks what to train on, how and on which weights; estimates memory and time as the fields change."""

    PLACE = "training-new"
    FORM_TITLE = "Train an adapter"
    FIRST_FIELD = "recipe"
    OPTIONS = OPTIONS
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, training: TrainingService, choices: TrainingChoices) -> None:
        super().__init__()
        self._training = training
        self._settings = choices.settings
        self.choices = {
            "recipe": _form_choices(choices.recipes),
            "base": {
                **_form_choices(choices.bases),
                OTHER_BASE: FormChoice("another: a path", PATH_HELP),
            },
            "held_out": HELD_OUT,
        }

    def compose_fields(self) -> ComposeResult:
        """Yields a line for each field of the request that a person chooses here."""
        yield field_line("filter", LineInput(id="filter", placeholder=OPTIONS["filter"].default))
        yield field_line("name", LineInput(id="name"))
        yield field_line("recipe", self.choice_field("recipe"))
        yield field_line("base", self.choice_field("base"))
        yield field_line("path", LineInput(id="path"))
        yield field_line("held out", self.choice_field("held_out"))
        yield field_line("limit", LineInput(id="limit", placeholder="all"))
        yield field_line("settings", LineInput(id="settings", placeholder="what fits this machine"))

    def update_lines(self) -> None:
        """Shows the field `path` only where other weights are chosen."""
        self.query_one("#field-path").display = self.chosen("base") == OTHER_BASE

    def request(self) -> TrainingRequest:
        """Returns the request that the fields say.

        Raises:
            WorkbenchError: A field cannot be understood.
        """
        texts = {name: self.text(name) for name in ("name", "limit")}
        texts |= {field: self.chosen(field) for field in self.choices}
        if texts["base"] == OTHER_BASE:
            texts["base"] = self.text("path")
            if not texts["base"]:
                raise WorkbenchError("Say where the weights are.", PATH_HELP)
        try:
            filter = parse_filter(self.text("filter"))
        except FilterError as error:
            raise WorkbenchError(f"The filter: {one_line(error.message)}") from error
        return read_request(texts, self.text("settings").split(), filter)

    def estimate(self, request: TrainingRequest) -> TrainingEstimate:
        """Returns the estimate of the run."""
        return self._training.estimate(request)

    def estimate_content(self, cost: TrainingEstimate) -> Content:
        """Returns the estimate as text; also shows the proposed name in its field."""
        self.query_one("#name", Input).placeholder = one_line(cost.name, 60)
        parts, facts, memory, *notes = estimate_lines(cost)
        return Content("\n").join(
            [
                Content(f"{parts}\n{facts}"),
                Content.styled(memory, "" if cost.fits else "$tone-incomplete"),
                *(Content.styled(note, "$tone-borderline") for note in notes),
            ]
        )

    def field_help(self, field: str) -> str:
        """Returns the help of a field: of its current choice, of what is being typed, or of the field itself."""
        if field == "path":
            return PATH_HELP
        if field == "filter":
            return self._filter_help() or OPTIONS["filter"].sentence
        if field == "settings":
            return f"field=value, several with spaces between them. {self._settings_help()}"
        return super().field_help(field)

    def _filter_help(self) -> str:
        """Returns what can follow the text in the field `filter`: names of fields, or values."""
        text = self.text("filter")
        if not text:
            return ""
        choices = completions(text, len(text), {})
        if len(choices) == 1:
            (only_choice,) = choices
            return f"{only_choice.text} {only_choice.help}"
        return ", ".join(choice.text for choice in choices)

    def _settings_help(self) -> str:
        """Returns the help of the setting that is being typed, else the names of all that begin so."""
        text = self.text("settings").split(" ")[-1].partition("=")[0]
        for setting in self._settings:
            if setting.name == text:
                return f"{setting.name}: {setting.help}"
        names = [setting.name for setting in self._settings if setting.name.startswith(text)]
        return ", ".join(names or [setting.name for setting in self._settings])


def _form_choices(choices: Sequence[Choice]) -> dict[str, FormChoice]:
    """Returns choices of the service as those of a field of the form, by their names."""
    return {choice.name: FormChoice(choice.name, choice.help) for choice in choices}


class DetailDialog(ReadingDialog):
    """Figures, validations, samples, settings and warnings of a run, as of when the dialog was opened."""

    PLACE = "training-run"
    WHAT = "the run"
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("enter")

    def __init__(self, detail: RunDetail) -> None:
        super().__init__()
        self._detail = detail

    def title_line(self) -> Content:
        """Names the run."""
        return Content(formatting.name_of(self._detail.run, 80))

    def on_mount(self) -> None:
        """Shows the run."""
        self.query_one(TextPane).show(formatting.detail_text(self._detail))


class LogDialog(ReadingDialog):
    """What the processes of a run printed, from its end."""

    PLACE = "training-log"
    WHAT = "the log"
    OWN_HINTS = (("r", "reads again"),)
    BINDINGS: ClassVar[list[BindingType]] = reading_keys(
        "l", Binding("r", "read", "Again", tooltip="Read what was printed since")
    )

    def __init__(self, training: TrainingService, name: str) -> None:
        super().__init__()
        self._training, self._run = training, name

    def title_line(self) -> Content:
        """Names the run."""
        return Content(f"Log of {one_line(self._run, 60)}")

    def on_mount(self) -> None:
        """Reads the log."""
        self.action_read()

    def action_read(self) -> None:
        """Reads the log again and goes to its end."""
        training, name = self._training, self._run
        background(self, lambda: training.log(name), self._show, self.show_error, group="log")

    def _show(self, text: str) -> None:
        """Shows the log from its end."""
        self.query_one(TextPane).show(text or "Nothing was printed yet.", at_end=True)
