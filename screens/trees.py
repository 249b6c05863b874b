"""One response tree: walked through, proved with, compared, grown on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from engine.events import Event, JobEnded, JobProgress, JobStarted
from engine.text import one_line
from screens.base import TitleLine, WorkbenchScreen
from screens.bridge import EngineFeed
from screens.clipboard import copy
from screens.dialogs import ChoiceDialog, TextDialog
from screens.ports import Services
from screens.tree_dialogs import AnswersDialog, TokensDialog
from screens.tree_rows import Bounds, ConfigRow, OpenTree
from screens.tree_run import alpha_from
from screens.widgets.find_line import FindLine
from screens.widgets.tree_layout import Folding
from screens.widgets.tree_pane import TreePane
from screens.widgets.tree_view import TreeView

LOWER = 4.0
"""By how much alpha is lowered where one grows on, unless another one is typed."""


class TreeScreen(WorkbenchScreen[None]):
    """Walks through the tree at one step of a conversation."""

    CSS_PATH = "trees.tcss"
    AUTO_FOCUS = "TreeView"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "answers", "List", tooltip="The complete answers with their probabilities"),
        Binding("g", "grow_here", "Grow", tooltip="Grow on below this, to a lower alpha"),
        Binding("G", "grow_on", "Grow on", show=False, tooltip="Grow on what was left unread"),
        Binding("t", "tokens", "Tokens", tooltip="Ids, bytes and log-probabilities of this path"),
        Binding("p", "predicate", "Prove", tooltip="Bounds of the probability of a property"),
        Binding("c", "compare", "Compare", tooltip="Beside the tree of another configuration"),
        Binding("slash", "find", "Find", key_display="/", tooltip="Find in the answers"),
        Binding("N", "hit(1)", "Next hit", show=False),
        Binding("y", "copy_path", "Copy", show=False, tooltip="Copy the text of this path"),
        Binding("X", "export", "Export", show=False, tooltip="Write the tree as a JSON line"),
        Binding("escape", "leave", "Back", tooltip="Stop growing, give up finding, or go back"),
        Binding("q", "close", "Close", show=False, tooltip="Go back"),
    ]

    def __init__(
        self, services: Services, feed: EngineFeed, conversation_id: int, step: int, mode: str
    ) -> None:
        """Opens the tree at a step, under the configuration that is shown."""
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._place = (conversation_id, step)
        self._job: int | None = None
        self._growing = ""
        self._hits: Sequence[int] = ()
        self._hit = 0
        self._alphas: dict[tuple[str, int], float] = {}
        """Alphas that were grown to, by configuration and node."""

    def compose_body(self) -> ComposeResult:
        """The tree or the trees, what grows, the find line."""
        with Container(id="panes"):
            yield TreePane(None, id="first")
        yield Static(id="growing")
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
        trees, before, shown = self.services.trees, pane.view.folding, pane.opened

        def read() -> tuple[OpenTree, Folding] | None:
            opened = trees.open(*self._place, pane.config_hash)
            if shown is not None and shown.item == opened.item:
                return None
            return opened, TreeView.lay_out(opened.nodes, before)

        def arrived(found: tuple[OpenTree, Folding] | None) -> None:
            if found is not None:
                pane.show(*found)
                self._title(found[0])
                bounds = pane.bounds
                if bounds is not None:
                    self._prove(pane, bounds.text)

        self.in_background(read, arrived, group=f"tree {pane.id}")

    def _title(self, opened: OpenTree) -> None:
        item = opened.item
        self.query_one(TitleLine).say(
            Content.assemble(f"step {item.row.step} of ", (one_line(item.name, 60), "bold"))
        )

    # Walking

    def action_answers(self) -> None:
        """Lists the complete answers; the one that is chosen is gone to."""
        pane = self.pane
        if pane.opened is None:
            return

        def chosen(node: int | None) -> None:
            layout = pane.view.layout_shown
            at = layout.of_node(node) if node is not None and layout is not None else None
            if at is not None:
                pane.view.go_to(at)

        self.app.push_screen(AnswersDialog(self.services.trees, pane.opened.item), chosen)

    def action_tokens(self) -> None:
        """Shows the tokens of the path to the cursor."""
        pane = self.pane
        layout, at = pane.view.layout_shown, pane.view.cursor
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

        def chosen(path: str | None) -> None:
            if path is None or not path.strip():
                return
            place = os.path.expanduser(path.strip())
            self.in_background(
                lambda: self.services.trees.export(opened.item, place),
                lambda _: self.notify(f"Wrote the tree to {one_line(place, 120)}.", markup=False),
                group="export",
            )

        self.app.push_screen(
            TextDialog("Write this tree to", value="tree.jsonl", placeholder="a new file"), chosen
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

    # Proving and comparing

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
                "Bounds of the probability that the response …",
                value=bounds.text if bounds is not None else "",
                placeholder="contains two years · equals yes · regex ^\\d+$ · json order.id=7",
            ),
            chosen,
        )

    def _prove(self, pane: TreePane, text: str) -> None:
        key = pane.config_hash
        if key is None:
            return

        def proved(bounds: Bounds) -> None:
            pane.prove(bounds)

        self.in_background(
            lambda: self.services.trees.bounds(*self._place, key, text),
            proved,
            group=f"prove {pane.id}",
        )

    def action_compare(self) -> None:
        """Shows the tree of another configuration beside this one, or takes it away."""
        if len(self.query(TreePane)) > 1:
            self._alone()
            return
        first = self.pane.config_hash

        def chosen(key: str | None) -> None:
            if key is not None:
                second = TreePane(key, id="second")
                self.add_class("-compared")
                self.query_one("#panes").mount(second)
                self.call_after_refresh(self._read, second)

        def ask(found: list[ConfigRow]) -> None:
            others = [config for config in found if config.config_hash != first]
            if not others:
                self.notify(
                    "No other model, adapter, alpha or place has a tree here; grow one first.",
                    markup=False,
                )
            elif len(others) == 1:
                chosen(others[0].config_hash)
            else:
                choices = [(c.config_hash, _config_words(c)) for c in others]
                self.app.push_screen(ChoiceDialog("Compare with", choices), chosen)

        self.in_background(
            lambda: self.services.trees.configs(self._place), ask, group="configurations"
        )

    def _alone(self) -> None:
        self.remove_class("-compared")
        self.query_one("#second").remove()
        self.query_one("#first", TreePane).view.focus()

    # Growing on

    def action_grow_here(self) -> None:
        """Asks for a lower alpha and grows on below the segment under the cursor."""
        pane = self.pane
        opened, segment = pane.opened, pane.view.segment
        if opened is None or segment is None or not self.may_write() or self._is_growing():
            return
        row, node = opened.item.row, segment.nodes[0]
        key = (row.config_hash, node)
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
        if opened is None or not self.may_write() or self._is_growing():
            return
        if not opened.item.row.unexpanded:
            self.notify("Everything above alpha has been read; g lowers alpha here.", markup=False)
            return
        self._grow(lambda: self.services.trees.grow_on(opened.item, None, None))

    def _is_growing(self) -> bool:
        if self._job is not None:
            self.notify("A tree is growing; escape stops it.", markup=False)
        return self._job is not None

    def _grow(self, start: Callable[[], int]) -> None:
        def started(job: int) -> None:
            # It may have ended before its number came back.
            if job in [active.job_id for active in self.services.jobs.active()]:
                self._job = job
                self._tell_growth("waiting for the model")
            else:
                self.refresh_data()

        self.in_background(start, started, group="grow")

    def _heard(self, event: Event) -> None:
        super()._heard(event)
        if self._job is None or not isinstance(event, JobStarted | JobProgress | JobEnded):
            return
        if event.job_id != self._job:
            return
        if isinstance(event, JobProgress):
            rate = f" · {event.rate:,.0f} nodes/s" if event.rate else ""
            note = f" · {one_line(event.note, 40)}" if event.note else ""
            self._tell_growth(f"{event.done:,} nodes read{rate}{note}")
        elif isinstance(event, JobEnded):
            self._job = None
            self._tell_growth("")
            self.refresh_data()

    def _tell_growth(self, words: str) -> None:
        self.set_class(bool(words), "-growing")
        self.query_one("#growing", Static).update(
            Content.assemble(
                ("▸ growing ", "bold $tone-accent"),
                words,
                ("   esc", "bold $tone-accent"),
                (" stops it; what has grown is kept", "$tone-muted"),
            )
        )

    # Leaving

    def action_leave(self) -> None:
        """Stops what grows; else gives up finding; else takes the second tree away; else goes back."""
        line = self.query_one(FindLine)
        if self._job is not None:
            self.services.jobs.cancel(self._job)
        elif line.is_open:
            line.close()
        elif len(self.query(TreePane)) > 1:
            self._alone()
        else:
            self.action_close()

    def action_close(self) -> None:
        """Goes back; what grows goes on growing."""
        self.dismiss(None)


def _config_words(config: ConfigRow) -> str:
    adapter = f" + {config.adapter}" if config.adapter else ""
    return one_line(f"alpha {config.alpha:g} · {config.mode} · {config.model}{adapter}")
