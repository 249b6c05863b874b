"""The models screen: lists models with the memory they need; adds, tunes, chooses, tries and removes them.

A row is a model, an adapter or an endpoint. Work is what a project uses a model for, such as scoring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import ERROR_LIMIT, NAME_LIMIT, NOTICE_LIMIT, one_line
from engine.model.records import WORKS, Fact, ModelRow, Work
from engine.opener.open_project import OpenProject
from screens.shell.dialogs import ChoiceDialog, TextDialog, ask, confirm
from screens.shell.exporting import copy
from screens.shell.reading_dialogs import PromptTrialDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.formatting import Look, facts_table
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

MODEL_NAME_CHARACTERS = 48
"""Most characters of the name of a model in a title or a notice."""
FORMAT_CHARACTERS = 12
"""Most characters of the format of weights beside a state."""
IN_USE_CHARACTERS = 24
"""Most characters of the name of a model that is in use, in the list of works."""
GET_MORE = "workbench models search WORDS finds more"
"""How models come from the hub, which the screen does not ask."""
DASH = "–"
"""Stands for a figure that is unknown."""
READY = Look("●", "ready", "complete")
"""How a model is shown that can be used."""
ADAPTER = Look("◆", "adapter", "accent")
"""How an adapter is shown."""
ENDPOINT = Look("⇄", "endpoint", "accent")
"""How an endpoint is shown."""
BROKEN = Look("✗", "unusable", "incomplete")
"""How a row with a problem is shown."""
TOO_LARGE = Look("!", "too large", "borderline")
"""How a model is shown that does not fit in memory."""

T = TypeVar("T")
"""What slow work returns."""


def name_of(row: ModelRow, limit: int = MODEL_NAME_CHARACTERS) -> str:
    """Returns the name of a row on one line of at most `limit` characters, display-safe."""
    return one_line(row.name, limit)


def look_of(row: ModelRow) -> Look:
    """Returns how the state of a row is shown."""
    if row.problem:
        return BROKEN
    if row.kind != "model":
        return ADAPTER if row.kind == "adapter" else ENDPOINT
    return TOO_LARGE if row.fits is False else READY


def state_word(row: ModelRow) -> str:
    """Returns the state in a word or two; for a model that is ready, the format that it runs as, if that is known."""
    look = look_of(row)
    if look is not READY:
        return look.word
    return f"as {one_line(row.runs_as, FORMAT_CHARACTERS)}" if row.runs_as else look.word


def speed(value: float | None) -> str:
    """Returns a speed in tokens a second; a dash for None."""
    return DASH if value is None else f"{value:,.0f} t/s"


def model_content(facts: Sequence[Fact], cells: int) -> Content:
    """Returns the facts about a model as a table that is `cells` wide."""
    return facts_table([(name, one_line(value, NOTICE_LIMIT)) for name, value in facts], cells)


def format_works(works: Sequence[Work]) -> str:
    """Returns the kinds of work that a model is used for, in words; empty if there are none."""
    if not works:
        return ""
    return "for all work" if len(works) == len(WORKS) else f"for {', '.join(works)}"


def works_to_choose(rows: Sequence[ModelRow]) -> list[tuple[tuple[Work, ...], str]]:
    """Returns the kinds of work that a model can be chosen for, each with the model in use."""
    choices: list[tuple[tuple[Work, ...], str]] = [(tuple(WORKS), "everything this project does")]
    for work, name in WORKS.items():
        models_in_use = [name_of(row, IN_USE_CHARACTERS) for row in rows if work in row.works]
        choices.append(((work,), f"{name} · now {', '.join(models_in_use) or 'none'}"))
    return choices


def format_use(name: str, works: Sequence[Work]) -> str:
    """Returns the notice after a model was chosen."""
    text = "everything" if len(works) == len(WORKS) else ", ".join(WORKS[work] for work in works)
    return f"{one_line(name, NAME_LIMIT)} does {text} of this project; --model still names another."


def summary(rows: Sequence[ModelRow], busy: str) -> Content:
    """Returns the line above the list: how many models there are, and the work that runs, `busy`, if one does."""
    kinds = Counter(row.kind for row in rows)
    parts: list[tuple[str, str] | str] = [
        (number_format.counted(kinds["model"], "model"), "bold"),
        f" · {number_format.counted(kinds['adapter'], 'adapter')}",
    ]
    if kinds["endpoint"]:
        parts.append(f" · {number_format.counted(kinds['endpoint'], 'endpoint')}")
    if busy:
        parts.append((f" · {one_line(busy)}", "$tone-accent"))
    else:
        parts.append((f" · {GET_MORE}", "$tone-muted"))
    return Content.assemble(*parts)


def as_text(row: ModelRow, facts: Sequence[Fact]) -> str:
    """Returns a model as tab-separated lines, for the clipboard."""
    return "\n".join([row.name, *(f"{name}\t{value}" for name, value in facts)])


def model_columns() -> list[Column[ModelRow]]:
    """Returns the columns of the list: name, state, sizes, speed, origin, license, and what the row is."""

    def state(row: ModelRow) -> Sequence[Piece]:
        """Returns the state with its sign."""
        look = look_of(row)
        return [(f"{look.glyph} {state_word(row)}", look.tone_class)]

    def source(row: ModelRow) -> Sequence[Piece]:
        """Returns the work that the row is used for, and its note or source."""
        detail = (one_line(row.note or row.source), "tone--muted")
        works = format_works(row.works)
        return [(f"{works} · ", "tone--accent"), detail] if works else [detail]

    def memory(row: ModelRow) -> Sequence[Piece]:
        """Returns the memory that the model needs, marked where the machine has less."""
        tone = "tone--borderline" if row.fits is False else ""
        return [(number_format.size(row.memory), tone if row.memory is not None else "tone--muted")]

    return [
        Column("name", "model", 16, lambda row: [(one_line(row.name), "")], flexible=True),
        Column("state", "status", 14, state),
        Column("size", "on disk", 9, lambda row: [(number_format.size(row.size), "")],
               right=True, keep=8),
        Column("memory", "memory", 9, memory, right=True, keep=7),
        Column("speed", "speed", 10, lambda row: [(speed(row.tokens_per_s), "")],
               right=True, keep=6),
        Column("origin", "from", 8, lambda row: [(one_line(row.origin), "tone--muted")], keep=5),
        Column("license", "license", 12,
               lambda row: [(one_line(row.license) or DASH, "tone--muted")], keep=4),
        Column("source", "what it is", 34, source, keep=3),
    ]  # fmt: skip


class ModelsScreen(WorkbenchScreen[None]):
    """Lists models, endpoints and adapters; below the list shows the facts about the one under the cursor."""

    PLACE = "models"
    MODE = "models"
    FIRST_KEYS = ("models.use", "models.add", "models.tune")
    AUTO_FOCUS = "#models"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "add", "Add", tooltip="Add a GGUF file, or those of a folder"),
        Binding("u", "use", "Use", tooltip="Choose what this project uses the model for"),
        Binding("t", "tune", "Tune", tooltip="Find the fastest format of its weights that stays accurate"),
        Binding("r", "try", "Try", tooltip="Show its replies to a prompt on 3 conversations, groups or pairs"),
        Binding("D", "remove", "Remove", tooltip="Delete what was pulled, forget what was added; asks first"),
        Binding("y", "copy", "Copy", tooltip="Copy what is known of the model", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.models = services.models
        self.rows: Sequence[ModelRow] = ()
        self._facts_of = ""  # name of the model whose facts were read last
        self._facts: Sequence[Fact] = ()
        self._busy = ""  # the slow work that runs, in words; empty without one
        self.table = ItemTable(model_columns(), lambda row: row.name, id="models")

    def compose_body(self) -> ComposeResult:
        """Yields the summary, list, and the facts about the item under the cursor."""
        yield Static(id="summary")
        yield self.table
        with VerticalScroll(id="about"):
            yield Static(id="facts")

    # Reading

    def refresh_data(self) -> None:
        """Reads everything again."""

        def show(rows: list[ModelRow]) -> None:
            """Shows what was read; the facts are read again when they are shown."""
            self.rows = rows
            self._facts_of = ""
            self.table.show_items(rows)
            self._update_summary()
            self._show_facts()

        self.in_background(self.models.rows, show, group="models", on_error=self.show_in_summary)

    def _update_summary(self) -> None:
        """Shows the line above the list."""
        self.query_one("#summary", Static).update(summary(self.rows, self._busy))

    def on_resize(self) -> None:
        """Wraps the facts in the width there is."""
        self.call_after_refresh(self._show_facts)

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the facts about the row under the cursor."""
        self.query_one("#about", VerticalScroll).scroll_home(animate=False)
        self._show_facts()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter moves to the facts, to scroll them."""
        self.query_one("#about", VerticalScroll).focus()

    def _show_facts(self) -> None:
        """Shows the facts about the row under the cursor; reads them first if they are not those read last."""
        row = self.table.cursor_item
        pane = self.query_one("#facts", Static)
        if row is None:
            pane.update("")
        elif self._facts_of == row.name:
            pane.update(model_content(self._facts, pane.size.width))
        else:
            name = row.name

            def show(facts: list[Fact]) -> None:
                """Keeps the facts, and shows them if the cursor is still there."""
                self._facts_of, self._facts = name, facts
                if self.table.cursor_item is not None and self.table.cursor_item.name == name:
                    self._show_facts()

            self.in_background(
                lambda: self.models.facts(name), show, group="facts", on_error=self.show_in_summary
            )

    # Actions

    def _run_slow(self, busy: str, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Runs slow work, which the summary shows as `busy`, then calls `then` and reads the models again."""
        self._busy = busy
        self._update_summary()

        def end(show: Callable[[], None]) -> None:
            """Shows that nothing runs any more, and how the work ended."""
            self._busy = ""
            self._update_summary()
            show()
            self.refresh_data()

        self.in_background(
            work,
            lambda result: end(lambda: then(result)),
            group="act",
            on_error=lambda error: end(lambda: self.show_error(error)),
        )

    def _is_idle(self) -> bool:
        """Returns whether no slow work runs; notifies which one does."""
        if self._busy:
            self.notify(f"Still {self._busy}", markup=False)
        return not self._busy

    def action_add(self) -> None:
        """Asks for a file or folder, and adds it."""
        if not self._is_idle():
            return

        def notify(names: list[str]) -> None:
            """Tells what was added."""
            text = ", ".join(one_line(name, NAME_LIMIT) for name in names)
            self.notify(f"{text} added.", markup=False)

        def add(path: str) -> None:
            """Adds what is at the path."""
            if path.strip():
                self._run_slow("loading it once …", lambda: self.models.add(path.strip()), notify)

        placeholder = "a .gguf file, a folder of them, or a training run"
        ask(self, TextDialog("Add models", placeholder=placeholder), add)

    def _usable_row(self) -> ModelRow | None:
        """Returns the row under the cursor; None if there is none, or slow work runs."""
        return self.table.cursor_item if self._is_idle() else None

    def action_tune(self) -> None:
        """Tunes the model under the cursor; that is a job, which the bottom line shows."""
        row = self._usable_row()
        if row is None or not self.may_write():
            return
        if row.kind != "model":
            self.notify("Only models that are here can be tuned.", markup=False)
            return
        self._start(lambda: self.models.tune(row.name))

    def action_use(self) -> None:
        """Asks for which work the project uses the model under the cursor."""
        row = self._usable_row()
        if row is None or not self.may_write():
            return
        if row.kind == "adapter":
            self.notify("Training (7) chooses the adapter; u is for models.", markup=False)
            return
        name = row.name

        def use(works: tuple[Work, ...]) -> None:
            """Chooses the model for the works."""
            self._run_slow(
                f"choosing {name_of(row)} …",
                lambda: self.models.use(name, works),
                lambda _: self.notify(format_use(name, works), markup=False),
            )

        title = f"Use {name_of(row)} for"
        ask(self, ChoiceDialog(title, works_to_choose(self.rows)), use)

    def action_try(self) -> None:
        """Asks for a prompt, and shows what the model under the cursor replies to it."""
        row = self._usable_row()
        if row is None:
            return
        if row.kind == "adapter":
            self.notify("Training (7) chooses the adapter; r is for models.", markup=False)
            return
        from engine.opener.model_previews import REPLY_FORMS, PromptTrial  # they import numpy

        def try_prompt(prompt: str) -> None:
            """Shows the replies to the prompt."""
            self.app.push_screen(PromptTrialDialog(PromptTrial(self.services, prompt), row.name))

        prompts = [(name, name) for name in REPLY_FORMS]
        ask(self, ChoiceDialog("Try the prompt", prompts), try_prompt)

    def action_remove(self) -> None:
        """Removes the row under the cursor, after a question."""
        row = self._usable_row()
        if row is None:
            return
        name = row.name

        def ask_first(text: str) -> None:
            """Asks whether to remove the row; `text` tells what is removed."""
            confirm(self, "Remove?", remove, yes=one_line(text, ERROR_LIMIT))

        def remove() -> None:
            """Removes the row."""
            self._run_slow(
                "removing …",
                lambda: self.models.remove(name),
                lambda _: self.notify("It is gone.", markup=False),
            )

        self.in_background(lambda: self.models.removal(name), ask_first, group="removal")

    def action_copy(self) -> None:
        """Copies the facts about the row under the cursor."""
        row = self.table.cursor_item
        if row is not None:
            self.in_background(
                lambda: self.models.facts(row.name),
                lambda facts: copy(self, as_text(row, facts), name_of(row)),
                group="copy",
            )
