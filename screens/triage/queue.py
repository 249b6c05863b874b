"""The queue that a person works through. Without Textual.

The stored queue changes meanwhile: scores arrive, verdicts are given. Items that were passed and the item that is
shown keep their places; only later items are replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from engine.base.conversation import SUCCEEDED
from engine.conversations.filters import Filter, ListQuery
from engine.opener.open_project import OpenProject
from engine.questions.question import Question
from engine.questions.records import QueueOrder, TriageItem, TriagePage
from screens.triage.formatting import TriageStatus

MIN_ITEMS_LEFT = 100
"""The next page of a long queue is read when fewer items than this are left."""


class TriageQueue:
    """The passed items, the current one, and those to come."""

    def __init__(self) -> None:
        """Holds nothing until `refresh`."""
        self._items: list[TriageItem] = []
        self._at = 0
        """Index of the current item; the number of items when nothing is left."""
        self._judged: set[int] = set()
        """Ids of the conversations that got a verdict here."""
        self._beyond = 0
        """Number of waiting items that later pages hold."""

    @property
    def current(self) -> TriageItem | None:
        """The item that is shown; None when nothing is left."""
        return self._items[self._at] if self._at < len(self._items) else None

    @property
    def position(self) -> int:
        """Place of the current item, from 1."""
        return min(self._at + 1, len(self._items))

    @property
    def total(self) -> int:
        """Items passed, current and to come, those of later pages too."""
        return len(self._items) + self._beyond

    @property
    def ids(self) -> list[int]:
        """Conversations in order."""
        return [item.conversation_id for item in self._items]

    @property
    def index(self) -> int:
        """Index of the current item in `ids`."""
        return self._at

    @property
    def skipped(self) -> tuple[int, ...]:
        """Ids of the conversations that were passed without a verdict."""
        passed = (item.conversation_id for item in self._items[: self._at])
        return tuple(key for key in passed if key not in self._judged)

    @property
    def wants_more(self) -> bool:
        """Whether the next page should be read."""
        return self._beyond > 0 and len(self._items) - self._at < MIN_ITEMS_LEFT

    def refresh(self, page: TriagePage) -> None:
        """Replaces the items that are still to come."""
        new_items = {item.conversation_id: item for item in page.items}
        passed_items = [
            new_items.get(item.conversation_id, item) for item in self._items[: self._at + 1]
        ]
        known_ids = {item.conversation_id for item in passed_items} | self._judged
        self._items = passed_items + [
            item for item in page.items if item.conversation_id not in known_ids
        ]
        self._beyond = page.total - len(page.items)

    def restore(self, conversation: int | None, skipped: Sequence[int]) -> None:
        """Restores the place of an earlier session: the conversations it skipped are passed, `conversation` is
        current.
        """
        skipped_order = {key: nth for nth, key in enumerate(skipped) if key != conversation}
        skipped_items = [item for item in self._items if item.conversation_id in skipped_order]
        skipped_items.sort(key=lambda item: skipped_order[item.conversation_id])
        current_items = [item for item in self._items if item.conversation_id == conversation]
        later_items = [
            item
            for item in self._items
            if item.conversation_id not in skipped_order and item.conversation_id != conversation
        ]
        self._items = skipped_items + current_items + later_items
        self._at = len(skipped_items) if current_items or later_items else 0

    def judge(self) -> None:
        """The current item has a verdict: goes on to the next one without."""
        if self.current is not None:
            self._judged.add(self.current.conversation_id)
            self._advance()

    def skip(self) -> None:
        """Goes on; the item comes again when all others have been seen."""
        if self.current is not None:
            self._advance()

    def _advance(self) -> None:
        """Goes to the next item without a verdict, or else to the first one that was skipped; past the end if there is
        none."""
        later = range(self._at + 1, len(self._items))
        skipped = range(self._at + 1)
        for index in (*later, *skipped):
            if self._items[index].conversation_id not in self._judged:
                self._at = index
                return
        self._at = len(self._items)

    def bring_back(self, conversation_id: int, why: str) -> None:
        """Makes a conversation whose verdict was undone the current item."""
        self._judged.discard(conversation_id)
        ids = self.ids
        if conversation_id in ids:
            self._at = ids.index(conversation_id)
        else:
            self._items.insert(self._at, TriageItem(conversation_id, why))

    def settle(self, conversation_id: int) -> None:
        """Notes that a conversation has its verdict again (redo); if it is the current one, goes on."""
        if self.current is not None and self.current.conversation_id == conversation_id:
            self.judge()
        else:
            self._judged.add(conversation_id)


@dataclass(frozen=True, slots=True)
class LoadedQueue:
    """The question, the first page of its queue, the state of its answers, whether anything in the project is scored,
    and the number of its conversations."""

    question: Question
    page: TriagePage
    status: TriageStatus
    scored: bool
    conversations: int


def load_queue(
    services: OpenProject,
    question: str,
    order: QueueOrder,
    filter: Filter,
    only: Collection[int] | None = None,
    *,
    draws: bool = False,
) -> LoadedQueue:
    """Reads the queue of a question in an order, of what a filter matches, and where `only` is given, of these
    conversations; in the order `list` also of what the list's filter matches.

    Args:
        draws: Whether the order `check` draws the next conversations where all that were drawn are answered.
    """
    if order == "informative":
        services.example_probes.prepare(question)
    if order == "check" and draws and services.read_only is None:
        services.questions.draw_check(question)
    query = ListQuery(filter)
    if order == "list":
        listed = services.saved.view()[0]
        query = replace(listed, filter=Filter((*listed.filter.terms, *filter.terms)))
    page = services.triage.queue(order, query, only, question)
    counts = services.conversations.counts()
    scored = page.total > 0 or counts.scored > 0 or question != SUCCEEDED
    status = load_status(services, question)
    return LoadedQueue(
        services.questions.find(question), page, status, scored, counts.conversations
    )


def load_status(services: OpenProject, question: str = SUCCEEDED) -> TriageStatus:
    """Counts the answers to a question and compares them with the model, with those given again blind, with their
    probe, and with the machine that they check."""
    model, itself = services.calibration.agreements(question)
    return TriageStatus(
        services.triage.tally(question),
        model,
        itself,
        services.example_probes.in_force(question),
        next(iter(services.questions.checks(question)), None),
        services.triage.annotator,
    )


class BlindRound:
    """A round of second answers: conversations are judged again without seeing the first answer.

    Attributes:
        of_others: Whether other people gave the first answers.
    """

    def __init__(self, conversations: Sequence[int], *, of_others: bool = False) -> None:
        """Begins a round over these conversations, by their ids in order."""
        self.of_others = of_others
        self._conversations = tuple(conversations)
        self._at = 0

    @property
    def current(self) -> int | None:
        """The conversation that is shown; None when the round is over."""
        return self._conversations[self._at] if self._at < len(self._conversations) else None

    @property
    def words(self) -> str:
        """Progress of the round, `3 of 10`."""
        return f"{min(self._at + 1, len(self._conversations))} of {len(self._conversations)}"

    def go_on(self) -> None:
        """Goes to the next conversation."""
        self._at += 1

    def back_to(self, conversation: int) -> None:
        """Goes back to a conversation whose answer was undone."""
        if conversation in self._conversations:
            self._at = self._conversations.index(conversation)


def load_blind(
    services: OpenProject, question: str, count: int
) -> tuple[TriageStatus, list[int], list[int]]:
    """Returns the status, and ids of at most `count` conversations to judge blind: again, and after other people."""
    triage, status = services.triage, load_status(services, question)
    return status, triage.to_repeat(count, question), triage.to_judge_second(count, question)
