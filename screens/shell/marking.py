"""Marked rows of a list, the actions that mark them, and the tags that are given to them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from textual.content import Content

from engine.base import number_format
from engine.base.errors import UsageError
from engine.base.text import NAME_LIMIT, one_line, short_name
from engine.questions.question import YES, make_slug
from engine.questions.records import NewAnswer
from screens.shell.dialogs import TextDialog, ask
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.row_table import RowTable

MOST_TAGS = 12
NO_TAGS = (
    "No tags yet. A tag is a word of yours for what you see, such as “too slow”: write one, and enter gives it."
    " Filters find it (NAME:yes), and after ten yes and ten no `workbench ask PROJECT NAME --by examples` finds where"
    " else it may fit."
)
"""Shown in place of the tags of a project that has none."""


class Marks:
    """The ids of the marked rows; they stay when the table shows another order or other rows.

    Marking is not a loop over ids in Python: marking a million of them is one call of the set.
    """

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._last: int | None = None  # the id marked last, where a range begins

    def __contains__(self, row_id: object) -> bool:
        return row_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def toggle(self, row_id: int) -> None:
        """Marks an id, or takes its mark away."""
        self._ids.symmetric_difference_update((row_id,))
        self._last = row_id

    def mark_range(self, order: array[int], index: int) -> None:
        """Marks the rows from the last marked one to an index of the order; only that one where none was marked."""
        row_id = order[index]
        try:
            start = index if self._last is None else order.index(self._last)
        except ValueError:  # the row marked last is not listed now
            start = index
        self._ids.update(order[min(start, index) : max(start, index) + 1])
        self._last = row_id

    def mark_all(self, order: Sequence[int]) -> None:
        """Marks all ids of an order, too."""
        self._ids.update(order)

    def clear(self) -> None:
        """Takes every mark away."""
        self._ids.clear()
        self._last = None

    def chosen(self, order: array[int]) -> array[int]:
        """Returns the marked ids: those of an order as they stand in it, then the others by id."""
        ids = array("q", filter(self._ids.__contains__, order))
        if len(ids) < len(self._ids):
            ids.extend(sorted(self._ids.difference(ids)))
        return ids


class Marking:
    """Adds the actions that mark rows to a screen with a table.

    Attributes:
        table: Shows the rows; its `marked` is `marks`.
        marks: The marked rows.
    """

    table: RowTable[Any]
    marks: Marks

    def marks_changed(self) -> None:
        """Shows how many rows are marked; called after the marks changed."""
        raise NotImplementedError

    def action_mark(self) -> None:
        """Marks the row under the cursor, or takes its mark away, and goes on to the next."""
        if self.table.cursor_id is not None:
            self.marks.toggle(self.table.cursor_id)
            self._show_marks()
            self.table.action_move(1)

    def action_mark_range(self) -> None:
        """Marks from the last mark to the cursor."""
        if self.table.cursor_id is not None:
            self.marks.mark_range(self.table.ids, self.table.cursor_index)
            self._show_marks()

    def action_mark_all(self) -> None:
        """Marks everything that is listed."""
        self.marks.mark_all(self.table.ids)
        self._show_marks()

    def action_mark_none(self) -> None:
        """Takes all marks away."""
        self.marks.clear()
        self._show_marks()

    def _show_marks(self) -> None:
        """Draws the changed marks, and shows how many there are."""
        self.table.refresh()
        self.marks_changed()

    def _marked_or_cursor(self) -> array[int]:
        """Returns the ids of the marked rows, or else that of the row under the cursor, if there is one."""
        if self.marks:
            return self.marks.chosen(self.table.ids)
        return array("q", [] if self.table.cursor_id is None else [self.table.cursor_id])


def ask_tags(
    screen: WorkbenchScreen[Any],
    ids: Sequence[int],
    then: Callable[[str], None],
) -> None:
    """Asks for the tags of conversations, and stores them. A minus before a tag takes it away.

    A tag is the answer yes to the yes-no question of its name. Each tag is stored by one act, which one undo takes
    back.

    Args:
        then: Called after the tags were stored, with a sentence that tells what was done.
    """
    if not ids or not screen.may_write():
        return
    conversations = number_format.counted(len(ids), "conversation")

    def store(text: str) -> None:
        """Gives or takes away the tags that were typed; a name that cannot be a tag is an error."""
        tags = [tag for part in text.split(",") if (tag := " ".join(part.split()))]
        try:
            value_by_name = {make_slug(tag): None if tag[0] == "-" else YES for tag in tags}
        except UsageError as error:
            screen.show_error(error)
            return

        def write() -> None:
            for name in value_by_name:
                if screen.services.questions.find(name, keep=True).kind != "yes-no":
                    raise UsageError(
                        f"“{name}” is no yes-no question.", "Give the tag another name."
                    )
            for name, value in value_by_name.items():
                screen.services.triage.answer([NewAnswer(key, name, value) for key in ids])

        if tags:
            notice = f"Tagged {conversations}: {one_line(', '.join(tags), NAME_LIMIT)}."
            write_in_order(screen, write, lambda _: then(notice), screen.show_error)

    def ask_text(tags: Sequence[tuple[str, int]]) -> None:
        title = f"Tag {conversations}"
        placeholder = "tags, with commas between them; -tag takes one away"
        help = Content.styled(tags_text(tags), "$tone-muted")
        ask(screen, TextDialog(title, placeholder=placeholder, help=help), store)

    screen.in_background(screen.services.conversations.tags, ask_text, group="tags")


def tags_text(tags: Sequence[tuple[str, int]]) -> str:
    """Returns the tags with their numbers of conversations, the largest first; without tags, what they are for."""
    if not tags:
        return NO_TAGS
    shown = sorted(tags, key=itemgetter(1), reverse=True)[:MOST_TAGS]  # by the number
    parts = [f"{short_name(name)} {count:,}" for name, count in shown]
    if len(tags) > MOST_TAGS:
        parts.append(f"{len(tags) - MOST_TAGS:,} more")
    return f"Tags in use: {' · '.join(parts)}"
