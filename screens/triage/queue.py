"""The queue of conversations that a person judges, and the rounds of second answers. Knows nothing of Textual.

An item is a conversation with the reason why it is in the queue. While a person works, scores arrive and verdicts are
given, so the queue is read again: the items that were passed and the current item keep their places, later ones are
replaced. The stored queue is read in pages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from engine.base.conversation import SUCCEEDED
from engine.conversations.filters import Filter, ListQuery
from engine.opener.open_project import OpenProject
from engine.questions.question import PEOPLE, Question
from engine.questions.records import MACHINE_ORDERS, QueueOrder, TriageItem, TriagePage
from screens.triage.formatting import TriageStatus

MIN_ITEMS_LEFT = 100
"""The next page of a long queue is read when fewer items than this are left."""


class TriageQueue:
    """The items that were passed, the current one, and those to come.

    Attributes:
        index: Index of the current item; the number of items when nothing is left.
    """

    def __init__(self) -> None:
        """Holds nothing until `refresh`."""
        self.index = 0
        self._items: list[TriageItem] = []
        self._judged: set[int] = set()  # ids of the conversations that got a verdict here
        self._on_later_pages = 0  # number of waiting items that later pages hold

    @property
    def current(self) -> TriageItem | None:
        """The current item; None when nothing is left."""
        return self._items[self.index] if self.index < len(self._items) else None

    @property
    def position(self) -> int:
        """Place of the current item, from 1."""
        return min(self.index + 1, len(self._items))

    @property
    def total(self) -> int:
        """Number of all items, those of later pages included."""
        return len(self._items) + self._on_later_pages

    @property
    def ids(self) -> list[int]:
        """Ids of the conversations, in order."""
        return [item.conversation_id for item in self._items]

    @property
    def skipped(self) -> tuple[int, ...]:
        """Ids of the conversations that were passed without a verdict."""
        passed_ids = self.ids[: self.index]
        return tuple(key for key in passed_ids if key not in self._judged)

    @property
    def wants_more(self) -> bool:
        """Whether the next page should be read."""
        return self._on_later_pages > 0 and len(self._items) - self.index < MIN_ITEMS_LEFT

    def refresh(self, page: TriagePage) -> None:
        """Replaces the items that are still to come."""
        new_items = {item.conversation_id: item for item in page.items}
        passed_items = [
            new_items.get(item.conversation_id, item) for item in self._items[: self.index + 1]
        ]
        known_ids = {item.conversation_id for item in passed_items} | self._judged
        self._items = passed_items + [
            item for item in page.items if item.conversation_id not in known_ids
        ]
        self._on_later_pages = page.total - len(page.items)

    def restore(self, conversation: int | None, skipped: Sequence[int]) -> None:
        """Restores the place of an earlier session.

        Args:
            conversation: Id of the conversation that was the current one; None when nothing was left.
            skipped: Ids of the conversations that were passed without a verdict.
        """
        skipped_order = {key: index for index, key in enumerate(skipped) if key != conversation}
        skipped_items = [item for item in self._items if item.conversation_id in skipped_order]
        skipped_items.sort(key=lambda item: skipped_order[item.conversation_id])
        current_items = [item for item in self._items if item.conversation_id == conversation]
        later_items = [
            item
            for item in self._items
            if item.conversation_id not in skipped_order and item.conversation_id != conversation
        ]
        self._items = skipped_items + current_items + later_items
        self.index = len(skipped_items) if current_items or later_items else 0

    def judge(self) -> None:
        """Notes that the current item has a verdict, and goes to the next one without."""
        if self.current is not None:
            self._judged.add(self.current.conversation_id)
            self._advance()

    def skip(self) -> None:
        """Goes to the next item; the skipped one comes again when all others were passed."""
        if self.current is not None:
            self._advance()

    def _advance(self) -> None:
        """Goes to the next item without a verdict, or else to the first one that was skipped, or else past the end."""
        later = range(self.index + 1, len(self._items))
        passed = range(self.index + 1)
        for index in (*later, *passed):
            if self._items[index].conversation_id not in self._judged:
                self.index = index
                return
        self.index = len(self._items)

    def bring_back(self, conversation_id: int, why: str) -> None:
        """Makes a conversation whose verdict was undone the current item; `why` is the reason why it comes again."""
        self._judged.discard(conversation_id)
        ids = self.ids
        if conversation_id in ids:
            self.index = ids.index(conversation_id)
        else:
            self._items.insert(self.index, TriageItem(conversation_id, why))

    def settle(self, conversation_id: int) -> None:
        """Notes that the verdict on a conversation was redone; goes on if it is the current one."""
        if self.current is not None and self.current.conversation_id == conversation_id:
            self.judge()
        else:
            self._judged.add(conversation_id)


@dataclass(frozen=True, slots=True)
class LoadedQueue:
    """The queue of a question as it was read.

    Attributes:
        order: The order that goes on.
        page: The first page.
        any_scored: Whether any conversation of the project is scored, or the question needs no scores.
        conversations: Number of conversations in the project.
        machines: Number of machines that answered the question; None in an order that does not go by them.
    """

    question: Question
    order: QueueOrder
    page: TriagePage
    status: TriageStatus
    any_scored: bool
    conversations: int
    machines: int | None


def load_queue(
    services: OpenProject,
    question: str,
    order: QueueOrder,
    filter: Filter,
    only: Collection[int] | None = None,
    *,
    passed: int = 0,
    chosen: bool = True,
    draws: bool = False,
) -> LoadedQueue:
    """Reads the queue of a question.

    Args:
        filter: Leaves out conversations that it does not match; in the order `list` the list's own filter does, too.
        only: Ids of the only conversations that may be in the queue; None for all.
        passed: Number of conversations that were passed without an answer.
        chosen: Whether a person chose the order; else a better one may go on in its place.
        draws: Whether the order `check` draws the next conversations where all that were drawn are answered.
    """
    if not chosen:
        order = services.triage.better_order(order, question)
    if order == "informative":
        services.example_probes.prepare(question)
    if order == "check" and draws and services.read_only is None:
        services.questions.draw_check(question)
    query = ListQuery(filter)
    if order == "list":
        listed = services.saved.view()[0]
        query = replace(listed, filter=Filter((*listed.filter.terms, *filter.terms)))
    page = services.triage.queue(order, query, only, question, passed)
    counts = services.conversations.counts()
    any_scored = page.total > 0 or counts.scored > 0 or question != SUCCEEDED
    status = load_status(services, question)
    machines = None
    if order in MACHINE_ORDERS:
        (summary,) = (each for each in services.questions.all() if each.question.name == question)
        machines = sum(by != PEOPLE for by, _ in summary.answers)
    definition = services.questions.find(question)
    return LoadedQueue(definition, order, page, status, any_scored, counts.conversations, machines)


def load_status(services: OpenProject, question: str = SUCCEEDED) -> TriageStatus:
    """Counts the answers to a question, and compares them with blind repeats, the probe and a machine."""
    return TriageStatus(
        services.triage.tally(question),
        services.calibration.agreement_of_repeats(question),
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
        self._index = 0

    @property
    def current(self) -> int | None:
        """The conversation that is shown; None when the round is over."""
        return self._conversations[self._index] if self._index < len(self._conversations) else None

    @property
    def progress(self) -> str:
        """Progress of the round, `3 of 10`."""
        return f"{min(self._index + 1, len(self._conversations))} of {len(self._conversations)}"

    def go_on(self) -> None:
        """Goes to the next conversation."""
        self._index += 1

    def back_to(self, conversation: int) -> None:
        """Goes back to a conversation whose answer was undone."""
        if conversation in self._conversations:
            self._index = self._conversations.index(conversation)


def load_blind(
    services: OpenProject, question: str, count: int
) -> tuple[TriageStatus, list[int], list[int]]:
    """Returns the status, and conversations to judge blind: ids of own ones, and ids of those that others judged.

    There are at most `count` ids of each.
    """
    triage, status = services.triage, load_status(services, question)
    return status, triage.to_repeat(count, question), triage.to_judge_second(count, question)
