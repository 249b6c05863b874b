"""The models screen: lists models with the memory they need; pulls, checks, tunes, chooses and removes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.model.records import Fact, ModelRow, PullRow, Work
from engine.opener.open_project import OpenProject
from screens.models import formatting as words
from screens.models.formatting import Item, model_columns
from screens.models.hub_dialog import HubDialog, HubRequest
from screens.shell.dialogs import ChoiceDialog, TextDialog, ask, confirm
from screens.shell.exporting import copy
from screens.shell.reading_dialogs import PromptTrialDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import ItemTable, RowTable

T = TypeVar("T")
"""What an act returns."""

POLL_SECONDS = 0.5
"""Seconds between updates of the pulls while one is active."""


class ModelsScreen(WorkbenchScreen[None]):
    """Lists models, adapters and pulls; below the list shows the facts about the one under the cursor."""

    PLACE = "models"
    MODE = "models"
    FIRST_KEYS = ("models.use", "models.search", "models.add")
    AUTO_FOCUS = "#models"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "search", "Search", tooltip="Find a model on the hub and pull it"),
        Binding("p", "pause", "Pause/go on", tooltip="Pause a pull, or go on where it stopped"),
        Binding("a", "add", "Add", tooltip="Add a GGUF file, or those of a folder"),
        Binding("v", "verify", "Verify", tooltip="Compute the checksums again and read the header"),
        Binding("u", "use", "Use", tooltip="Choose what this project uses the model for"),
        Binding("t", "tune", "Tune", tooltip="Find the fastest format of its weights that stays accurate"),
        Binding("r", "try", "Try", tooltip="Show its replies to a prompt on 3 conversations, groups or pairs"),
        Binding("D", "remove", "Remove", tooltip="Delete what was pulled, forget what was added; asks first"),
        Binding("y", "copy", "Copy", tooltip="Copy what is known of the model", show=False),
        Binding("q", "app.quit", "Quit", tooltip="Quit; pulls pause, and p goes on with them", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.models = services.models
        self.rows: Sequence[ModelRow] = ()
        self.pulls: Sequence[PullRow] = ()
        self._facts: tuple[str, Sequence[Fact]] = ("", ())  # of the model with this name
        self._busy = ""  # the work that runs, in words; empty without one
        self._pulled: str | None = None  # the pull to go to once it is listed
        self.table = ItemTable(model_columns(), lambda item: (type(item), item.name), id="models")

    def compose_body(self) -> ComposeResult:
        """Yields the summary, list, and the facts about the item under the cursor."""
        yield Static(id="summary")
        yield self.table
        with VerticalScroll(id="about"):
            yield Static(id="facts")

    def on_mount(self) -> None:
        """Reads the models, and starts to follow the pulls."""
        super().on_mount()
        self.set_interval(POLL_SECONDS, self.poll)

    # Reading

    def poll(self) -> None:
        """Updates the pulls while one is active."""
        if any(pull.state in words.WORKING for pull in self.pulls):
            self.in_background(
                self.models.pulls, self._show_pulls, group="pulls", failed=self._show_problem
            )

    def refresh_data(self) -> None:
        """Reads everything again."""

        def read() -> tuple[list[ModelRow], list[PullRow]]:
            return self.models.rows(), self.models.pulls()

        def on_result(rows_and_pulls: tuple[list[ModelRow], list[PullRow]]) -> None:
            """Shows what was read; the facts are read again when they are shown."""
            self.rows, pulls = rows_and_pulls
            self._facts = ("", ())
            self._show_pulls(pulls)

        self.in_background(read, on_result, group="models", failed=self._show_problem)

    def _show_problem(self, error: WorkbenchError) -> None:
        """Shows an error in the line above the list."""
        text = Content.styled(one_line(f"{error.message} {error.hint}"), "$tone-incomplete")
        self.query_one("#summary", Static).update(text)

    def _show_pulls(self, pulls: list[PullRow]) -> None:
        """Shows the pulls, and notifies of those that ended since the last update."""
        before = {pull.name: pull.state for pull in self.pulls}
        self.pulls = pulls
        self.feed.publish_pulls([pull for pull in pulls if pull.state in words.WORKING])
        for pull in pulls:
            if before.get(pull.name) in words.WORKING and pull.state not in words.WORKING:
                self._notify_end(pull)
        self._list()

    def _notify_end(self, pull: PullRow) -> None:
        """Notifies of the end of a pull that was active."""
        name = words.name_of(pull)
        if pull.state == "failed":
            text = one_line(f"{pull.problem} {pull.hint}", 400)
            self.notify(text, title=f"{name} was not pulled", severity="error", markup=False)
        elif pull.state == "done":
            text = "Checksum and header are right; t finds its fastest format for this machine."
            self.notify(text, title=f"{name} is here", markup=False)
            self.refresh_data()

    def _list(self) -> None:
        """Puts models, adapters and unfinished pulls into the table."""
        items: list[Item] = [*(p for p in self.pulls if p.state != "done"), *self.rows]
        self.table.show_items(items)
        if self._pulled is not None and self.table.move_to_key((PullRow, self._pulled)):
            self._pulled = None
        self._update_summary()
        self._show_here()

    def _update_summary(self) -> None:
        """Shows the line above the list."""
        self.query_one("#summary", Static).update(words.summary(self.rows, self.pulls, self._busy))

    @property
    def here(self) -> Item | None:
        """What is under the cursor."""
        return self.table.here

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
        if isinstance(item, PullRow):
            facts_pane.update(words.pull_content(item))
        elif item is None:
            facts_pane.update("")
        elif known_name == item.name:
            facts_pane.update(words.model_content(known_facts))
        else:
            name = item.name

            def show(facts: list[Fact]) -> None:
                self._facts = (name, facts)
                if self.here is not None and self.here.name == name:
                    facts_pane.update(words.model_content(facts))

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

    def action_search(self) -> None:
        """Opens the search dialog, and pulls the file that is chosen."""
        if not self._idle():
            return
        self.in_background(self.models.hub, self._open_hub, group="hub")

    def _open_hub(self, host: str) -> None:
        """Opens the search dialog on a hub."""
        ask(self, HubDialog(self.models, host), self._begin)

    def _begin(self, request: HubRequest) -> None:
        """Begins to pull a file; the pull goes on by itself."""

        def on_start(name: str) -> None:
            self._pulled = name
            self.notify("It goes on in the background; p pauses it.", markup=False)

        self._act(
            f"asking for {one_line(request.file, 60)} …",
            lambda: self.models.pull(request.repository, request.file),
            on_start,
        )

    def action_pause(self) -> None:
        """Pauses the pull under the cursor, or goes on with it."""
        item = self.here
        if not isinstance(item, PullRow):
            self.notify("p is for pulls; this one is here already.", markup=False)
        elif item.state in words.WORKING:
            self._pause(item.name)
        elif self._idle():
            self._act("going on …", lambda: self.models.resume(item.name), lambda _: None)

    def _pause(self, name: str) -> None:
        """Pauses without a background call, which would replace the one that runs."""
        try:
            self.models.pause(name)
        except WorkbenchError as error:
            self.show_error(error)
        else:
            self.notify("It pauses after the piece that is arriving.", markup=False)
        self.poll()

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

    def _model_here(self, what: str) -> ModelRow | None:
        """Returns the model or adapter under the cursor, or None if nothing can be done with it now."""
        item = self.here
        if isinstance(item, PullRow):
            self.notify(f"It is not here yet; it can be {what} once it has arrived.", markup=False)
            return None
        return item if self._idle() else None

    def action_verify(self) -> None:
        """Computes the checksums of what is under the cursor anew."""
        row = self._model_here("verified")
        if row is not None:
            self._act(
                f"reading all of {words.name_of(row)} …",
                lambda: self.models.verify(row.name),
                lambda result: self.notify(one_line(result, 300), markup=False),
            )

    def action_tune(self) -> None:
        """Tunes the model under the cursor; that is a job, which the bottom line shows."""
        row = self._model_here("tuned")
        if row is None or not self.may_write():
            return
        if row.kind != "model":
            self.notify("Only models that are here can be tuned.", markup=False)
            return
        self._start(lambda: self.models.tune(row.name))

    def action_use(self) -> None:
        """Asks what the project is to use the model under the cursor for."""
        row = self._model_here("used")
        if row is None or not self.may_write():
            return
        if row.kind == "adapter":
            self.notify("Training (7) chooses the adapter; u is for models.", markup=False)
            return
        name = row.name

        def on_choice(works: tuple[Work, ...]) -> None:
            self._act(
                f"choosing {words.name_of(row)} …",
                lambda: self.models.use(name, works),
                lambda _: self.notify(words.format_use(name, works), markup=False),
            )

        title = f"Use {words.name_of(row)} for"
        ask(self, ChoiceDialog(title, words.works_to_choose(self.rows)), on_choice)

    def action_try(self) -> None:
        """Asks for a prompt, and shows what the model under the cursor replies to it."""
        row = self._model_here("tried")
        if row is None:
            return
        if row.kind == "adapter":
            self.notify("Training (7) chooses the adapter; r is for models.", markup=False)
            return
        from engine.opener.prompt_trials import REPLY_FORMS, PromptTrial  # they bring numpy

        def on_choice(prompt: str) -> None:
            self.app.push_screen(PromptTrialDialog(PromptTrial(self.services, prompt), row.name))

        ask(self, ChoiceDialog("Try the prompt", [(name, name) for name in REPLY_FORMS]), on_choice)

    def action_remove(self) -> None:
        """Removes what is under the cursor, once that is confirmed."""
        item = self.here
        if item is None or not self._idle():
            return
        name = item.name
        if isinstance(item, ModelRow):
            self.in_background(
                lambda: self.models.removal(name),
                lambda text: self._if_sure(text, lambda: self.models.remove(name)),
                group="removal",
            )
        elif item.state in words.WORKING:
            self.notify("It is being pulled; p pauses it first.", markup=False)
        else:
            text = "give the pull up and delete what has arrived"
            self._if_sure(text, lambda: self.models.give_up(name))

    def _if_sure(self, text: str, act: Callable[[], None]) -> None:
        """Asks before it removes; `text` says what is removed."""

        def remove() -> None:
            self._act("removing …", act, lambda _: self.notify("It is gone.", markup=False))

        confirm(self, "Remove?", remove, yes=one_line(text, 300))

    def action_copy(self) -> None:
        """Copies what is known of the model under the cursor."""
        row = self.here
        if isinstance(row, ModelRow):
            self.in_background(
                lambda: self.models.facts(row.name),
                lambda facts: copy(self, words.as_text(row, facts), words.name_of(row)),
                group="copy",
            )
