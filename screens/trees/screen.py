"""The screen of one response tree: shows it, searches it, compares it with another tree, grows it further."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from engine.trees.compare import TreeComparison
from engine.trees.records import OpenTree, PropertyBounds, TreeConfig, TreeRow
from screens.shell.dialogs import ChoiceDialog, TextDialog
from screens.shell.exporting import ask_file, copy
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.trees.columns import between_content, format_config, tabs_content
from screens.trees.dialogs import AnswersDialog, TokensDialog
from screens.trees.growing import GrowthLine, TreeGrower
from screens.trees.layout import Folding
from screens.trees.pane import TreePane, TurnLine
from screens.trees.tree_view import TreeView
from screens.widgets.finding import FindLine
from screens.widgets.jobs import EngineFeed

ANOTHER = ""
"""The choice of a configuration that has no tree here yet, so that one is grown."""


class TreeScreen(WorkbenchScreen[None]):
    """Shows the tree at one step of a conversation."""

    AUTO_FOCUS = "TreeView"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "answers", "List", tooltip="The complete answers with their probabilities"),
        Binding("g", "grow_here", "Grow", tooltip="Grow on below this, to a lower alpha"),
        Binding("G", "grow_on", "Grow on", show=False, tooltip="Grow on: read what was left unread"),
        Binding("t", "tokens", "Tokens", tooltip="Ids, bytes and log-probabilities of this path"),
        Binding("p", "predicate", "Prove", tooltip="Bounds on the probability of a property"),
        Binding("c", "compare", "Compare", tooltip="Compare with a tree of another model, adapter or alpha"),
        Binding("tab", "other_tree", "Other tree", show=False, tooltip="Go to the same text in the other tree"),
        Binding("left_square_bracket", "step(-1)", "Previous step", show=False, tooltip="The tree of the step before"),
        Binding("right_square_bracket", "step(1)", "Next step", show=False, tooltip="The tree of the next step"),
        Binding("m", "measure", "Measure", show=False, tooltip="Another measure along the conversation"),
        Binding("slash", "find", "Find", key_display="/", tooltip="Find in the answers"),
        Binding("N", "hit(1)", "Next hit", show=False),
        Binding("y", "copy_path", "Copy", show=False, tooltip="Copy the text of this path"),
        Binding("X", "export", "Export", show=False, tooltip="Write the tree as a JSON line"),
        Binding("escape", "leave", "Back", tooltip="Stop growing, give up finding, or go back"),
        Binding("q", "close", "Close", show=False, tooltip="Go back"),
    ]  # fmt: skip

    def __init__(
        self, services: OpenProject, feed: EngineFeed, conversation_id: int, step: int, mode: str
    ) -> None:
        """Opens the tree at a step, under the configuration that is shown."""
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._place = (conversation_id, step)
        self._hits: Sequence[int] = ()
        self._hit = 0
        self._grower = TreeGrower(self)

    def compose_body(self) -> ComposeResult:
        """Yields the turn line, names and difference of two trees, one or two trees, growth line, find line."""
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
            self._read(pane)

    def _read(self, pane: TreePane) -> None:
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

        def arrived(result: tuple[OpenTree | None, Folding | None, list[TreeRow]]) -> None:
            opened, folding, turns = result
            if pane.id == "first":
                self.query_one(TurnLine).show(turns, place[1])
            if opened is not None and folding is not None:
                pane.show(opened, folding)
                self._title(opened)
                self._tree_arrived(pane)

        self.in_background(
            read,
            arrived,
            group=f"tree {pane.id}",
            failed=lambda error: self._tree_missing(pane, error),
        )

    def _tree_arrived(self, pane: TreePane) -> None:
        """Computes bounds and comparison anew for a tree that arrived."""
        if pane.bounds is not None:
            self._prove(pane, pane.bounds.text)
        self._compare()

    def _tree_missing(self, pane: TreePane, error: WorkbenchError) -> None:
        """Removes the second tree where it has no step like the first; any other error is shown."""
        if pane is self._second:
            self._alone()
            self.notify(f"The other has no tree at step {self._place[1]}.", markup=False)
        else:
            self.show_error(error)

    def _title(self, opened: OpenTree) -> None:
        """Shows the step and the name of the conversation in the title."""
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

    # Dialogs

    def action_answers(self) -> None:
        """Lists the complete answers and goes to the one that is chosen."""
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
        layout, cursor = self.pane.view.layout_shown, self.pane.view.cursor
        if layout is not None and cursor is not None:
            self.app.push_screen(TokensDialog(layout.columns, layout.path_nodes(cursor)))

    def action_copy_path(self) -> None:
        """Copies the text of the path to the cursor."""
        layout, cursor = self.pane.view.layout_shown, self.pane.view.cursor
        if layout is not None and cursor is not None:
            copy(self, layout.path_text(cursor), "the path")

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
        self._show_hit_count()

    def _show_hit_count(self) -> None:
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
            self._show_hit_count()

    def on_find_line_exited(self) -> None:
        """Back to the tree."""
        self.pane.view.focus()

    # Guarantees

    def action_predicate(self) -> None:
        """Asks for a property and shows bounds on its probability, in every tree that is open."""
        bounds = self.pane.bounds

        def chosen(text: str | None) -> None:
            if text is None:
                return
            for pane in self.query(TreePane):
                if text.strip():
                    self._prove(pane, text.strip())
                else:
                    pane.prove(None)

        self.app.push_screen(
            TextDialog(
                "Bounds on the probability that the response …",
                value=bounds.text if bounds is not None else "",
                placeholder="contains two years · equals yes · regex ^\\d+$ · json order.id=7",
            ),
            chosen,
        )

    def _prove(self, pane: TreePane, text: str) -> None:
        """Computes bounds on a property in the tree of a pane, and shows them."""
        key, place = pane.config_hash, self._place
        if key is None:
            return

        def proved(bounds: PropertyBounds) -> None:
            pane.prove(bounds)

        self.in_background(
            lambda: self.services.trees.bounds(*place, key, text), proved, group=f"prove {pane.id}"
        )

    # Comparison

    def action_compare(self) -> None:
        """Shows the tree of another configuration beside this one, or takes it away."""
        if self._second is not None:
            self._alone()
            return
        first, place = self.pane.config_hash, self._place

        def chosen(key: str | None) -> None:
            if key == ANOTHER:
                self._grow_another()
            elif key is not None:
                self._show_second(key)

        def ask(configs: list[TreeConfig]) -> None:
            others = [config for config in configs if config.config_hash != first]
            if not others:
                self._grow_another()
                return
            choices = [(c.config_hash, format_config(c)) for c in others]
            choices.append((ANOTHER, "grow another: with another model, adapter or alpha …"))
            self.app.push_screen(ChoiceDialog("Compare with", choices), chosen)

        self.in_background(lambda: self.services.trees.configs(place), ask, group="configurations")

    @property
    def _second(self) -> TreePane | None:
        """The pane of the second tree; None without one."""
        panes = self.query("#second").results(TreePane)
        return next(iter(panes), None)

    def _show_second(self, key: str) -> None:
        """Shows the tree of a configuration beside the first one."""
        if self._second is None:
            second = TreePane(key, id="second")
            self.add_class("-compared")
            self.query_one("#panes").mount(second)
            self.call_after_refresh(self._read, second)

    def _alone(self) -> None:
        """Takes the second tree away."""
        second = self._second
        if second is not None:
            self.remove_class("-compared", "-second")
            second.remove()
            first = self.query_one("#first", TreePane)
            first.view.compare(None)
            first.view.focus()

    def _compare(self) -> None:
        """Compares the two trees once both have arrived, and shows what they have in common."""
        first, second = self.query_one("#first", TreePane), self._second
        if second is None or first.opened is None or second.opened is None:
            return
        items = first.opened.item, second.opened.item
        if items[0].id != items[1].id:
            return  # one of the trees is still that of the previous step
        rows = items[0].row, items[1].row

        def compared(comparison: TreeComparison) -> None:
            items_now = [pane.opened and pane.opened.item for pane in (first, second)]
            if self._second is second and items_now == list(items):
                first.view.compare(comparison.first)
                second.view.compare(comparison.second)
                self.query_one("#between", Static).update(between_content(comparison))
                self._show_tabs()

        self.in_background(
            lambda: self.services.trees.compare(
                rows[0].conversation_id, rows[0].step, rows[0].config_hash, rows[1].config_hash
            ),
            compared,
            group="compare",
        )

    def _show_tabs(self) -> None:
        """Shows the names of the open trees, for a narrow terminal."""
        rows = [pane.opened.item.row for pane in self.query(TreePane) if pane.opened is not None]
        front = int(self.has_class("-second"))
        self.query_one("#tabs", Static).update(tabs_content(rows, front))

    def action_other_tree(self) -> None:
        """Goes to the same text in the other tree; with one tree, to the next pane."""
        pane, second = self.pane, self._second
        if second is None:
            self.app.action_focus_next()
            return
        other = self.query_one("#first", TreePane) if pane is second else second
        twin = pane.view.twin
        self.set_class(other is second, "-second")
        self._show_tabs()
        other.view.focus()
        if twin is not None:
            other.view.go_to_node(twin)

    # Growth

    def action_grow_here(self) -> None:
        """Asks for a lower alpha and grows on below the segment under the cursor."""
        opened, segment = self.pane.opened, self.pane.view.segment
        if opened is not None and segment is not None:
            self._grower.grow_below(opened, segment)

    def action_grow_on(self) -> None:
        """Grows on the nodes that were not read because a budget was used up or a job was stopped."""
        if self.pane.opened is not None:
            self._grower.grow_unread(self.pane.opened)

    def _grow_another(self) -> None:
        """Asks for a tree of another configuration at this place, to compare with."""
        if self.pane.opened is not None:
            self._grower.grow_another(self._place, self.pane.opened)

    def on_growth_line_ended(self) -> None:
        """Shows the grown tree; a tree that was grown for a comparison is shown beside this one."""
        self.refresh_data()
        self._grower.show_grown(self._place, self._show_second)

    # Leaving

    def action_leave(self) -> None:
        """Stops a growing tree; else ends the search; else hides the second tree; else goes back."""
        line, growth = self.query_one(FindLine), self.query_one(GrowthLine)
        if growth.is_growing:
            growth.stop()
        elif line.is_open:
            line.close()
        elif self._second is not None:
            self._alone()
        else:
            self.action_close()
