"""Finds a model to pull: recommended models, a search of the hub, and the files of a repository. The hub is asked on
enter only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.model.records import HubModel, HubPage, RecommendedSet
from engine.model.service.service import ModelService
from screens.models import formatting as words
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.run_form import refusal_content
from screens.widgets.background import background
from screens.widgets.controls import Choices, LineInput

T = TypeVar("T")
"""What a request to the hub returns."""


@dataclass(frozen=True, slots=True)
class HubRequest:
    """The file that the person wants to pull, and its repository."""

    repository: str
    file: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A repository in a list; `file` is a part of the recommended file's name, `note` says why."""

    repository: str
    file: str = ""
    note: Content | None = None


class HubDialog(Dialog[HubRequest | None]):
    """Lists repositories, then the files of one, and answers with the file to pull."""

    PLACE = "models-hub"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", tooltip="Back to the list, then out"),
        Binding("slash", "words", "Search", tooltip="Write what to look for"),
        Binding("tab", "app.focus_next", "Next pane", show=False),
        Binding("shift+tab", "app.focus_previous", "Previous pane", show=False),
    ]

    def __init__(self, models: ModelService, host: str) -> None:
        super().__init__()
        self._models, self._host = models, host
        # The list of repositories, to go back to from a page: what each line stands for, the lines, what is above them.
        self._places: list[_Place] = []
        self._lines: list[Content] = []
        self._heading = Content("")
        self._page: HubPage | None = None  # the repository whose files are listed

    def compose(self) -> ComposeResult:
        """Yields the search line, list, details, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Pull a model")
            yield LineInput(
                placeholder=f"words to look for on {one_line(self._host, 60)}, or OWNER/NAME"
            )
            yield Static(id="hub-status")
            yield Choices(markup=False)
            yield Static(id="about")
            yield Static(
                hint_line(
                    ("/", "words"), ("enter", "searches, opens, pulls"), ("escape", "goes back")
                )
            )

    def on_mount(self) -> None:
        """Shows the recommended models first, which needs no network."""
        self._ask(self._models.recommended, self._show_recommended, "")

    # Requests

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Searches for the words, opens OWNER/NAME, or without words shows the recommended models."""
        text = " ".join(event.value.split())
        if not text:
            self._ask(self._models.recommended, self._show_recommended, "")
        elif "/" in text:
            self._look_at(_Place(text))
        else:
            self._ask(lambda: self._models.search(text), self._show_found, f"asking {self._host} …")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Opens a repository; chooses a file."""
        if self._page is not None:
            repository = self._page.repository
            self.dismiss(HubRequest(repository.name, repository.files[event.option_index].name))
        else:
            self._look_at(self._places[event.option_index])

    def _look_at(self, place: _Place) -> None:
        """Asks the hub for the files of a repository."""

        def show(page: HubPage) -> None:
            self._show_page(page, place.file)

        self._ask(lambda: self._models.look_at(place.repository), show, f"asking {self._host} …")

    def _ask(self, work: Callable[[], T], then: Callable[[T], None], status: str) -> None:
        """Runs a request in the background; `status` says meanwhile what is asked."""
        self._show_status(Content.styled(one_line(status), "$tone-accent"))
        background(self, work, then, self._failed, group="hub")

    def _failed(self, error: WorkbenchError) -> None:
        """Shows why a request failed."""
        self._show_status(refusal_content(error))

    # Display

    def _show_recommended(self, sets: Sequence[RecommendedSet]) -> None:
        """Lists the recommended models; the cursor is on the first for this machine."""
        rows = [(models, model) for models in sets for model in models.models]
        places = [
            _Place(model.repository, model.file, words.note_content(model)) for _, model in rows
        ]
        heading = "Recommended models by memory; those for this machine are highlighted. The hub was not asked."
        self._list(places, [words.recommended_content(*row) for row in rows], heading)
        here = next((index for index, (models, _) in enumerate(rows) if models.here), 0)
        self.query_one(Choices).highlighted = here if rows else None

    def _show_found(self, rows: Sequence[HubModel]) -> None:
        """Lists the repositories that were found."""
        places = [_Place(row.name) for row in rows]
        heading = (
            f"{len(rows)} with GGUF files, most downloaded first" if rows else "Nothing was found."
        )
        self._list(places, [words.found_content(row) for row in rows], heading)

    def _list(self, places: list[_Place], lines: list[Content], heading: str) -> None:
        """Lists repositories."""
        self._places, self._lines, self._page = places, lines, None
        self._heading = Content.styled(heading, "$tone-muted")
        self._fill(lines)
        self._show_status(self._heading)

    def _show_page(self, page: HubPage, piece: str) -> None:
        """Lists the files of a repository; the cursor is on the first with `piece` in its name."""
        self._page = page
        files = page.repository.files
        self._fill([words.file_content(file, page.fits(file)) for file in files])
        if files:
            with_piece = (
                index for index, file in enumerate(files) if piece.lower() in file.name.lower()
            )
            self.query_one(Choices).highlighted = next(with_piece, 0)
        title = Content.styled(one_line(page.repository.name, 80), "bold")
        self._show_status(title if files else Content.assemble(title, " has no file to pull."))
        self.query_one("#about", Static).update(words.page_content(page))

    def _fill(self, lines: Sequence[Content]) -> None:
        """Puts lines into the list and the cursor on the first."""
        listed = self.query_one(Choices)
        listed.clear_options()
        listed.add_options([Option(line) for line in lines])
        listed.display = bool(lines)
        self.query_one("#about", Static).update("")
        if lines:
            listed.highlighted = 0
            listed.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Says why a model is recommended."""
        if self._page is None and event.option_index < len(self._places):
            self.query_one("#about", Static).update(self._places[event.option_index].note or "")

    def _show_status(self, content: Content) -> None:
        """Shows the line above the list."""
        self.query_one("#hub-status", Static).update(content)

    # Keys

    def action_back(self) -> None:
        """Goes from the files back to the list, or closes the dialog."""
        if self._page is None or not self._places:
            self.dismiss(None)
            return
        self._page = None
        self._fill(self._lines)
        self._show_status(self._heading)

    def action_words(self) -> None:
        """Moves to the search line."""
        self.query_one(Input).focus()

    def on_key(self, event: events.Key) -> None:
        """The down key moves from the search line to the list."""
        if event.key == "down" and self.focused is self.query_one(Input):
            self.query_one(Choices).focus()
            event.stop()
