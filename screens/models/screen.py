"""The models screen: lists models with the memory they need; tunes, chooses and removes them."""

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
from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.model.records import WORKS, Fact, ModelRow, Work
from engine.opener.open_project import OpenProject
from screens.shell.dialogs import ChoiceDialog, TextDialog, ask, confirm
from screens.shell.exporting import copy
from screens.shell.reading_dialogs import PromptTrialDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.formatting import Look, facts_table
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, Piece, RowTable

NAME_CHARACTERS = 48
"""Most characters that are shown of a name."""
FACT_CHARACTERS = 400
"""Most characters that are shown of a fact about a model."""
GET_MORE = "workbench models search WORDS finds more"
"""How models come from the hub, which the screen does not ask."""
DASH = "–"
"""Stands for a figure that is unknown."""
READY = Look("●", "ready", "complete")
ADAPTER = Look("◆", "adapter", "accent")
ENDPOINT = Look("⇄", "endpoint", "accent")
BROKEN = Look("✗", "unusable", "incomplete")
TOO_LARGE = Look("!", "too large", "borderline")
"""How the states of models, adapters and endpoints are shown."""

T = TypeVar("T")
"""What an act returns."""


def name_of(row: ModelRow, limit: int = NAME_CHARACTERS) -> str:
    """Returns a name on one line, display-safe."""
    return one_line(row.name, limit)


def look_of(row: ModelRow) -> Look:
    """Returns how the state of a model is shown."""
    if row.problem:
        return BROKEN
    if row.kind != "model":
        return ADAPTER if row.kind == "adapter" else ENDPOINT
    return TOO_LARGE if row.fits is False else READY


def state_word(row: ModelRow) -> str:
    """Returns the state in a word or two: of a model that can be used, the format that it runs as."""
    look = look_of(row)
    if look is not READY:
        return look.word
    return f"as {one_line(row.runs_as, 12)}" if row.runs_as else look.word


def speed(value: float | None) -> str:
    """Returns the tokens a second; a dash for None."""
    return DASH if value is None else f"{value:,.0f} t/s"


def model_content(facts: Sequence[Fact], cells: int) -> Content:
    """Returns the facts about a model as a table of so many cells."""
    return facts_table(
        [(fact.name, one_line(fact.value, FACT_CHARACTERS)) for fact in facts], cells
    )


def format_works(works: Sequence[Work]) -> str:
    """Returns the kinds of work that a model is used for, in words; empty if there are none."""
    if not works:
        return ""
    return "for all work" if len(works) == len(WORKS) else f"for {', '.join(works)}"


def works_to_choose(rows: Sequence[ModelRow]) -> list[tuple[tuple[Work, ...], str]]:
    """Returns the kinds of work that a model can be chosen for, each with the model in use."""
    now = {work: [name_of(row, 24) for row in rows if work in row.works] for work in WORKS}
    each: list[tuple[tuple[Work, ...], str]] = [
        ((work,), f"{what} · now {', '.join(now[work]) or 'none'}") for work, what in WORKS.items()
    ]
    return [(tuple(WORKS), "everything this project does"), *each]


def format_use(name: str, works: Sequence[Work]) -> str:
    """Returns the notice after a model was chosen."""
    text = "everything" if len(works) == len(WORKS) else ", ".join(WORKS[work] for work in works)
    return f"{one_line(name, 60)} does {text} of this project; --model still names another."


def summary(rows: Sequence[ModelRow], busy: str) -> Content:
    """Returns the line above the list."""
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
    return "\n".join([row.name, *(f"{fact.name}\t{fact.value}" for fact in facts)])


