"""A tree as lines of segments, drawn line by line so that 50,000 nodes scroll like ten."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment as Piece
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.base import number_format
from engine.base.text import display_safe, one_line
from engine.trees.records import STEP_STOP, NodeColumns
from engine.trees.tree import Kind
from screens.trees.layout import Folding, Segment, TreeLayout
from screens.widgets.formatting import TONES
from screens.widgets.keyed import Keyed, movement

KIND_LOOKS: dict[Kind, tuple[str, str, str]] = {
    Kind.ENDED: ("●", "tone--complete", "ended"),
    Kind.CUT: ("✂", "tone--unscored", "cut: no next token reaches alpha"),
    Kind.LONG: ("…", "tone--borderline", "at the longest"),
    Kind.FRONTIER: ("▹", "tone--accent", "not read yet"),
    Kind.INNER: (" ", "", ""),
}
"""Glyph, tone and word for how a segment ends."""

RECORDED = "◀ said"
"""The sign of the recorded answer."""
MAX_RECORDED_CHARACTERS = 20
"""Most characters of the recorded answer that are quoted where it leaves the tree within a segment."""
TEXT_WIDTH = 100
"""Text and indent are not stretched beyond this many columns."""
INDENT = 2
"""Columns by which each level is indented."""
MAX_INDENT_SHARE = 0.4
"""Share of the width up to which segments are indented; deeper ones show their depth as a number."""
FIGURES_WIDTH = number_format.BAR_WIDTH + 1 + 5 + 1 + 5 + 2
"""Columns of the figures of a segment: a bar and two numbers of five, with spaces between and after them."""
MAX_SEGMENT_CHARACTERS = 400
"""Most characters that are shown of the text of a segment."""


class TreeView(Keyed, ScrollView, can_focus=True, inherit_bindings=False):
    """Shows a layout with a cursor on a segment."""

    PLACE = "tree-view"
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    BINDINGS: ClassVar[list[BindingType]] = [
        *movement("Line"),
        Binding("right", "unfold", "Unfold", show=False, tooltip="Unfold, or go to the branches"),
        Binding("left", "fold", "Fold", show=False, tooltip="Fold, or go to what it goes on from"),
        Binding("enter,space", "turn", "Fold", key_display="← →", tooltip="Fold or unfold"),
        Binding("E", "unfold_below", "Unfold everything", show=False),
        Binding("C", "fold_all", "Fold everything", show=False),
        Binding("n", "fork", "Fork", tooltip="Next fork"),
        Binding("b", "best", "Best", tooltip="The most probable answer"),
        Binding("s", "sibling", "Sibling", tooltip="Next branch of the same fork", show=False),
        Binding("a", "said", "Said", tooltip="Where the recorded answer leaves", show=False),
    ]
    DEFAULT_CSS = "TreeView { overflow-x: hidden; overflow-y: auto; }"

    class Highlighted(Message):
        """The cursor moved to another segment."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._folding: Folding | None = None
        self._line = 0
        self._found: frozenset[int] = frozenset()

    # What is shown

    @property
    def layout_shown(self) -> TreeLayout | None:
        """The layout; None before there is a tree."""
        return self._folding.layout if self._folding is not None else None

    @property
    def cursor(self) -> int | None:
        """Number of the segment under the cursor; None in an empty tree."""
        if self._folding is None or not self._folding.lines:
            return None
        return self._folding.lines[self._line]

    @property
    def segment(self) -> Segment | None:
        """The segment under the cursor."""
        number = self.cursor
        layout = self.layout_shown
        return None if number is None or layout is None else layout.segments[number]

    @staticmethod
    def lay_out(columns: NodeColumns, before: Folding | None = None) -> Folding:
        """Returns the layout that `show` takes, unfolded as `before` was or as a new tree is; may be called from any
        thread.
        """
        folding = Folding(TreeLayout(columns))
        return folding.opened_at_first() if before is None else folding.like(before)

    @property
    def folding(self) -> Folding | None:
        """What is unfolded, for `lay_out` of the same tree grown on."""
        return self._folding

    def show(self, folding: Folding) -> None:
        """Shows a tree. Where it is the one before, grown on, the cursor stays on its node, whose new branches are
        unfolded."""
        before = self.segment
        self._folding = folding
        self._found = frozenset()
        self._line = 0
        if before is not None:
            number = folding.layout.of_node(before.nodes[0])
            if number is not None:
                self._line = folding.reveal(number)
                if not before.forks:
                    folding.unfold(number)
        self._changed()

    def mark(self, numbers: frozenset[int]) -> None:
        """Draws these segments as found."""
        self._found = numbers
        self.refresh()

    def go_to_node(self, node: int) -> None:
        """Puts the cursor on the segment that holds a node, if it is there."""
        number = self.layout_shown.of_node(node) if self.layout_shown is not None else None
        if number is not None:
            self.go_to(number)

    def go_to(self, number: int) -> None:
        """Puts the cursor on a segment, which is unfolded into sight."""
        if self._folding is not None:
            self._line = self._folding.reveal(number)
            self._changed()

    def _changed(self) -> None:
        """Draws anew after lines changed, with the cursor in sight."""
        lines = len(self._folding.lines) if self._folding is not None else 0
        self._line = min(self._line, max(0, lines - 1))
        self.virtual_size = Size(self.size.width, lines)
        self._keep_in_sight()
        self.refresh()
        self.post_message(self.Highlighted())

    def _keep_in_sight(self) -> None:
        """Scrolls until the cursor is in sight."""
        top, height = round(self.scroll_offset.y), max(1, self.size.height)
        if self._line < top:
            self.scroll_to(y=self._line, animate=False)
        elif self._line >= top + height:
            self.scroll_to(y=self._line - height + 1, animate=False)

    def on_resize(self) -> None:
        """Keeps the cursor in sight."""
        lines = len(self._folding.lines) if self._folding is not None else 0
        self.virtual_size = Size(self.size.width, lines)
        self._keep_in_sight()

    # Keys

    def _go(self, line: int) -> None:
        """Puts the cursor on a line, or on the nearest one there is."""
        if self._folding is None or not self._folding.lines:
            return
        line = min(max(line, 0), len(self._folding.lines) - 1)
        if line != self._line:
            for changed in (self._line, line):  # scrolling refreshes the other lines
                self.refresh_line(changed)
            self._line = line
            self._keep_in_sight()
            self.post_message(self.Highlighted())

    def action_move(self, delta: int) -> None:
        """Moves the cursor by lines."""
        self._go(self._line + delta)

    def action_page(self, direction: int) -> None:
        """Moves the cursor by a screenful."""
        self._go(self._line + direction * max(1, self.size.height - 1))

    def action_move_to(self, line: int) -> None:
        """Moves the cursor to a line, counted from the end when negative."""
        if self._folding is not None:
            self._go(line if line >= 0 else len(self._folding.lines) + line)

    def action_unfold(self) -> None:
        """Unfolds the segment; when it is unfolded, goes to its first branch."""
        number, folding = self.cursor, self._folding
        if number is None or folding is None or not folding.layout.segments[number].forks:
            return
        if folding.is_open(number):
            self._go(self._line + 1)
        else:
            folding.unfold(number)
            self._changed()

    def action_fold(self) -> None:
        """Folds the segment; when it is folded, goes to the one it goes on from."""
        number, folding = self.cursor, self._folding
        if number is None or folding is None:
            return
        if folding.is_open(number):
            folding.fold(number)
            self._changed()
        elif folding.layout.segments[number].parent >= 0:
            self.go_to(folding.layout.segments[number].parent)

    def action_turn(self) -> None:
        """Folds or unfolds."""
        number, folding = self.cursor, self._folding
        if number is not None and folding is not None:
            (folding.fold if folding.is_open(number) else folding.unfold)(number)
            self._changed()

    def action_unfold_below(self) -> None:
        """Unfolds everything below the cursor."""
        number, folding = self.cursor, self._folding
        if number is not None and folding is not None:
            folding.unfold_all(number)
            self._line = folding.line_of(number) or 0
            self._changed()

    def action_fold_all(self) -> None:
        """Folds everything; the cursor goes to the branch of the root it was below."""
        number, folding = self.cursor, self._folding
        if number is not None and folding is not None:
            folding.fold_all()
            self._line = folding.line_of(folding.layout.path(number)[0]) or 0
            self._changed()

    def action_fork(self) -> None:
        """Goes to the next fork, also to one that is folded away."""
        number = self.cursor
        if number is not None and self.layout_shown is not None:
            fork = self.layout_shown.next_fork(number)
            if fork is None:
                self.notify("There is no fork after this one.", markup=False)
            else:
                self.go_to(fork)

    def action_best(self) -> None:
        """Goes to the most probable leaf."""
        leaf = self.layout_shown.best_leaf() if self.layout_shown is not None else None
        if leaf is not None:
            self.go_to(leaf)

    def action_sibling(self) -> None:
        """Goes to the next branch of the same fork."""
        number = self.cursor
        if number is not None and self.layout_shown is not None:
            self.go_to(self.layout_shown.sibling(number))

    def action_said(self) -> None:
        """Goes to where the recorded answer leaves the tree, or ends."""
        segment = self.layout_shown.recorded_end() if self.layout_shown is not None else None
        if segment is None:
            self.notify("Nothing of the recorded answer is in the tree.", markup=False)
        else:
            self.go_to(segment)

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a second one on the same line folds or unfolds."""
        line = event.y + round(self.scroll_offset.y)
        if self._folding is None or line >= len(self._folding.lines):
            return
        if line == self._line:
            self.action_turn()
        self._go(line)

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Returns one segment, or nothing below the last one."""
        width, base = self.size.width, self.rich_style
        line = y + round(self.scroll_offset.y)
        if self._folding is None or line >= len(self._folding.lines):
            return Strip.blank(width, base)
        is_cursor = line == self._line
        if is_cursor:
            name = "tone--cursor" if self.has_focus else "tone--cursor-blurred"
            base = base + self.get_component_rich_style(name)
        number = self._folding.lines[line]
        segment = self._folding.layout.segments[number]
        room = min(width, TEXT_WIDTH + FIGURES_WIDTH) - FIGURES_WIDTH - 1
        left = self._left(number, segment, room, base, is_cursor)
        bar, share = (
            number_format.bar(segment.probability),
            number_format.small_probability(segment.probability),
        )
        tone = self._tone("tone--accent" if segment.recorded else "", is_cursor)
        below = number_format.small_probability(segment.below)
        right = [
            Piece(" ", base),
            Piece(bar, base + (tone or self._tone("tone--complete", is_cursor))),
            Piece(f" {share:>4} ", base),
            Piece(f"{below:>4} ", base + self._tone("tone--muted", is_cursor)),
        ]
        strip = Strip([*Strip(left).adjust_cell_length(room, base), *right])
        return strip.crop_extend(0, width, base)

    def _left(
        self, number: int, segment: Segment, room: int, base: Style, is_cursor: bool
    ) -> list[Piece]:
        """Returns the indent, sign, text and the notes after it, in at most `room` cells."""
        assert self._folding is not None
        muted = base + self._tone("tone--muted", is_cursor)
        indent, max_indent = segment.depth * INDENT, int(room * MAX_INDENT_SHARE)
        if indent <= max_indent:
            head = [Piece(" " * (indent + 1), base)]
        else:
            head = [Piece(f" {segment.depth:<{max_indent - 1}} "[: max_indent + 1], muted)]
        if segment.forks:
            head.append(Piece("▾ " if self._folding.is_open(number) else "▸ ", muted))
        else:
            glyph, tone, _ = KIND_LOOKS[segment.kind]
            head.append(Piece(f"{glyph} ", base + self._tone(tone, is_cursor)))
        tail: list[Piece] = []
        if segment.forks and not self._folding.is_open(number):
            tail.append(Piece(f" ({segment.leaves:,})", muted))
        ended = segment.kind == Kind.ENDED
        # The opening of the next step is how a model ends its own, and nothing that it says.
        own_text = segment.text.removesuffix(STEP_STOP) if ended else segment.text
        if segment.recorded_text is not None:
            extent = "" if ended else " so far"
            if segment.recorded_text.strip() != own_text.strip():
                extent = f" only “{one_line(segment.recorded_text, MAX_RECORDED_CHARACTERS)}”"
            tail.append(Piece(f" {RECORDED}{extent}", base + self._tone("tone--accent", is_cursor)))
        text = shown_text(own_text)
        style = base + self._tone("tone--found", is_cursor) if number in self._found else base
        if not text:
            text, style = ("end" if ended else "·"), muted
        room_left = room - Strip([*head, *tail]).cell_length
        body = Strip([Piece(text, style)])
        if body.cell_length > room_left:
            body = Strip([*body.crop(0, max(0, room_left - 1)), Piece("…", muted)])
        return [*head, *body, *tail]

    def _tone(self, name: str, is_cursor: bool) -> Style:
        """Returns the style of a tone; muted text is not muted under the cursor."""
        if not name:
            return Style.null()
        style = self.get_component_rich_style(name, partial=True)
        return style.without_color if is_cursor and name == "tone--muted" else style


def shown_text(text: str) -> str:
    """Returns the text of a segment on one line, with its spaces, and line ends as signs."""
    cut = text[:MAX_SEGMENT_CHARACTERS] + ("…" if len(text) > MAX_SEGMENT_CHARACTERS else "")
    return display_safe(cut.replace("\r\n", "\n").replace("\n", "⏎").replace("\t", "⇥"))
