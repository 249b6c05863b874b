"""One response tree: walked through, proved with, compared, grown on."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from screens.trees.walk import TreeWalk
from textual.binding import Binding, BindingType
from textual.widgets import Static

from engine.errors import WorkbenchError
from engine.services.services import Services
from engine.services.trees.records import Comparison, ConfigRow, PropertyBounds, TreeRequest
from engine.text import one_line
from screens.shell.dialogs import ChoiceDialog, TextDialog
from screens.trees.comparison_dialog import BesideDialog
from screens.trees.formatting import between_content, config_words, tabs_content
from screens.trees.growth_line import GrowthLine
from screens.trees.pane import TreePane
from screens.trees.run_form import alpha_from
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.find_line import FindLine

LOWER = 4.0
"""By how much alpha is lowered where one grows on, unless another one is typed."""

ANOTHER = ""
"""Chosen in place of a configuration: grow a tree of one that has none here."""


class TreeScreen(TreeWalk):
    """Walks through the tree at one step of a conversation."""

    CSS_PATH = "trees.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "answers", "List", tooltip="The complete answers with their probabilities"),
        Binding("g", "grow_here", "Grow", tooltip="Grow on below this, to a lower alpha"),
        Binding("G", "grow_on", "Grow on", show=False, tooltip="Grow on what was left unread"),
        Binding("t", "tokens", "Tokens", tooltip="Ids, bytes and log-probabilities of this path"),
        Binding("p", "predicate", "Prove", tooltip="Bounds on the probability of a property"),
        Binding("c", "compare", "Compare", tooltip="Beside another model, adapter or alpha"),
        Binding("tab", "other_tree", "Other tree", show=False, tooltip="To the same text in the tree beside"),
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
        self, services: Services, feed: EngineFeed, conversation_id: int, step: int, mode: str
    ) -> None:
        super().__init__(services, feed, conversation_id, step, mode)
        self._alphas: dict[tuple[str, int, int], float] = {}
        """Alphas that were grown to, by configuration, step and node."""
        self._beside_wanted: frozenset[str] | None = None
        """The configurations that were here before a tree was grown to be compared with."""

    def tree_arrived(self, pane: TreePane) -> None:
        """What was proved and compared is so again."""
        if pane.bounds is not None:
            self._prove(pane, pane.bounds.text)
        self._compare()

    # Proving

    def action_predicate(self) -> None:
        """Asks for a property and shows the bounds of its probability, in every tree that is open."""
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
        key, place = pane.config_hash, self._place
        if key is None:
            return

        def proved(bounds: PropertyBounds) -> None:
            pane.prove(bounds)

        self.in_background(
            lambda: self.services.trees.bounds(*place, key, text), proved, group=f"prove {pane.id}"
        )

    # Comparing

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
                self._show_beside(key)

        def ask(found: list[ConfigRow]) -> None:
            others = [config for config in found if config.config_hash != first]
            if not others:
                self._grow_another()
                return
            choices = [(c.config_hash, config_words(c)) for c in others]
            choices.append((ANOTHER, "grow another: with another model, adapter or alpha …"))
            self.app.push_screen(ChoiceDialog("Compare with", choices), chosen)

        self.in_background(lambda: self.services.trees.configs(place), ask, group="configurations")

    @property
    def _second(self) -> TreePane | None:
        found = self.query("#second").results(TreePane)
        return next(iter(found), None)

    def _show_beside(self, key: str) -> None:
        if self._second is None:
            second = TreePane(key, id="second")
            self.add_class("-compared")
            self.query_one("#panes").mount(second)
            self.call_after_refresh(self.read, second)

    def _alone(self) -> None:
        second = self._second
        if second is not None:
            self.remove_class("-compared", "-second")
            second.remove()
            first = self.query_one("#first", TreePane)
            first.view.compare(None)
            first.view.focus()

    def tree_missing(self, pane: TreePane, error: WorkbenchError) -> None:
        """Where the second tree ends, the first stands alone."""
        if pane is self._second:
            self._alone()
            self.notify(f"The other has no tree at step {self._place[1]}.", markup=False)
        else:
            self.show_error(error)

    def _compare(self) -> None:
        first, second = self.query_one("#first", TreePane), self._second
        if second is None or first.opened is None or second.opened is None:
            return
        items = first.opened.item, second.opened.item
        if items[0].id != items[1].id:
            return  # one of them is still at the step before
        rows = items[0].row, items[1].row

        def compared(found: Comparison) -> None:
            now = [pane.opened and pane.opened.item for pane in (first, second)]
            if self._second is second and now == list(items):
                first.view.compare(found.first)
                second.view.compare(found.second)
                self.query_one("#between", Static).update(between_content(found))
                self._tell_tabs()

        self.in_background(
            lambda: self.services.trees.compare(
                rows[0].conversation_id, rows[0].step, rows[0].config_hash, rows[1].config_hash
            ),
            compared,
            group="compare",
        )

    def _tell_tabs(self) -> None:
        rows = [pane.opened.item.row for pane in self.query(TreePane) if pane.opened is not None]
        front = int(self.has_class("-second"))
        self.query_one("#tabs", Static).update(tabs_content(rows, front))

    def action_other_tree(self) -> None:
        """Goes to the same text in the tree beside; with one tree, to the next pane."""
        here, second = self.pane, self._second
        if second is None:
            self.app.action_focus_next()
            return
        there = self.query_one("#first", TreePane) if here is second else second
        twin = here.view.twin
        self.set_class(there is second, "-second")
        self._tell_tabs()
        there.view.focus()
        if twin is not None:
            there.view.go_to_node(twin)

    # Growing

    def action_grow_here(self) -> None:
        """Asks for a lower alpha and grows on below the segment under the cursor."""
        pane = self.pane
        opened, segment = pane.opened, pane.view.segment
        if opened is None or segment is None or not self._may_grow():
            return
        row, node = opened.item.row, segment.nodes[0]
        key = (row.config_hash, row.step, node)
        now = self._alphas.get(key, row.alpha)

        def chosen(text: str | None) -> None:
            if text is None:
                return
            alpha = alpha_from(text, row.alpha)
            if alpha is None:
                self.notify(f"Alpha is above 0 and at most {row.alpha:g}.", markup=False)
                return
            self._alphas[key] = alpha
            self._grow(lambda: self.services.trees.grow_on(opened.item, node, alpha))

        title = f"Grow on below “{one_line(segment.text, 30)}” to alpha"
        self.app.push_screen(TextDialog(title, value=f"{now / LOWER:.4g}"), chosen)

    def action_grow_on(self) -> None:
        """Grows on what an earlier budget or stop left unread."""
        opened = self.pane.opened
        if opened is None or not self._may_grow():
            return
        if not opened.item.row.unexpanded:
            self.notify("Everything above alpha has been read; g lowers alpha here.", markup=False)
            return
        self._grow(lambda: self.services.trees.grow_on(opened.item, None, None))

    def _grow_another(self) -> None:
        """Asks with what to grow the tree that stands beside this one, and says first what it costs."""
        opened = self.pane.opened
        if opened is None or not self._may_grow():
            return
        trees, place, item = self.services.trees, self._place, opened.item

        def chosen(wish: TreeRequest | None) -> None:
            if wish is None:
                return

            def start() -> int:
                self._beside_wanted = frozenset(c.config_hash for c in trees.configs(place))
                return trees.grow_beside(item, wish)

            self._grow(start, "trees", "nothing is kept of a tree that is not whole")

        self.app.push_screen(BesideDialog(trees, item), chosen)

    def _may_grow(self) -> bool:
        growing = self.query_one(GrowthLine).is_growing
        if growing:
            self.notify("A tree is growing; escape stops it.", markup=False)
        return not growing and self.may_write()

    def _grow(
        self, start: Callable[[], int], last: str = "grow", kept: str = "what has grown is kept"
    ) -> None:
        line = self.query_one(GrowthLine)
        self.in_background(start, lambda job: line.follow(job, last, kept), group="grow")

    def on_growth_line_ended(self) -> None:
        """Shows what has grown; what was grown to be compared with stands beside this tree now."""
        self.refresh_data()
        known, self._beside_wanted = self._beside_wanted, None
        if known is None:
            return

        def arrived(found: list[ConfigRow]) -> None:
            for config in found:
                if config.config_hash not in known:
                    self._show_beside(config.config_hash)

        place = self._place
        self.in_background(
            lambda: self.services.trees.configs(place), arrived, group="configurations"
        )

    # Leaving

    def action_leave(self) -> None:
        """Stops what grows; else gives up finding; else takes the second tree away; else goes back."""
        line, growth = self.query_one(FindLine), self.query_one(GrowthLine)
        if growth.is_growing:
            growth.stop()
        elif line.is_open:
            line.close()
        elif self._second is not None:
            self._alone()
        else:
            self.action_close()

    def action_close(self) -> None:
        """Goes back; what grows goes on growing."""
        self.dismiss(None)
