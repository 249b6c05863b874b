"""The screen of one response tree: shows it, searches it, proves what it says, grows it further."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment as StyledText
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from engine.base import number_format
from engine.base.events import Event, JobEnded, JobProgress
from engine.base.text import one_line
from engine.opener.jobs import JobService
from engine.opener.open_project import OpenProject
from engine.trees.records import OpenTree, PropertyBounds, TreeRow
from engine.trees.tree import Kind
from screens.shell.dialogs import TextDialog
from screens.shell.exporting import ask_file, copy
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.trees.columns import (
    format_bounds,
    format_growth,
    format_leaves,
    leaf_count,
    turn_blocks,
)
from screens.trees.dialogs import AnswersDialog, TokensDialog
from screens.trees.layout import Folding, Segment
from screens.trees.tree_view import KIND_LOOKS, RECORDED, TreeView
from screens.widgets.curve import spread
from screens.widgets.finding import FindLine
from screens.widgets.formatting import TONES
from screens.widgets.jobs import EngineFeed

ALPHA_DIVISOR = 4.0
"""The dialog for growing on proposes the present alpha divided by this."""


class TreePane(Vertical):
    """Shows one stored tree with its figures."""

    DEFAULT_CSS = """
    TreePane { width: 1fr; }
    TreePane Static { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    TreePane TreeView { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened: OpenTree | None = None
        self.bounds: PropertyBounds | None = None
        self.view = TreeView()

    def compose(self) -> ComposeResult:
        """Yields the probability, measures, tree and segment."""
        yield Static(classes="account")
        yield Static(classes="measures")
        yield self.view
        yield Static(classes="under")

    def show(self, opened: OpenTree, folding: Folding) -> None:
        """Shows a tree as `TreeView.lay_out` laid it out."""
        self.opened = opened
        self.query_one(".account", Static).update(account_content(opened.item.row))
        self.view.show(folding)
        self._show_texts()

    def prove(self, bounds: PropertyBounds | None) -> None:
        """Shows the bounds on the probability of a property; None hides them."""
        self.bounds = bounds
        self._show_texts()

    def _show_texts(self) -> None:
        """Shows the figures of the tree, and the bounds on a property."""
        if self.opened is not None:
            self.query_one(".measures", Static).update(
                measures_content(self.opened.item.row, self.opened.nodes.kind, self.bounds)
            )

    def on_tree_view_highlighted(self) -> None:
        """Shows the figures of the segment under the cursor."""
        segment = self.view.segment
        self.query_one(".under", Static).update(
            Content("") if segment is None else segment_content(segment)
        )


def account_content(row: TreeRow) -> Content:
    """Returns the configuration of the tree, and its covered, pruned and unexpanded mass."""
    return Content.assemble(
        ("covered ", "$tone-muted"),
        (number_format.probability(row.covered), "bold $tone-complete"),
        ("  pruned ", "$tone-muted"),
        (number_format.probability(row.pruned), "bold"),
        ("  unexpanded ", "$tone-muted"),
        (
            number_format.probability(row.unexpanded),
            "bold $tone-accent" if row.unexpanded else "bold",
        ),
        (f"   {format_growth(row)}", "$tone-muted"),
        (f" · {one_line(row.note, 60)}" if row.note else "", "$tone-borderline"),
    )


def measures_content(row: TreeRow, kinds: Sequence[Kind], bounds: PropertyBounds | None) -> Content:
    """Returns the figures of the tree on one line, given the kinds of its nodes; bounds on a property come first."""
    proved: list[Content | tuple[str, str] | str] = []
    if bounds is not None:
        proved = [(format_bounds(bounds), "bold $tone-accent"), " · "]
    parts = [
        format_leaves(row.leaves, kinds),
        f"best log P {number_format.log_probability(row.max_log_prob)}",
        number_format.counted(row.answers, "distinct text"),
        f"entropy {number_format.between(row.entropy_low, row.entropy_high)} bits",
    ]
    if row.answer_log_prob is not None:
        parts.append(
            f"{RECORDED[2:]} {number_format.log_probability(row.answer_log_prob)}, {row.answer_held:,} of "
            f"{row.answer_tokens:,} tokens in the tree"
        )
    parts.append(f"{row.nodes:,} nodes")
    return Content.assemble(*proved, " · ".join(parts))


def segment_content(segment: Segment) -> Content:
    """Returns how a segment ends, and its figures with more digits than on its line."""
    parts: list[str] = []
    if segment.forks:
        parts.append(f"fork · {leaf_count(segment.leaves)}")
    else:
        parts.append(KIND_LOOKS[segment.kind][2])
    if segment.entropy is not None:
        parts.append(f"next token {segment.entropy:.1f} bits")
    parts.append(f"P {segment.probability:.4f} (log {_log(segment.probability)})")
    parts.append(f"leaves below {segment.below:.4f}")
    parts.append(number_format.counted(len(segment.nodes), "token"))
    return Content.styled(" · ".join(parts), "$tone-muted")


def _log(probability: float) -> str:
    return number_format.log_probability(math.log(probability)) if probability > 0 else "−∞"


class TurnLine(Widget):
    """Shown where a conversation has trees at more than one step."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    DEFAULT_CSS = """
    TurnLine { display: none; height: 1; padding: 0 1; }
    TurnLine.-several { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[TreeRow] = ()
        self._at = 0

    def show(self, rows: Sequence[TreeRow], step: int) -> None:
        """Shows the trees of a conversation by step, the cursor on one of them."""
        self._rows = [row for row in rows if row.reason is None]
        self._at = next((index for index, row in enumerate(self._rows) if row.step == step), 0)
        self.set_class(len(self._rows) > 1, "-several")
        self.refresh()

    def beside(self, delta: int) -> int | None:
        """Returns the step `delta` trees after the current one; None where there is none."""
        index = self._at + delta
        return self._rows[index].step if 0 <= index < len(self._rows) else None

    def render_line(self, y: int) -> Strip:
        """Returns the blocks, and the figures of the current step."""
        width, base = self.size.width, self.rich_style
        if y or not self._rows:
            return Strip.blank(width, base)
        muted = base + self.get_component_rich_style("tone--muted", partial=True)
        bright = base + self.get_component_rich_style("tone--bright", partial=True)
        cursor = bright + self.get_component_rich_style("tone--cursor", partial=True)
        accent_color = self.get_component_rich_style("tone--accent", partial=True)
        row = self._rows[self._at]
        columns = spread(len(self._rows), max(8, width // 3))
        blocks = turn_blocks(self._rows, columns)
        cells = [
            StyledText(block, cursor if self._at in column else base + accent_color)
            for block, column in zip(blocks, columns, strict=True)
        ]
        words = [
            StyledText(f"  step {row.step}", bright),
            StyledText(f" · {self._at + 1:,} of {len(self._rows):,}", muted),
            StyledText("  [ ]", bright + accent_color),
            StyledText(f"   best {number_format.log_probability(row.max_log_prob)}", base),
            StyledText(f" · {row.leaves:,} leaves", base),
        ]
        return Strip([*cells, *words]).crop_extend(0, width, base)


class TreeScreen(WorkbenchScreen[None]):
    """Shows the tree at one step of a conversation."""

    AUTO_FOCUS = "TreeView"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "answers", "List", tooltip="The complete answers with their probabilities"),
        Binding("g", "grow_here", "Grow", tooltip="Grow on below this, to a lower alpha"),
        Binding("G", "grow_on", "Grow on", show=False, tooltip="Grow on: read what was left unread"),
        Binding("t", "tokens", "Tokens", tooltip="Ids, bytes and log-probabilities of this path"),
        Binding("p", "predicate", "Prove", tooltip="Bounds on the probability of a property"),
        Binding("left_square_bracket", "step(-1)", "Previous step", show=False, tooltip="The tree of the step before"),
        Binding("right_square_bracket", "step(1)", "Next step", show=False, tooltip="The tree of the next step"),
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
        """Yields the turn line, tree, growth line and find line."""
        yield TurnLine()
        yield TreePane()
        yield GrowthLine(self.services.jobs, self.feed)
        yield FindLine()

    @property
    def pane(self) -> TreePane:
        """The pane of the tree."""
        return self.query_one(TreePane)

    # Reading

    def refresh_data(self) -> None:
        """Reads the tree again, unless it is the one that is shown; folds and the cursor stay, because nodes keep
        their ids while a tree grows.
        """
        pane, trees, place = self.pane, self.services.trees, self._place
        before, shown = pane.view.folding, pane.opened

        def read() -> tuple[OpenTree | None, Folding | None, list[TreeRow]]:
            opened = trees.open(*place)
            turns = trees.turns(place[0], opened.item.row.config_hash)
            if shown is not None and shown.item == opened.item:
                return None, None, turns
            same = shown is not None and shown.item.id == opened.item.id
            return opened, TreeView.lay_out(opened.nodes, before if same else None), turns

        def on_result(result: tuple[OpenTree | None, Folding | None, list[TreeRow]]) -> None:
            opened, folding, turns = result
            self.query_one(TurnLine).show(turns, place[1])
            if opened is not None and folding is not None:
                pane.show(opened, folding)
                self._title(opened)
                if pane.bounds is not None:
                    self._prove(pane.bounds.text)

        self.in_background(read, on_result, group="tree")

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

    # Dialogs

    def action_answers(self) -> None:
        """Lists the complete answers and goes to the one that is chosen."""
        pane = self.pane
        if pane.opened is None:
            return

        def on_choice(node: int | None) -> None:
            if node is not None:
                pane.view.go_to_node(node)

        self.app.push_screen(AnswersDialog(self.services.trees, pane.opened.item), on_choice)

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
        """Asks for a property and shows bounds on its probability; an empty text hides them."""
        bounds = self.pane.bounds

        def on_choice(text: str | None) -> None:
            if text is not None and text.strip():
                self._prove(text.strip())
            elif text is not None:
                self.pane.prove(None)

        self.app.push_screen(
            TextDialog(
                "Bounds on the probability that the response …",
                value=bounds.text if bounds is not None else "",
                placeholder="contains two years · equals yes · regex ^\\d+$ · json order.id=7",
            ),
            on_choice,
        )

    def _prove(self, text: str) -> None:
        """Computes bounds on a property, and shows them."""
        opened, place = self.pane.opened, self._place
        if opened is not None:
            key = opened.item.row.config_hash
            self.in_background(
                lambda: self.services.trees.bounds(*place, key, text),
                self.pane.prove,
                group="prove",
            )

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

    # Leaving

    def on_growth_line_ended(self) -> None:
        """Shows the grown tree."""
        self.refresh_data()

    # Leaving

    def action_leave(self) -> None:
        """Stops a growing tree; else ends the search; else goes back."""
        line, growth = self.query_one(FindLine), self.query_one(GrowthLine)
        if growth.is_growing:
            growth.stop()
        elif line.is_open:
            line.close()
        else:
            self.action_close()


class TreeGrower:
    """Starts the jobs that grow the trees of a screen, one at a time; its `GrowthLine` follows them."""

    def __init__(self, screen: WorkbenchScreen[Any]) -> None:
        self._screen = screen
        self._trees = screen.services.trees
        self._alphas: dict[tuple[str, int, int], float] = {}
        """The alphas to which nodes were grown, by configuration, step and node."""

    def grow_below(self, opened: OpenTree, segment: Segment) -> None:
        """Asks for a lower alpha and grows on below a segment."""
        if not self._may_grow():
            return
        row, node = opened.item.row, segment.nodes[0]
        key = (row.config_hash, row.step, node)
        current_alpha = self._alphas.get(key, row.alpha)

        def on_choice(text: str | None) -> None:
            if text is None:
                return
            alpha = parse_alpha(text, row.alpha)
            if alpha is None:
                self._notify(f"Alpha is above 0 and at most {row.alpha:g}.")
                return
            self._alphas[key] = alpha
            self._start(lambda: self._trees.grow_on(opened.item, node, alpha))

        title = f"Grow on below “{one_line(segment.text, 30)}” to alpha"
        self._screen.app.push_screen(
            TextDialog(title, value=f"{current_alpha / ALPHA_DIVISOR:.4g}"), on_choice
        )

    def grow_unread(self, opened: OpenTree) -> None:
        """Grows on the nodes that were not read because a budget was used up or a job was stopped."""
        if not self._may_grow():
            return
        if not opened.item.row.unexpanded:
            self._notify("Everything above alpha has been read; g lowers alpha here.")
            return
        self._start(lambda: self._trees.grow_on(opened.item, None, None))

    def _may_grow(self) -> bool:
        """Returns whether a tree may grow now; says why not."""
        growing = self._screen.query_one(GrowthLine).is_growing
        if growing:
            self._notify("A tree is growing; escape stops it.")
        return not growing and self._screen.may_write()

    def _start(self, start: Callable[[], int]) -> None:
        """Starts a job and shows its progress."""
        self._screen.in_background(start, self._screen.query_one(GrowthLine).follow, group="grow")

    def _notify(self, text: str) -> None:
        """Shows a message whose text is taken literally."""
        self._screen.notify(text, markup=False)


class GrowthLine(Static):
    """Shows the progress of one job and the key that stops it; hidden while there is no job."""

    DEFAULT_CSS = """
    GrowthLine { display: none; height: 1; padding: 0 1; }
    GrowthLine.-growing { display: block; }
    """

    class Ended(Message):
        """The job has ended, or had ended before it could be followed."""

    def __init__(self, jobs: JobService, feed: EngineFeed) -> None:
        super().__init__()
        self._jobs, self._feed = jobs, feed
        self._job: int | None = None

    def on_mount(self) -> None:
        """Listens to the engine."""
        self._feed.signal.subscribe(self, self._handle_event)

    @property
    def is_growing(self) -> bool:
        """Whether a job is followed."""
        return self._job is not None

    def follow(self, job: int) -> None:
        """Follows a job that was started."""
        if job in [active.job_id for active in self._jobs.active()]:
            self._job = job
            self._show_progress("waiting for the model")
        else:  # the job ended before its id was returned
            self.post_message(self.Ended())

    def stop(self) -> None:
        """Asks the job to stop."""
        if self._job is not None:
            self._jobs.cancel(self._job)

    def _handle_event(self, event: Event) -> None:
        """Shows the progress of the job, and hides the line at its end."""
        if self._job is None or getattr(event, "job_id", None) != self._job:
            return
        if isinstance(event, JobProgress):
            parts = [one_line(event.note, 40)] if event.note else []
            if event.unit == "nodes":
                parts.insert(0, f"{number_format.counted(event.done, 'node')} read")
                if event.rate:
                    parts.insert(1, f"{event.rate:,.0f} nodes/s")
            self._show_progress(" · ".join(parts))
        elif isinstance(event, JobEnded):
            self._job = None
            self.remove_class("-growing")
            self.post_message(self.Ended())

    def _show_progress(self, words: str) -> None:
        """Shows these words and the key that stops the job."""
        self.add_class("-growing")
        self.update(
            Content.assemble(
                ("▸ growing ", "bold $tone-accent"),
                words,
                ("   esc", "bold $tone-accent"),
                (" stops it; what has grown is kept", "$tone-muted"),
            )
        )


def parse_alpha(text: str, maximum: float = 1.0) -> float | None:
    """Returns the alpha that a text says; None if the text is not a number above 0 and at most `maximum`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= maximum else None
