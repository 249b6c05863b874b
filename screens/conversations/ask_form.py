"""The form for a run that asks a question of conversations, with what it costs."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import BindingType

from engine.base.errors import UsageError
from engine.base.request_options import Option, options_of
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
"""Who may answer."""


class AskForm(RunForm[tuple[str, AskRequest], Estimate]):
    """Asks for the question, who answers it, and the conversations; answers with the question as it was typed."""

    PLACE = "ask"
    FORM_TITLE = "Ask a question"
    FIRST_FIELD = "question"
    OPTIONS = options_of(AskRequest) | {
        "question": Option("a name, such as refused, or a question of your own that ends with “?”")
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
        model = self.OPTIONS["model"]
        yield field_line("model", LineInput(placeholder=model.default, id="model"))
        yield field_line("votes", LineInput(placeholder="1", id="votes"))
        placeholder = "all conversations"
        yield field_line("of", LineInput(str(self._listed), placeholder=placeholder, id="filter"))

    def update_lines(self) -> None:
        """Hides what is for a model alone."""
        for field in ("model", "votes"):
            self.query_one(f"#field-{field}").display = self.chosen("by") == "model"

    def request(self) -> tuple[str, AskRequest]:
        """Returns the question as it was typed, and the run.

        Raises:
            UsageError: A field cannot be understood.
        """
        question = self.text("question")
        if not question:
            raise UsageError("No question yet.")
        values = self.typed_values("model", "votes", "filter")
        return question, AskRequest(self.chosen("by"), **values)

    def estimate(self, request: tuple[str, AskRequest]) -> Estimate:
        """Returns the estimate of the run."""
        text, run = request
        return self._services.asking.estimate(self._services.questions.find(text), run)
