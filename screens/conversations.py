"""The list of conversations: search, filter, sort, open, import, score."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from engine.errors import WorkbenchError
from engine.filters import Filter, ListQuery, SortKey, Term
from engine.rows import ConversationRow, Counts, Mode, Verdict
from engine.text import one_line
from screens import figures
from screens.base import WorkbenchScreen
from screens.bridge import EngineFeed
from screens.dialogs import ChoiceDialog, TextDialog
from screens.facts import Facts, load_facts
from screens.list_query import (
    SORT_TITLES,
    counts_words,
    filter_words,
    is_filtered,
    next_state,
    toggle_sort,
)
from screens.ports import Services
from screens.reader import ReaderScreen
from screens.run_dialog import RunDialog
from screens.widgets.evidence import Evidence
from screens.widgets.row_table import Column, Piece, RowTable
from screens.widgets.states import STATE_LOOKS, VERDICT_LOOKS
from screens.widgets.transcript import Transcript

NAME_WIDTH = 22
SEARCH_DELAY = 0.2
"""Seconds without a key before a search that is being typed runs."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to one query: ids in order, and counts without its state and verdict filters."""

    query: ListQuery
    ids: array[int]
    all: Counts
    matching: Counts


class ConversationsScreen(WorkbenchScreen[None]):
    """A virtual list with the state of each conversation, and a preview where there is room for one."""

    MODE = "conversations"
    CSS_PATH = "conversations.tcss"
    AUTO_FOCUS = "#list"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Find"),
        Binding("f", "next_state", "Filter", tooltip="Next state filter"),
        Binding("F", "filter", "Filter by verdict or source", show=False),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse the order", show=False),
        Binding("r", "run_scoring", "Score"),
        Binding("i", "import_files", "Import"),
        Binding("q", "app.quit", "Quit"),
        Binding("escape", "clear", "Clear search, then filters", show=False),
    ]

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self._query = ListQuery()
        self._digits: int | None = None
        self._search_timer: Timer | None = None
        self._table = RowTable[ConversationRow](
            [
                Column("state", "", 1, _state_cell),
                Column("p", "p end", figures.BAR_WIDTH + 4, self._p_end_cell),
                Column("turns", "turns", 7, _turns_cell, right=True, keep=7),
                Column("length", "length", 8, _chars_cell, right=True, keep=5),
                Column("source", "source", 14, _source_cell, keep=4),
                Column("name", "name", NAME_WIDTH, _name_cell, keep=6),
                Column("opening", "opening", 20, _opening_cell, flexible=True),
                Column("verdict", "you", 12, _verdict_cell, keep=8),
            ],
            self._fetch,
            lambda row: row.id,
            id="list",
        )

    def compose_body(self) -> ComposeResult:
        """Counts, search line, table and preview, or what to do when there is nothing to list."""
        yield Static(id="summary")
        yield Input(placeholder="words that must all occur in the messages", id="search")
        with Horizontal(id="main"):
            yield self._table
            with Vertical(id="preview"):
                yield Evidence("Under the cursor")
                yield Transcript(id="text")
        yield Static(classes="empty")

    def refresh_data(self) -> None:
        """Asks the query again; the cursor stays on its conversation."""
        query = self._query
        conversations = self.services.conversations

        def read() -> Listing:
            everything = conversations.counts()
            scope = ListQuery(query.filter.without("state", "verdict"))
            matching = conversations.counts(scope) if is_filtered(scope) else everything
            return Listing(query, conversations.ids(query), everything, matching)

        failed = self._search_failed if query.filter else self.show_error
        self.in_background(read, self._show_listing, group="listing", failed=failed)

    def _show_listing(self, listing: Listing) -> None:
        query, counts = listing.query, listing.matching
        self._digits = None
        self._table.show(listing.ids, (query.sort, query.descending))
        self.set_class(not listing.ids, "-empty")
        self.query_one(".empty", Static).update(_empty_content(listing))
        words = counts_words(len(listing.ids), listing.all.conversations, counts)
        if counts.conversations and not counts.scored:
            words += " · no scores yet, r scores them and says first how long it takes"
        parts: list[Content | tuple[str, str] | str] = [words]
        for look, number in zip(
            STATE_LOOKS.values(),
            (counts.complete, counts.incomplete, counts.borderline, counts.unscored),
            strict=True,
        ):
            parts.append((f"  {look.glyph} {number:,}", look.tone_variable))
        told = filter_words(query)
        if told:
            parts.append((f"   ▽ {told}", "bold $tone-accent"))
        self.query_one("#summary", Static).update(Content.assemble(*parts))

    def _search_failed(self, error: WorkbenchError) -> None:
        told = Content.assemble(
            (one_line(error.message), "$tone-incomplete"), (f" {one_line(error.hint)}", "")
        )
        self.query_one("#summary", Static).update(told)

    def _fetch(self, ids: Sequence[int]) -> list[ConversationRow]:
        rows = self.services.conversations.rows(ids)
        if self._digits is None:
            scored = next((row for row in rows if row.p_end is not None), None)
            score = self.services.conversations.score(scored.id) if scored is not None else None
            if score is not None:
                self._digits = figures.digits_for(score.noise)
        return rows

    def _p_end_cell(self, row: ConversationRow) -> Sequence[Piece]:
        p = row.p_end_normalised
        if p is None:
            return [("–", "tone--muted")]
        tone = STATE_LOOKS[row.state].tone_class
        return [(figures.bar(p), tone), (" " + figures.probability(p, self._digits or 2), "")]

    # Asking differently

    def _ask(self, query: ListQuery) -> None:
        if query != self._query:
            self._query = query
            self.refresh_data()

    def action_next_state(self) -> None:
        """Steps through the state filters."""
        self._ask(next_state(self._query))

    def action_reverse(self) -> None:
        """Turns the order round."""
        self._ask(replace(self._query, descending=not self._query.descending))

    def on_row_table_header_pressed(self, message: RowTable.HeaderPressed) -> None:
        """A click on a column's title sorts by it."""
        if message.key in SORT_TITLES:
            self._ask(toggle_sort(self._query, message.key))

    def action_sort(self) -> None:
        """Asks for the column to sort by."""

        def chosen(key: SortKey | None) -> None:
            if key is not None:
                self._ask(toggle_sort(self._query, key))

        choices = list(SORT_TITLES.items())
        self.app.push_screen(
            ChoiceDialog("Sort by; again turns it round", choices, self._query.sort), chosen
        )

    def action_filter(self) -> None:
        """Asks for a filter by verdict or source."""

        def ask(sources: list[str]) -> None:
            plain = replace(self._query, filter=self._query.filter.without("verdict", "source"))

            def only(field: str, value: str) -> ListQuery:
                return replace(plain, filter=plain.filter.with_choice(field, value))

            choices: list[tuple[ListQuery, str]] = [
                (plain, "everything"),
                (only("verdict", "none"), "not judged by you"),
                (only("verdict", "any"), "judged by you"),
            ]
            choices += [(only("verdict", v.value), f"you said {v.value}") for v in Verdict]
            choices += [(only("source", s), f"from {one_line(s)}") for s in sources]
            self.app.push_screen(
                ChoiceDialog("Show only", choices, self._query),
                lambda query: self._ask(query) if query is not None else None,
            )

        self.in_background(self.services.conversations.sources, ask, group="sources")

    def action_search(self) -> None:
        """Opens the search line."""
        self.add_class("-searching")
        self.query_one("#search", Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Searches once the typing rests."""
        if self._search_timer is not None:
            self._search_timer.stop()
        self._search_timer = self.set_timer(SEARCH_DELAY, self._search)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter searches at once and goes to the list."""
        self._search()
        self._table.focus()

    def _search(self) -> None:
        if self._search_timer is not None:
            self._search_timer.stop()
        text = self.query_one("#search", Input).value.strip()
        self.set_class(bool(text) or self.query_one("#search").has_focus, "-searching")
        self._ask(replace(self._query, filter=_searching(self._query.filter, text)))

    def action_clear(self) -> None:
        """Takes back the search, and when there is none the filters."""
        search = self.query_one("#search", Input)
        if self.has_class("-searching"):
            with search.prevent(Input.Changed):
                search.value = ""
            self._table.focus()
            self.remove_class("-searching")
            self._ask(replace(self._query, filter=self._query.filter.without("text")))
        else:
            self._ask(ListQuery(sort=self._query.sort, descending=self._query.descending))

    # Going on from a conversation

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the reader; coming back, the cursor stands on what was read last."""
        table = self._table
        reader = ReaderScreen(self.services, self.feed, table.ids, table.cursor_index, self.MODE)
        self.app.push_screen(
            reader, lambda row_id: table.move_to_id(row_id) if row_id is not None else None
        )

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the preview of the row under the cursor, where there is one."""
        self._preview(message.row_id)

    def on_resize(self) -> None:
        """A preview that comes into sight is filled."""
        if self._table.cursor_id is not None:
            self.call_after_refresh(self._preview, self._table.cursor_id)

    def _preview(self, row_id: int) -> None:
        if not self.has_class("-very-wide"):
            return
        self.in_background(
            lambda: load_facts(self.services, row_id),
            self._show_preview,
            group="preview",
            failed=lambda error: self.query_one(Evidence).show(None),
        )

    def _show_preview(self, facts: Facts) -> None:
        self.query_one(Evidence).show(facts)
        self.query_one(Transcript).show(facts.messages, facts.leaks, at_end=True)

    # Jobs

    def action_run_scoring(self) -> None:
        """Shows what scoring costs, and starts it."""
        if not self.may_write():
            return

        def chosen(mode: Mode | None) -> None:
            if mode is not None:
                self.in_background(
                    lambda: self.services.jobs.start_scoring(mode), lambda job: None, group="start"
                )

        self.app.push_screen(RunDialog(self.services.jobs), chosen)

    def action_import_files(self) -> None:
        """Asks for a file or folder, and imports it."""
        if not self.may_write():
            return

        def chosen(path: str | None) -> None:
            if path is not None and path.strip():
                self.in_background(
                    lambda: self.services.jobs.start_import([os.path.expanduser(path.strip())]),
                    lambda job: None,
                    group="start",
                )

        self.app.push_screen(
            TextDialog(
                "Import conversations", placeholder="a .json, .jsonl or .gz file, or a folder"
            ),
            chosen,
        )


def _searching(wanted: Filter, text: str) -> Filter:
    words = tuple(Term("text", ":", (word,)) for word in text.split())
    return Filter((*wanted.without("text").terms, *words))


def _empty_content(listing: Listing) -> Content:
    if listing.all.conversations == 0:
        return Content.assemble(
            "No conversations yet.\n\n",
            ("i", "bold $tone-accent"),
            " imports a file or a folder: uniform, OpenAI, ShareGPT, tau-bench or plain messages.",
        )
    return Content.assemble(
        f"None of {listing.all.conversations:,} conversations matches: ",
        (filter_words(listing.query), "bold"),
        "\n\n",
        ("escape", "bold $tone-accent"),
        " clears the search, then the filters.",
    )


def _state_cell(row: ConversationRow) -> Sequence[Piece]:
    look = STATE_LOOKS[row.state]
    return [(look.glyph, look.tone_class)]


def _turns_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(f"{row.turns:,}", "")]


def _chars_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(figures.amount(row.chars), "tone--muted")]


def _source_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(one_line(row.source, 40), "tone--muted")]


def _name_cell(row: ConversationRow) -> Sequence[Piece]:
    name = one_line(row.external_id)
    if len(name) > NAME_WIDTH:  # long names of one source begin alike
        name = "…" + name[1 - NAME_WIDTH :]
    return [(name, "tone--muted")]


def _opening_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(one_line(row.opening), "")]


def _verdict_cell(row: ConversationRow) -> Sequence[Piece]:
    if row.verdict is None:
        return []
    look = VERDICT_LOOKS[row.verdict]
    return [(look.glyph, look.tone_class), (f" {look.word}", "tone--bright")]
