"""Filling a form by modules: a manager over chunks, a filler over the fields of one chunk, a parser over one answer.

A module is one prompt with one kind of reply; a chunk is some top-level labels of the form that are filled together.

The flow is that of Hakimov et al. (2024), including its quirks. A chunk whose fields are answered and not validated
counts as validated for the manager, whose words for a chunk the fillers never use; a field without required parts is
answered as soon as anything was asked about its chunk; a label that the grouping leaves out is never asked for. Two
things are added, or runs of weak models would not end: turns, decisions and further questions on one question are
limited; a filler that asks where nothing is open validates instead; and it asks no more questions in one go than its
chunk has fields, so that no chunk takes the turns of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.model.chat import Call, Completion
from engine.simulate.forms import modules
from engine.simulate.forms.form import copy_answers
from engine.simulate.forms.form_scores import fields
from engine.simulate.forms.form_session import FormSession
from engine.simulate.play import RunOver

MAX_RECENT_ACTIONS = 6
"""Most actions that a state remembers, newest first."""

DECISIONS_PER_TURN = 4
"""A run ends after `DECISIONS_PER_TURN * (most turns + 1)` decisions of manager and fillers."""

Filling = Generator[Call, Completion, None]
"""A part of a run that yields calls of a model and returns nothing."""


@dataclass(slots=True)
class Chunk:
    """Some top-level labels of a form, filled together.

    Attributes:
        states: By label: `empty`, `partially answered`, `answered` or `validated`.
        last_action: The latest actions of its filler, newest first.
        last_question: The latest question about it; None before the first.
        information: Facts extracted from the answers so far.
        visits: How often the manager chose it.
    """

    states: dict[str, str]
    last_action: list[str] = field(default_factory=list)
    last_question: str | None = None
    information: dict[str, str] = field(default_factory=dict)
    visits: int = 0

    @property
    def filler_view(self) -> dict[str, Any]:
        """The state as its filler sees it."""
        return {
            "fields": self.states,
            "last action": self.last_action,
            "last question": self.last_question,
        }

    @property
    def manager_state(self) -> str:
        """The state as the manager sees it, in words that do not know `answered`."""
        states = set(self.states.values())
        if "empty" not in states:
            return "validated"
        return "partially filled" if "validated" in states else "empty"


@dataclass(slots=True)
class ModularRun:
    """A modular run in progress.

    Attributes:
        content: The form with the answers so far.
        chunks: The chunks by name.
        states: `Chunk.manager_state` of each, as of the last decision of the manager.
        last_action: The latest actions of the manager, newest first.
        left_out: Labels that the grouping put into no chunk.
        decisions: Number of decisions of the manager and of fillers so far.
    """

    session: FormSession
    content: dict[str, Any]
    chunks: dict[str, Chunk] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    last_action: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    decisions: int = 0

    @property
    def manager_view(self) -> dict[str, Any]:
        """The state as the manager sees it."""
        return {"chunks": self.states, "last action": self.last_action}

    def fill(self) -> Generator[Call, Completion, str]:
        """Fills the form; returns how the run ended: `stop`, `turns`, `decisions` or `unknown chunk`."""
        try:
            while True:
                self._count_decision()
                reply = yield from modules.next_of_manager(
                    self.session, self.manager_view, self._offered_chunks()
                )
                action, name = reply["next action"], str(reply.get("chunk to work on"))
                if action == modules.FILL_CHUNK and name not in self.chunks:
                    if self.chunks:
                        return "unknown chunk"
                    # Nothing can be filled before the form is split.
                    action = modules.FORM_CHUNKS
                _remember(self.last_action, action)
                if action == modules.STOP:
                    return "stop"
                if action == modules.FORM_CHUNKS:
                    yield from self._form_chunks()
                else:
                    yield from self._fill_chunk(self.chunks[name])
                self.states = {name: chunk.manager_state for name, chunk in self.chunks.items()}
        except RunOver as over:
            return over.reason

    def _offered_chunks(self) -> list[str]:
        """Returns the open chunks with the fewest visits, so that each has its turn."""
        open_chunks = [name for name, state in self.states.items() if state in modules.OPEN_STATES]
        fewest_visits = min((self.chunks[name].visits for name in open_chunks), default=0)
        return [name for name in open_chunks if self.chunks[name].visits == fewest_visits]

    def _count_decision(self) -> None:
        """Counts a decision of a manager or filler.

        Raises:
            RunOver: There were too many.
        """
        self.decisions += 1
        if self.decisions > DECISIONS_PER_TURN * (self.session.most_turns + 1):
            raise RunOver("decisions")

    def _form_chunks(self) -> Filling:
        """Lets the modules summarize the labels of the form and group them into chunks, which replace those before."""
        summaries: dict[str, str] = {}
        for label, node in self.content.items():
            if isinstance(node, dict):
                reply = yield from modules.summary_of(self.session, label, node)
                summaries[label] = reply["summary"]
        groups: list[tuple[str, list[str]]] = []
        labels = list(summaries)
        size = self.session.rules.grouping_size
        for start in range(0, len(labels), size):
            batch = {label: summaries[label] for label in labels[start : start + size]}
            first_groups = yield from modules.groups_of(self.session, batch)
            better_groups = yield from modules.better_groups(self.session, batch, first_groups)
            # A module may name a member by its label or by its summary.
            label_of = {summary: label for label, summary in batch.items()}
            for name, members in better_groups.items():
                group = [member if member in batch else label_of[member] for member in members]
                groups.append((name, list(dict.fromkeys(group))))
        self.chunks = {
            name: Chunk(dict.fromkeys(members, "empty"))
            for name, members in _by_distinct_name(groups).items()
        }
        grouped = {label for _, members in groups for label in members}
        self.left_out = [label for label in labels if label not in grouped]

    def _fill_chunk(self, chunk: Chunk) -> Filling:
        """Works on a chunk until its labels are validated or its filler stops."""
        chunk.visits += 1
        field_count = sum(
            1 for label in chunk.states for _ in fields(self.content[label], (label,))
        )
        questions_left = max(field_count, 1)
        while any(state != "validated" for state in chunk.states.values()):
            can_validate = "answered" in chunk.states.values()
            open_labels = [label for label, state in chunk.states.items() if _is_open(state)]
            if not can_validate and questions_left <= 0:
                break
            self._count_decision()
            may_ask = bool(open_labels) and questions_left > 0
            reply = yield from modules.next_of_filler(self.session, chunk.filler_view, may_ask)
            action = reply["next action"]
            if action == modules.ASK and not may_ask:
                action = modules.VALIDATE
            _remember(chunk.last_action, action)
            if action == modules.STOP:
                return
            if action == modules.ASK:
                questions_left -= 1
                yield from self._ask(chunk, open_labels)
            else:
                yield from self._validate(chunk)
        _remember(chunk.last_action, modules.STOP)

    def _ask(self, chunk: Chunk, open_labels: Sequence[str]) -> Filling:
        """Asks the user about open labels of a chunk, with follow-ups, and fills in what the answers say."""
        session = self.session
        section = {label: self.content[label] for label in open_labels}
        reply = yield from modules.question_about(session, section)
        targets = list(dict.fromkeys(reply["fields"]))
        dialogue: list[dict[str, str]] = []
        yield from self._put_question(chunk, reply["question"], dialogue)
        while True:
            reply = yield from modules.next_after_answer(session, dialogue, targets, section)
            if reply["next action"] == modules.EXTRACT:
                break
            if reply["next action"] == modules.FOLLOW_UP:
                reply = yield from modules.follow_up(session, dialogue, targets, section)
                yield from self._put_question(chunk, reply["question"], dialogue)
            else:
                reply = yield from modules.repeated_question(session, dialogue, targets, section)
                yield from self._put_question(chunk, reply["new question"], dialogue)
        facts = yield from modules.information_in(session, dialogue, section)
        chunk.information |= facts
        filled = yield from modules.filled_section(session, section, facts, targets)
        copy_answers(filled, self.content)
        for label, state in chunk.states.items():
            if state != "validated":
                chunk.states[label] = _state_of(self.content[label])

    def _put_question(self, chunk: Chunk, question: str, dialogue: list[dict[str, str]]) -> Filling:
        """Puts a question about a chunk to the user, and adds it and the answer to the dialogue."""
        chunk.last_question = question
        answer = yield from self.session.answer(question)
        dialogue += [{"Assistant": question}, {"User": answer}]

    def _validate(self, chunk: Chunk) -> Filling:
        """Lets the validator correct the answers of a chunk; its answered labels count as validated then."""
        section = {label: self.content[label] for label in chunk.states}
        corrected = yield from modules.validated_section(self.session, section, chunk.information)
        copy_answers(corrected, self.content)
        for label, state in chunk.states.items():
            if state == "answered":
                chunk.states[label] = "validated"


def _is_open(state: str) -> bool:
    """Whether something may still be asked about a label in this state."""
    return state not in ("answered", "validated")


def _state_of(node: Mapping[str, Any]) -> str:
    """Returns `answered` if all required fields have an answer, also if there are none."""
    required = [node_field for node_field in fields(node) if node_field.required]
    filled_count = sum(node_field.filled for node_field in required)
    if filled_count == len(required):
        return "answered"
    return "partially answered" if filled_count else "empty"


def _by_distinct_name(groups: Sequence[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """Returns the groups by name; groups that share a name are numbered and come last."""
    name_counts = Counter(name for name, _ in groups)
    members_by_name = {name: members for name, members in groups if name_counts[name] == 1}
    for shared_name, count in name_counts.items():
        if count > 1:
            namesakes = [members for name, members in groups if name == shared_name]
            members_by_name |= {
                f"{shared_name} {number}": members for number, members in enumerate(namesakes, 1)
            }
    return members_by_name


def _remember(actions: list[str], action: str) -> None:
    """Puts an action first among the recent ones."""
    actions.insert(0, action)
    del actions[MAX_RECENT_ACTIONS:]
