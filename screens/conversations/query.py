"""The query behind the list of conversations and its result: filter, order, counts as text, and columns.

Cells of a column are pieces: texts with their component classes.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from textual.content import Content

from engine.base import number_format
from engine.base.text import LINE_LIMIT, one_line, short_name
from engine.completeness.records import DecisionRule
from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery
from engine.opener.conversations import ConversationRow, Counts
from engine.opener.open_project import OpenProject
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import STATE_LOOKS, VERDICT_LOOKS, rate_piece
from screens.widgets.row_table import NO_VALUE, Column, Piece

SORT_TITLES: dict[SortKey, str] = {
    "id": "order of import",
    "name": "name",
    "source": "source",
    "date": "date",
    "p": "score",
    "success": "probability of success",
    "trouble": "trouble",
    "turns": "turns",
    "messages": "messages",
    "length": "length",
    "succeeded": "your verdict",
    "tag": "your tag",
}
"""What each order is called on the screen."""
_OUTCOME = ("state", "succeeded", "p", "success", "remaining", "disagreement", "sign", "trouble")
"""Filter fields about the outcome. A rate of conversations that were chosen by one of them would mean nothing."""


@dataclass(frozen=True, slots=True)
class ListCounts:
    """Counts that belong to one list.

    Attributes:
        everything: Counts of all conversations of the project.
        matching: Counts of those that match the filter.
        scores: Name of the set of scores that the states come from; empty without scores.
        has_rate: Whether the filter does not choose by the outcome, so that the rate of ended ones means something.
        rule: The rule that makes states of scores.
    """

    everything: Counts
    matching: Counts
    scores: str = ""
    has_rate: bool = True
    rule: DecisionRule = field(default_factory=DecisionRule)


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to a query.

    Attributes:
        ids: The ids of the conversations, in order.
        counts: The counts that belong to them; None before they are known.
        first: The rows of the first page, if they were read together with the ids.
    """

    query: ListQuery
    ids: array[int]
    counts: ListCounts | None = None
    first: Sequence[ConversationRow] = ()


def read_counts(services: OpenProject, query: ListQuery) -> ListCounts:
    """Counts what belongs to the list of a query."""
    conversations = services.conversations
    everything = conversations.counts()
    matching = conversations.counts(query) if query.filter else everything
    has_rate = query.filter == query.filter.without(*_OUTCOME)
    name, rule = services.score_sets.name_in_force(), conversations.rule()
    return ListCounts(everything, matching, name, has_rate, rule)


def toggle_sort(query: ListQuery, key: SortKey) -> ListQuery:
    """Returns the query sorted by a column, the other way round when it is sorted by it already."""
    if query.sort == key:
        return replace(query, descending=not query.descending)
    return replace(query, sort=key, descending=key in ("turns", "messages", "length", "date"))


def sort_of_column(column: str) -> SortKey | None:
    """Returns the sort key of a column; None for a column that cannot be sorted by."""
    if column == "state":
        return "p"
    return next((key for key in SORT_TITLES if key == column), None)


def format_counts(shown: int, counts: ListCounts) -> Content:
    """Returns how many conversations are listed, and the rate of ended ones.

    For example `812 of 2,000 · 71% [68, 74] ended, ≥ .50 (96% scored)`. The rate is of scored conversations only. It is
    left out where the filter chose by the outcome.
    """
    listed = f"{shown:,} of {counts.everything.conversations:,}"
    matching = counts.matching
    if not (matching.scored and counts.has_rate):
        return Content(listed)
    threshold = number_format.at_least(counts.rule.threshold)
    coverage = 100 * matching.scored / matching.conversations
    return Content.assemble(
        f"{listed} · ",
        rate_piece(matching.above, matching.scored),
        f" ended, {threshold} ({coverage:.0f}% scored)",
    )


def summary_content(listing: Listing, marked: int) -> Content:
    """Returns how many conversations are marked and listed, and how many of those that match have each state."""
    parts: list[Content | tuple[str, str] | str] = []
    if marked:
        parts.append((f"{marked:,} marked · ", "bold $tone-accent"))
    if listing.counts is None:
        parts.append(f"{len(listing.ids):,} listed · counting …")
        return Content.assemble(*parts)
    matching = listing.counts.matching
    parts.append(format_counts(len(listing.ids), listing.counts))
    if matching.conversations and not matching.scored:
        if listing.counts.scores:
            parts.append(" · none is scored, enter says why")
        else:
            parts.append(" · no scores yet, r scores them and says first how long it takes")
    numbers = (matching.complete, matching.incomplete, matching.borderline, matching.unscored)
    for look, number in zip(STATE_LOOKS.values(), numbers, strict=True):
        if number:
            parts.append((f"  {look.glyph} {number:,}", look.tone_variable))
    if listing.counts.scores:
        parts.append((f"  {listing.counts.scores}", "$tone-muted"))
    return Content.assemble(*parts)


def no_match(total: int, query: ListQuery) -> EmptyState:
    """Returns what the list says where none of its `total` conversations matches the filter."""
    filter = one_line(str(query.filter), LINE_LIMIT)
    return EmptyState(
        f"None of {total:,} conversations matches: {filter}",
        "changes the filter",
        "edit_filter",
        others=(("conversations.clear", "clears it"),),
    )


NAME_WIDTH = 22
"""Width of the column of names in cells."""
CHOSEN_KEEP = 8
"""`Column.keep` of a column that the person added: a narrow table drops most of the default columns first."""

