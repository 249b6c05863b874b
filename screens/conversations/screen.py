"""The list of conversations: filter, sort, mark, open, import, score.

A query is a filter and an order. Its ids are read first and shown, then the counts that belong to it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Static

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.text import NAME_LIMIT, one_line
from engine.conversations.filter_fields import WORD_FIELD
from engine.conversations.filters import Filter, ListQuery
from engine.opener.conversations import ConversationRow
from engine.opener.open_project import OpenProject
from screens.conversations.query import (
    COLUMN_TITLES,
    DEFAULT_COLUMNS,
    FIXED,
    SORT_TITLES,
    ListColumns,
    ListCounts,
    Listing,
    no_match,
    read_counts,
    sort_of_column,
    summary_content,
    toggle_sort,
)
from screens.shell.dialogs import TicksDialog, ask, ask_order
from screens.shell.exporting import ask_export
from screens.shell.marking import Marking, Marks, ask_tags
from screens.shell.workbench_screen import REFRESH_SECONDS, WorkbenchScreen
from screens.widgets.background import DelayedCall, write_in_order
from screens.widgets.evidence import Preview
from screens.widgets.filter_line import FilterLine
from screens.widgets.finding import words_pattern
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import PAGE, RowTable

if TYPE_CHECKING:
    from engine.opener.exports import ExportKind
    from screens.conversations.ask_form import QuestionRun

EXPORT_KINDS: tuple[tuple[ExportKind, str], ...] = (
    ("conversations", "conversations, as they can be imported again"),
    ("scores", "scores, with their curves"),
    ("answers", "what people answered: verdicts, notes and tags"),
)
"""What can be exported from the list, with the title of each."""
PAUSE_PER_READ = 4
"""The pause before the next read is this many times as long as the last one took, so that jobs go on meanwhile."""
CURSOR_REST_SECONDS = 0.5
"""Seconds without a cursor move after which the position of the cursor is stored."""


class ConversationsScreen(Marking, WorkbenchScreen[None]):
    """Lists conversations with their states; on a wide terminal also shows a preview of one.

    Attributes:
        query_shown: The query whose result is listed; it is changed only by `list_query`.
        columns_shown: Keys of the columns; they are changed only by `show_columns`.
    """

    MODE = "conversations"
    FIRST_KEYS = ("table.open", "conversations.edit-filter", "conversations.judge")
    AUTO_FOCUS = "#list"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "edit_filter", "Filter", tooltip="Write a filter"),
        Binding("slash", "search", "Find", key_display="/", tooltip="Find words in the messages"),
        Binding("s", "sort", "Sort", tooltip="Sort by a column"),
        Binding("S", "reverse", "Reverse", tooltip="Reverse the order", show=False),
        Binding("C", "columns", "Columns", tooltip="Choose the columns", show=False),
        Binding("escape", "clear", "Clear", tooltip="Clear the filter, then the marks", show=False),
        Binding("space", "mark", "Mark", tooltip="Mark or unmark, and go on"),
        Binding("v", "mark_range", "Range", tooltip="Mark from the last mark to here", show=False),
        Binding("a", "mark_all", "All", tooltip="Mark everything that is listed", show=False),
        Binding("A", "mark_none", "None", tooltip="Take all marks away", show=False),
        Binding("t", "tag", "Tag", tooltip="Tag or untag the marked ones or this"),
        Binding("J", "judge", "Judge", tooltip="Triage of just the marked ones, or of all listed", show=False),
        Binding("Q", "ask", "Ask", tooltip="Ask a question of what is listed", show=False),
        Binding("X", "export", "Export", tooltip="Export what is marked or listed", show=False),
        Binding("r", "run_scoring", "Score"),
        Binding("i", "import_files", "Import"),
        Binding("q", "app.quit", "Quit"),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str = "") -> None:
        """Lists nothing yet; `mode` is as in `WorkbenchScreen`."""
        super().__init__(services, feed, mode)
        self.query_shown = ListQuery()
        self.columns_shown: Sequence[str] = DEFAULT_COLUMNS
        self.marks = Marks()
        self._listing: Listing | None = None  # what is listed; None before the first read
        self._words: Sequence[str] = ()  # the words and phrases that the filter searches for
        self._is_restored = False  # the view of the last session was read
        self._remember_later = DelayedCall(self, CURSOR_REST_SECONDS, self._remember)
        self._columns = ListColumns()
        self.table = RowTable[ConversationRow](
            self._columns.chosen(self.columns_shown),
            self._fetch,
            lambda row: row.id,
            marked=self.marks,
            reads_project=True,
            id="list",
        )

    def compose_body(self) -> ComposeResult:
        """Yields the counts, filter line, table and preview, or what to do when there is nothing to list."""
        yield Static(id="summary")
        yield FilterLine(id="filter")
        with Horizontal(id="main"):
            yield self.table
            yield Preview(self.services, at_end=True)
        yield Static(classes="empty")

    # Reading

    def refresh_data(self) -> None:
        """Reads the list again, after a read that runs; the cursor stays on its conversation."""
        if not self._is_restored:
            self._restore()
        elif self._is_reading:
            self._must_read_again = True
        else:
            self._read()

    def _restore(self) -> None:
        """Restores the filter, order, columns and cursor of the last session, and reads the list."""
        saved = self.services.saved

        def on_result(view: tuple[ListQuery, int | None, Sequence[str] | None]) -> None:
            self._is_restored = True
            self.query_shown, cursor_id, columns = view
            self.columns_shown = columns or DEFAULT_COLUMNS
            self.query_one(FilterLine).put(self.query_shown.filter)
            self._highlight_words()
            self._read(cursor_id)

        def on_failure(error: WorkbenchError) -> None:
            self.show_error(error)
            on_result((ListQuery(), None, None))

        self.in_background(
            lambda: (*saved.view(), saved.columns() or self._default_columns()),
            on_result,
            group="listing",
            on_error=on_failure,
        )

    def _default_columns(self) -> Sequence[str]:
        """Returns the keys of the columns until a person chooses others.

        The column of success is among them once success is fitted to verdicts and better than chance.
        """
        success = self.services.example_probes.in_force()
        tells = success is not None and success.tells
        return [
            key for key in COLUMN_TITLES if key in DEFAULT_COLUMNS or (tells and key == "success")
        ]

    def _read(self, cursor_id: int | None = None) -> None:
        """Reads and shows the list of the query, and puts the cursor on `cursor_id`.

        Of a query that is not listed yet the ids and first rows are shown at once, since counting takes longer.
        """
        query = self.query_shown
        is_new = self._listing is None or self._listing.query != query
        start_time = time.monotonic()
        self._is_reading, self._must_read_again = True, False

        def read() -> Listing:
            ids = self.services.conversations.ids(query)
            if is_new:
                return Listing(query, ids, first=self._fetch(ids[:PAGE]))
            return Listing(query, ids, read_counts(self.services, query))

        def show(listing: Listing) -> None:
            """Shows the list, and then counts, unless that was done."""
            self._show_listing(listing)
            if cursor_id is not None:
                self.table.move_to_id(cursor_id)
            if listing.counts is not None:
                end()
                return

            def show_counts(counts: ListCounts) -> None:
                self._show_counts(replace(listing, counts=counts))
                end()

            self.in_background(
                lambda: read_counts(self.services, query),
                show_counts,
                group="listing",
                on_error=show_failure,
            )

        def show_failure(error: WorkbenchError) -> None:
            end()
            if query.filter and self._listing is not None:
                self.query_one(FilterLine).complain(error)
            else:
                self.show_error(error)

        def end() -> None:
            self._is_reading = False
            if self._must_read_again:
                pause = max(REFRESH_SECONDS, PAUSE_PER_READ * (time.monotonic() - start_time))
                self.set_timer(pause, self.refresh_data)

        self.in_background(read, show, group="listing", on_error=show_failure)

    def _show_listing(self, listing: Listing) -> None:
        """Shows the conversations of a query, and its counts if they are known."""
        query = listing.query
        if self._listing is None or self._listing.query.filter != query.filter:
            self._highlight_words()
        self.query_one(FilterLine).complain(None)
        self.table.show(listing.ids, (query.sort, query.descending), listing.first)
        self._show_counts(listing)

    def _show_counts(self, listing: Listing) -> None:
        """Shows the counts of what is listed, or what to do when nothing is."""
        self._listing = listing
        if listing.counts is not None:
            has_verdicts = bool(listing.counts.everything.verdicts)
            if has_verdicts != self._columns.has_verdicts:
                self._columns.has_verdicts = has_verdicts
                self.show_columns(self.columns_shown)
        self.set_class(not listing.ids and listing.counts is not None, "-empty")
        if listing.ids and self.focused is None:  # the table was hidden while it was empty
            self.table.focus()
        if not listing.ids and listing.counts is not None:
            total = listing.counts.everything.conversations
            self.show_empty(no_match(total, listing.query))
        self.marks_changed()

    def marks_changed(self) -> None:
        """Shows how many conversations are marked, listed and in each state."""
        if self._listing is not None:
            summary = summary_content(self._listing, len(self.marks))
            self.query_one("#summary", Static).update(summary)

    def _fetch(self, ids: Sequence[int]) -> list[ConversationRow]:
        """Reads the rows of these ids for the table, and the rule that their states follow."""
        rows = self.services.conversations.rows(ids)
        self._columns.rule = self.services.conversations.rule()
        return rows

    def show_columns(self, columns: Sequence[str]) -> None:
        """Shows other columns."""
        self.columns_shown = columns
        self.table.show_columns(self._columns.chosen(columns))

    def _highlight_words(self) -> None:
        """Highlights the words and phrases that the filter searches for."""
        searched = self.query_shown.filter.of(WORD_FIELD)
        self._words = [term.values[0] for term in searched if not term.negated]
        self._columns.pattern = words_pattern(self._words)
        self.show_columns(self.columns_shown)

    # Changing the query

    def list_query(self, query: ListQuery) -> None:
        """Lists the result of another query."""
        if query != self.query_shown:
            self.query_shown = query
            self._remember()
            self._read()

    def _remember(self) -> None:
        """Stores filter, order, columns and cursor in the project, for the next session."""
        if self.services.read_only is None and self._is_restored:
            query, cursor_id = self.query_shown, self.table.cursor_id
            saved = self.services.saved
            write_in_order(
                self, lambda: saved.save_view(query, cursor_id), lambda _: None, self.show_error
            )

    def on_filter_line_applied(self, message: FilterLine.Applied) -> None:
        """Lists the conversations that match the filter that was typed."""
        self.list_query(replace(self.query_shown, filter=message.filter))

    def listed(self) -> Filter:
        """Returns the filter of the list."""
        return self.query_shown.filter

    def filter_by(self, filter: Filter) -> None:
        """Lists the conversations that match a filter."""
        self.query_one(FilterLine).put(filter)
        self.list_query(replace(self.query_shown, filter=filter))

    def action_clear(self) -> None:
        """Clears the filter; without a filter clears the marks."""
        if self.query_shown.filter:
            self.filter_by(Filter())
        elif self.marks:
            self.action_mark_none()

    def action_reverse(self) -> None:
        """Reverses the order."""
        self.list_query(replace(self.query_shown, descending=not self.query_shown.descending))

    def on_row_table_header_pressed(self, message: RowTable.HeaderPressed) -> None:
        """Sorts by the column whose title is clicked."""
        key = sort_of_column(message.key)
        if key is not None:
            self.list_query(toggle_sort(self.query_shown, key))

    def action_sort(self) -> None:
        """Asks for the column to sort by."""
        ask_order(
            self,
            list(SORT_TITLES.items()),
            self.query_shown.sort,
            lambda key: self.list_query(toggle_sort(self.query_shown, key)),
        )

    def action_columns(self) -> None:
        """Asks which columns are shown."""

        def on_choice(keys: list[str]) -> None:
            saved, columns = self.services.saved, [*keys, FIXED]
            self.show_columns(columns)
            if hidden := self.table.hidden_titles:
                number = number_format.counted(len(hidden), "column")
                self.notify(
                    f"No room for {number}: {', '.join(hidden)}. Widen the terminal, or untick others.",
                    markup=False,
                )
            if self.services.read_only is None:
                write_in_order(
                    self, lambda: saved.save_columns(columns), lambda _: None, self.show_error
                )
            else:
                self.notify("Read-only: the columns are not remembered.", markup=False)

        choices = [(key, title) for key, title in COLUMN_TITLES.items() if key != FIXED]
        ask(self, TicksDialog("Columns", choices, self.columns_shown), on_choice)

    # Actions on the marked conversations, else on the one under the cursor

    def action_tag(self) -> None:
        """Asks for tags, and adds or removes them."""
        ask_tags(self, self._marked_or_cursor(), lambda notice: self.notify(notice, markup=False))

    def action_judge(self) -> None:
        """Goes to triage of the marked conversations, else of all listed ones."""
        name = f"{len(self.marks):,} marked" if self.marks else str(self.query_shown.filter)
        ids = self.marks.chosen(self.table.ids) if self.marks else self.table.ids
        self.triage_only(one_line(name or "all conversations", NAME_LIMIT), ids)

    def action_ask(self) -> None:
        """Asks for a question and who answers it, and starts that."""
        if not self.may_write():
            return
        services = self.services

        def on_choice(run: QuestionRun) -> None:
            def start() -> int:
                question = services.questions.find(run.text, keep=True, pattern=run.pattern)
                return services.asking.start(question, run.request)

            self._start(start)

        from screens.conversations.ask_form import AskForm  # it brings what models need

        ask(self, AskForm(services, self.listed()), on_choice)

    def action_export(self) -> None:
        """Asks for kind and file of an export of the marked conversations, else of all listed ones."""
        ids = self.marks.chosen(self.table.ids) if self.marks else self.table.ids
        if not ids:
            self.notify("There is nothing to export.", markup=False)
            return
        which = "marked" if self.marks else "listed"
        number = f"{number_format.counted(len(ids), 'conversation')} ({which})"
        ask_export(self, f"Export {number}", EXPORT_KINDS, ids)

    # Reader and preview

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the reader; afterwards the cursor is on the conversation that was read last."""
        table = self.table
        self.open_reader(table.ids, table.cursor_index, table.move_to_id, words=self._words)

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the conversation under the cursor beside the list."""
        self._remember_later.restart()
        self.query_one(Preview).follow(message.row_id, self._words)


class ConversationsBehindScreen(ConversationsScreen):
    """The list of conversations with the filter of a figure. Nothing of it is remembered; escape goes back."""

    PLACE = "behind"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, filter: Filter, mode: str) -> None:
        super().__init__(services, feed, mode)
        self._filter = filter

    def _restore(self) -> None:
        """Lists what the filter matches."""
        self._is_restored = True
        self.query_shown = ListQuery(self._filter)
        self.query_one(FilterLine).put(self._filter)
        self._highlight_words()
        self._read()

    def _remember(self) -> None:
        """Does nothing, so that the stored view stays that of the list."""
