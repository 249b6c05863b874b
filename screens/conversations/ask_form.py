"""The form for a run that asks a question of conversations, with what it costs."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType

from engine.base.errors import UsageError
from engine.base.request_options import Option, options_of
from engine.base.text import one_line
from engine.conversations.filters import Filter
from engine.opener.open_project import OpenProject
from engine.project.records import Estimate
from engine.questions.service.asking import AskRequest
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.widgets.controls import LineInput

ANSWERERS: dict[Literal["pattern", "model"], FormChoice] = {
    "pattern": FormChoice("its patterns", "The words in the file of the question; in seconds."),
    "model": FormChoice(
        "a model", "It reads each conversation, and says why and which messages show it."
    ),
}
"""Who may answer a question."""

MAX_PATH_CHARACTERS = 80
"""Most characters of the path of the project in the help of a field."""


class QuestionRun(NamedTuple):
    """A run that asks a question of conversations.

    Attributes:
        text: The question as it was typed: its name, or a question of the person's own.
        pattern: The words that answer a question of the person's own; see `QuestionService.find`.
        request: Who answers it, and on which conversations.
    """

    text: str
    pattern: str
    request: AskRequest


class AskForm(RunForm[QuestionRun, Estimate]):
    """Asks for the question, who answers it, and the conversations."""

    PLACE = "ask"
    FORM_TITLE = "Ask a question"
    FIRST_FIELD = "question"
    OPTIONS = options_of(AskRequest) | {
        "question": Option("a name, such as refused, or a question of your own that ends with “?”"),
        "pattern": Option(
            "words that mean yes, separated by commas, or /a regular expression/, for a question of your own"
        ),
    }
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, services: OpenProject, listed: Filter) -> None:
        """`listed` is the filter of the list below the form."""
        super().__init__()
        self.choices = {"by": ANSWERERS}
        self._services, self._listed = services, listed

    def compose_fields(self) -> ComposeResult:
        """Yields the lines of the form."""
        yield field_line("question", LineInput(placeholder="its name, or your own", id="question"))
        yield field_line("answered by", self.choice_field("by"))
        yield field_line("words", LineInput(placeholder="those of the question", id="pattern"))
        model = self.OPTIONS["model"]
        yield field_line("model", LineInput(placeholder=model.default, id="model"))
        yield field_line("votes", LineInput(placeholder="1", id="votes"))
        placeholder = "all conversations"
        yield field_line("of", LineInput(str(self._listed), placeholder=placeholder, id="filter"))

    def field_help(self, field: str) -> str:
        """Returns the help of a field; that of a field which makes a new question tells where it is stored."""
        if field not in ("question", "pattern"):
            return super().field_help(field)
        path = one_line(str(self._services.project.path), MAX_PATH_CHARACTERS)
        return f"{super().field_help(field)} A new one is stored in {path}."

    def update_lines(self) -> None:
        """Hides the fields that only the other kind of answerer uses."""
        is_model = self.chosen("by") == "model"
        self.show_lines({"model": is_model, "votes": is_model, "pattern": not is_model})

    def request(self) -> QuestionRun:
        """Returns the run.

        Raises:
            UsageError: A field cannot be understood.
        """
        question = self.text("question")
        if not question:
            raise UsageError("No question yet.")
        values = self.typed_values("model", "votes", "filter")
        pattern = self.text("pattern") if self.chosen("by") == "pattern" else ""
        return QuestionRun(question, pattern, AskRequest(self.chosen("by"), **values))

    def estimate(self, request: QuestionRun) -> Estimate:
        """Returns the estimate of the run."""
        question = self._services.questions.find(request.text, pattern=request.pattern)
        return self._services.asking.estimate(question, request.request)