DEFAULT_COLUMNS = ("state", "p", "turns", "length", "source", "name", "opening", "succeeded", "tag")
"""Keys of the columns that are shown until a person chooses others."""
COLUMN_TITLES: dict[str, str] = {
    "state": "state, as a sign",
    "p": "score",
    "success": "probability of success, by your verdicts",
    "trouble": "trouble, the sum of its signs",
    "signs": "signs of trouble",
    "turns": "turns",
    "messages": "messages",
    "length": "length, in characters",
    "date": "date",
    "source": "source",
    "name": "name",
    "opening": "opening",
    "succeeded": "your verdict",
    "tag": "your tags",
}
"""Every column that can be chosen, from left to right, with its name in the dialog."""
VISIBLE_OPENING_CHARACTERS = 28
"""Characters of an opening that fit on the narrowest terminal."""
FIXED = "opening"
"""The column that is always shown; it takes the width that is left."""


class ListColumns:
    """Draws the cells of a list.

    Attributes:
        rule: The rule that makes states of scores.
        pattern: Its matches are highlighted in the opening; None highlights nothing.
        has_verdicts: Whether the project has verdicts; without any, the default columns have none for them.
    """

    def __init__(self) -> None:
        self.rule = DecisionRule()
        self.pattern: re.Pattern[str] | None = None
        self.has_verdicts = False

    def chosen(self, keys: Sequence[str]) -> list[Column[ConversationRow]]:
        """Returns the columns with these keys, from left to right."""
        columns = {column.key: column for column in self._all_columns()}
        if not self.has_verdicts and tuple(keys) == DEFAULT_COLUMNS:
            del columns["succeeded"]
        return [columns[key] for key in columns if key in keys or key == FIXED]

    def _all_columns(self) -> list[Column[ConversationRow]]:
        """Returns every column, in the order of `COLUMN_TITLES`."""
        return [
            Column("state", "", 1, _state_cell),
            Column("p", "score", number_format.BAR_WIDTH + 4, self._score_cell),
            Column(
                "success", "success", number_format.BAR_WIDTH + 4, _success_cell, keep=CHOSEN_KEEP
            ),
            Column("trouble", "trouble", 7, _trouble_cell, right=True, keep=CHOSEN_KEEP),
            Column("signs", "signs", 24, _signs_cell, keep=CHOSEN_KEEP),
            Column("turns", "turns", 7, _turns_cell, right=True, keep=7),
            Column("messages", "messages", 10, _messages_cell, right=True, keep=CHOSEN_KEEP),
            Column("length", "length", 8, _length_cell, right=True, keep=4),
            Column("date", "date", 10, _date_cell, keep=CHOSEN_KEEP),
            Column("source", "source", 14, _source_cell, keep=3),
            Column("name", "name", NAME_WIDTH, _name_cell, keep=6),
            Column("opening", "opening", 30, self._opening_cell, flexible=True),
            Column("succeeded", "you", 12, _verdict_cell, keep=7),
            Column("tag", "tags", 14, _tags_cell, keep=5),
        ]

    def _score_cell(self, row: ConversationRow) -> Sequence[Piece]:
        p = row.p_end_normalised
        if p is None:
            return NO_VALUE
        tone = STATE_LOOKS[row.state].tone_class
        digits = self.rule.digits(p)
        return [(number_format.bar(p), tone), (" " + number_format.probability(p, digits), "")]

    def _opening_cell(self, row: ConversationRow) -> Sequence[Piece]:
        text = one_line(row.opening)
        first = self.pattern.search(text) if self.pattern is not None else None
        # The beginning is cut off where the first hit would not be visible.
        if first is not None and first.end() > VISIBLE_OPENING_CHARACTERS:
            text = "…" + text[first.start() - VISIBLE_OPENING_CHARACTERS // 2 :]
        return highlighted(text, self.pattern)


def highlighted(text: str, pattern: re.Pattern[str] | None) -> list[Piece]:
    """Returns the text in pieces; the matches of a pattern have the tone of a hit."""
    if pattern is None:
        return [(text, "")]
    pieces: list[Piece] = []
    position = 0
    for match in pattern.finditer(text):
        pieces += [(text[position : match.start()], ""), (match.group(), "tone--found")]
        position = match.end()
    return [piece for piece in [*pieces, (text[position:], "")] if piece[0]]


def _state_cell(row: ConversationRow) -> Sequence[Piece]:
    look = STATE_LOOKS[row.state]
    return [(look.glyph, look.tone_class)]


def _success_cell(row: ConversationRow) -> Sequence[Piece]:
    p = row.success
    if p is None:
        return NO_VALUE
    return [(number_format.bar(p), "tone--accent"), (" " + number_format.probability(p), "")]


def _trouble_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(number_format.trouble(row.trouble), "")]


def _signs_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(", ".join(reading.sign for reading in row.signs) or "–", "tone--muted")]


def _turns_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(f"{row.turns:,}", "")]


def _messages_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(f"{row.messages:,}", "tone--muted")]


def _length_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(number_format.amount(row.chars), "tone--muted")]


def _date_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(one_line((row.created_at or "–")[:10]), "tone--muted")]


def _source_cell(row: ConversationRow) -> Sequence[Piece]:
    # folders of one project begin alike
    return [(short_name(row.source.rpartition("/")[2] or row.source), "tone--muted")]


def _name_cell(row: ConversationRow) -> Sequence[Piece]:
    name = one_line(row.external_id)
    if len(name) > NAME_WIDTH:  # long names of one source begin alike
        name = "…" + name[1 - NAME_WIDTH :]
    return [(name, "tone--muted")]


def _verdict_cell(row: ConversationRow) -> Sequence[Piece]:
    if row.verdict is None:
        return []
    look = VERDICT_LOOKS[row.verdict]
    return [(look.glyph, look.tone_class), (f" {look.word}", "tone--bright")]


def _tags_cell(row: ConversationRow) -> Sequence[Piece]:
    return [(one_line(", ".join(row.tags)), "tone--accent")] if row.tags else []