def model_columns() -> list[Column[ModelRow]]:
    """Returns the name, state, sizes, speed, and where it is from."""

    def state(row: ModelRow) -> Sequence[Piece]:
        """Returns the state with its sign."""
        look = look_of(row)
        return [(f"{look.glyph} {state_word(row)}", look.tone_class)]

    def source(row: ModelRow) -> Sequence[Piece]:
        """Returns the work that it is used for, and its note or origin."""
        detail = (one_line(row.note or row.source, 120), "tone--muted")
        works = format_works(row.works)
        return [(f"{works} · ", "tone--accent"), detail] if works else [detail]

    def memory(row: ModelRow) -> Sequence[Piece]:
        """Returns the memory that the model needs, marked where the machine has less."""
        tone = "tone--borderline" if row.fits is False else ""
        return [(number_format.size(row.memory), tone if row.memory is not None else "tone--muted")]

    return [
        Column("name", "model", 16, lambda row: [(one_line(row.name, 200), "")], flexible=True),
        Column("state", "status", 14, state),
        Column("size", "on disk", 9, lambda row: [(number_format.size(row.size), "")],
               right=True, keep=8),
        Column("memory", "memory", 9, memory, right=True, keep=7),
        Column("speed", "speed", 10, lambda row: [(speed(row.tokens_per_s), "")],
               right=True, keep=6),
        Column("origin", "from", 8, lambda row: [(one_line(row.origin, 20), "tone--muted")], keep=5),
        Column("license", "license", 12,
               lambda row: [(one_line(row.license, 30) or DASH, "tone--muted")], keep=4),
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
        self._facts: tuple[str, Sequence[Fact]] = ("", ())  # of the model with this name
        self._busy = ""  # the work that runs, in words; empty without one
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
            self._facts = ("", ())
            self.table.show_items(rows)
            self._update_summary()
            self._show_here()

        self.in_background(self.models.rows, show, group="models", failed=self._show_problem)

    def _show_problem(self, error: WorkbenchError) -> None:
        """Shows an error in the line above the list."""
        text = Content.styled(one_line(f"{error.message} {error.hint}"), "$tone-incomplete")
        self.query_one("#summary", Static).update(text)

    def _update_summary(self) -> None:
        """Shows the line above the list."""
        self.query_one("#summary", Static).update(summary(self.rows, self._busy))

    @property
    def here(self) -> ModelRow | None:
        """What is under the cursor."""
        return self.table.here

    def on_resize(self) -> None:
        """Wraps the facts in the width there is."""
        self.call_after_refresh(self._show_here)

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows what is under the cursor."""
        self.query_one("#about", VerticalScroll).scroll_home(animate=False)
        self._show_here()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter moves to the facts, to scroll them."""
        self.query_one("#about", VerticalScroll).focus()

    def _show_here(self) -> None:
        """Shows the facts about the item under the cursor; reads those of a model first."""
        item = self.here
        known_name, known_facts = self._facts
        facts_pane = self.query_one("#facts", Static)
        if item is None:
            facts_pane.update("")
        elif known_name == item.name:
            facts_pane.update(model_content(known_facts, facts_pane.size.width))
        else:
            name = item.name

            def show(facts: list[Fact]) -> None:
                self._facts = (name, facts)
                if self.here is not None and self.here.name == name:
                    self._show_here()

            self.in_background(
                lambda: self.models.facts(name), show, group="facts", failed=self._show_problem
            )

    # Actions

    def _act(self, busy: str, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Runs slow work, shows that it runs, and reads the models again."""
        self._busy = busy
        self._update_summary()

        def rest() -> None:
            self._busy = ""
            self._update_summary()

        def on_end(result: T) -> None:
            rest()
            done(result)
            self.refresh_data()

        def on_failure(error: WorkbenchError) -> None:
            rest()
            self.show_error(error)
            self.refresh_data()

        self.in_background(work, on_end, group="act", failed=on_failure)

    def _idle(self) -> bool:
        """Returns whether no other work runs; shows which if one does."""
        if self._busy:
            self.notify(f"Still {self._busy}", markup=False)
        return not self._busy

    def action_add(self) -> None:
        """Asks for a file or folder, and adds it."""
        if not self._idle():
            return

        def added(names: list[str]) -> None:
            text = ", ".join(one_line(name, 60) for name in names)
            self.notify(f"{text} added.", markup=False)

        def on_choice(path: str) -> None:
            if path.strip():
                self._act("loading it once …", lambda: self.models.add(path.strip()), added)

        placeholder = "a .gguf file, a folder of them, or a training run"
        ask(self, TextDialog("Add models", placeholder=placeholder), on_choice)

    def _idle_here(self) -> ModelRow | None:
        """Returns what is under the cursor, or None if nothing can be done with it now."""
        return self.here if self._idle() else None

    def action_tune(self) -> None:
        """Tunes the model under the cursor; that is a job, which the bottom line shows."""
        row = self._idle_here()
        if row is None or not self.may_write():
            return
        if row.kind != "model":
            self.notify("Only models that are here can be tuned.", markup=False)
            return
        self._start(lambda: self.models.tune(row.name))

    def action_use(self) -> None:
        """Asks what the project is to use the model under the cursor for."""
        row = self._idle_here()
        if row is None or not self.may_write():
            return
        if row.kind == "adapter":
            self.notify("Training (7) chooses the adapter; u is for models.", markup=False)
            return
        name = row.name

        def on_choice(works: tuple[Work, ...]) -> None:
            self._act(
                f"choosing {name_of(row)} …",
                lambda: self.models.use(name, works),
                lambda _: self.notify(format_use(name, works), markup=False),
            )

        title = f"Use {name_of(row)} for"
        ask(self, ChoiceDialog(title, works_to_choose(self.rows)), on_choice)

    def action_try(self) -> None:
        """Asks for a prompt, and shows what the model under the cursor replies to it."""
        row = self._idle_here()
        if row is None:
            return
        if row.kind == "adapter":
            self.notify("Training (7) chooses the adapter; r is for models.", markup=False)
            return
        from engine.opener.model_previews import REPLY_FORMS, PromptTrial  # they bring numpy

        def on_choice(prompt: str) -> None:
            self.app.push_screen(PromptTrialDialog(PromptTrial(self.services, prompt), row.name))

        ask(self, ChoiceDialog("Try the prompt", [(name, name) for name in REPLY_FORMS]), on_choice)

    def action_remove(self) -> None:
        """Removes what is under the cursor, once that is confirmed."""
        row = self._idle_here()
        if row is None:
            return
        name = row.name

        def sure(text: str) -> None:
            """Asks before it removes; `text` says what is removed."""
            confirm(self, "Remove?", remove, yes=one_line(text, 300))

        def remove() -> None:
            self._act(
                "removing …",
                lambda: self.models.remove(name),
                lambda _: self.notify("It is gone.", markup=False),
            )

        self.in_background(lambda: self.models.removal(name), sure, group="removal")

    def action_copy(self) -> None:
        """Copies what is known of the model under the cursor."""
        row = self.here
        if row is not None:
            self.in_background(
                lambda: self.models.facts(row.name),
                lambda facts: copy(self, as_text(row, facts), name_of(row)),
                group="copy",
            )
