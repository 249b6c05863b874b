"""Walking through the tree at one step of a conversation: what is read, listed, found and taken out of it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from engine.errors import WorkbenchError
from engine.records.conversations import TreeRow
from engine.services.services import Services
from engine.services.trees.records import OpenTree
from engine.text import one_line
from screens.shell.clipboard import copy
from screens.shell.save_dialogs import ask_file
from screens.shell.workbench_screen import TitleLine, WorkbenchScreen
from screens.trees.answers_dialog import AnswersDialog
from screens.trees.growth_line import GrowthLine
from screens.trees.layout import Folding
from screens.trees.pane import TreePane
from screens.trees.tokens_dialog import TokensDialog
from screens.trees.tree_view import TreeView
from screens.trees.turn_line import TurnLine
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.find_line import FindLine


class TreeWalk(WorkbenchScreen[None]):
    """The part of the explorer that changes nothing."""

    AUTO_FOCUS = "TreeView"

    def __init__(
        self, services: Services, feed: EngineFeed, conversation_id: int, step: int, mode: str
    ) -> None:
        """Opens the tree at a step, under the configuration that is shown."""
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._place = (conversation_id, step)
        self._hits: Sequence[int] = ()
        self._hit = 0

    def compose_body(self) -> ComposeResult:
        """The turns, which trees there are and how they differ, the tree or the trees, what grows, the find line."""
        yield TurnLine()
        yield Static(id="tabs")
        yield Static(id="between")
        with Container(id="panes"):
            yield TreePane(None, id="first")
        yield GrowthLine(self.services.jobs, self.feed)
        yield FindLine()

    @property
    def pane(self) -> TreePane:
        """The tree that the keys are for: the one with the focus, else the first."""
        panes = self.query(TreePane)
        return next((pane for pane in panes if pane.view.has_focus), panes.first())

    # Reading

    def refresh_data(self) -> None:
        """Reads the trees again; folds and the cursor stay, because nodes keep their ids while a tree grows."""
        for pane in self.query(TreePane):
            self.read(pane)

    def read(self, pane: TreePane) -> None:
        """Reads the tree of a pane, unless it is the one that is shown."""
        trees, place, before, shown = (
            self.services.trees, self._place, pane.view.folding, pane.opened
        )  # fmt: skip

        def read() -> tuple[OpenTree | None, Folding | None, list[TreeRow]]:
            opened = trees.open(*place, pane.config_hash)
            turns = trees.turns(place[0], opened.item.row.config_hash)
            if shown is not None and shown.item == opened.item:
                return None, None, turns
            same = shown is not None and shown.item.id == opened.item.id
            return opened, TreeView.lay_out(opened.nodes, before if same else None), turns

        def arrived(found: tuple[OpenTree | None, Folding | None, list[TreeRow]]) -> None:
            opened, folding, turns = found
            if pane.id == "first":
                self.query_one(TurnLine).show(turns, place[1])
            if opened is not None and folding is not None:
                pane.show(opened, folding)
                self._title(opened)
                self.tree_arrived(pane)

        self.in_background(
            read,
            arrived,
            group=f"tree {pane.id}",
            failed=lambda error: self.tree_missing(pane, error),
        )

    def tree_arrived(self, pane: TreePane) -> None:
        """Called when a pane shows another tree, or one that has grown."""
        raise NotImplementedError

    def tree_missing(self, pane: TreePane, error: WorkbenchError) -> None:
        """Called when a pane's configuration has no tree here."""
        raise NotImplementedError

    def _title(self, opened: OpenTree) -> None:
        item = opened.item
        self.query_one(TitleLine).say(
            Content.assemble(f"step {item.row.step} of ", (one_line(item.name, 60), "bold"))
        )

    # Along the conversation

    def action_step(self, delta: int) -> None:
        """Goes to the tree of another step of the conversation."""
        step = self.query_one(TurnLine).beside(delta)
        if step is None:
            self.notify("There is no tree further that way.", markup=False)
            return
        self._place = (self._place[0], step)
        self._hits = ()
        self.refresh_data()

    def action_measure(self) -> None:
        """Shows another measure along the conversation."""
        self.query_one(TurnLine).measure_next()

    # Lists

    def action_answers(self) -> None:
        """Lists the complete answers; the one that is chosen is gone to."""
        pane = self.pane
        if pane.opened is None:
            return
        others = [other.opened for other in self.query(TreePane) if other is not pane]

        def chosen(node: int | None) -> None:
            if node is not None:
                pane.view.go_to_node(node)

        other = others[0] if others else None
        self.app.push_screen(
            AnswersDialog(
                self.services.trees, pane.opened.item, None if other is None else other.item
            ),
            chosen,
        )

    def action_tokens(self) -> None:
        """Shows the tokens of the path to the cursor."""
        layout, at = self.pane.view.layout_shown, self.pane.view.cursor
        if layout is not None and at is not None:
            self.app.push_screen(TokensDialog(layout.columns, layout.path_nodes(at)))

    def action_copy_path(self) -> None:
        """Copies the text of the path to the cursor."""
        layout, at = self.pane.view.layout_shown, self.pane.view.cursor
        if layout is not None and at is not None:
            copy(self, layout.path_text(at), "the path")

    def action_export(self) -> None:
        """Asks for a file and writes the tree to it."""
        opened = self.pane.opened
        if opened is None:
            return

        trees = self.services.trees
        ask_file(
            self, "Write this tree to", "tree.jsonl", lambda path: trees.export(opened.item, path)
        )

    # Finding

    def action_find(self) -> None:
        """Opens the find line."""
        self.query_one(FindLine).open()

    def on_find_line_changed(self, message: FindLine.Changed) -> None:
        """Looks through the leaves."""
        view, text = self.pane.view, message.text
        layout = view.layout_shown
        if layout is None or not text:
            self._show_hits(view, [])
            return
        self.in_background(
            lambda: layout.leaves_with(text), lambda hits: self._show_hits(view, hits), group="find"
        )

    def _show_hits(self, view: TreeView, hits: list[int]) -> None:
        self._hits, self._hit = hits, 0
        view.mark(frozenset(hits))
        if hits:
            view.go_to(hits[0])
        self._tell_hits()

    def _tell_hits(self) -> None:
        line = self.query_one(FindLine)
        line.say(f"{self._hit + 1:,} of {len(self._hits):,}" if self._hits else "no answer")

    def on_find_line_stepped(self, message: FindLine.Stepped) -> None:
        """Goes to the next or previous leaf that was found."""
        self.action_hit(message.delta)

    def action_hit(self, delta: int) -> None:
        """Goes to another leaf that was found."""
        if self._hits:
            self._hit = (self._hit + delta) % len(self._hits)
            self.pane.view.go_to(self._hits[self._hit])
            self._tell_hits()

    def on_find_line_left(self) -> None:
        """Back to the tree."""
        self.pane.view.focus()
