"""Filling a form by modules: a manager over chunks, a filler over the fields of one chunk, a parser over one answer.

A module is one prompt with one kind of reply. A chunk is some top-level labels of the form that are filled together, a
section a part of the form, and a summary one sentence about a top-level label.

Names, replies and fallbacks of the modules follow Hakimov et al. (2024), with one correction: their fallback for a
repeated question uses a key that its caller does not read, so the run fails. Here it uses the key that is read.

The flow is theirs, including its quirks:

- a chunk whose fields are answered and not validated counts as validated for the manager, whose words for a chunk the
  fillers never use;
- a field without required parts is answered as soon as anything was asked about its chunk;
- a label that the grouping leaves out is never asked for.

Three things are added, or runs of weak models would not end:

- turns, decisions and further questions on one question are limited;
- a filler that asks where nothing is open validates instead;
- it asks no more questions in one go than its chunk has fields, so that no chunk takes the turns of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from engine.model.chat import Call, Completion
from engine.simulate.forms.form import copy_answers, field_nodes
from engine.simulate.forms.form_scores import LabelPath, fields_of_form
from engine.simulate.forms.form_session import (
    TEXT,
    FormSession,
    Module,
    ObjectReply,
    fits_section,
    groups_schema,
    object_schema,
    one_of,
    pairs_schema,
    section_schema,
    some_of,
    to_json_text,
)
from engine.simulate.play import RunOver

FORM_CHUNKS, FILL_CHUNK, STOP = "form_chunks", "fill_chunk", "stop"
"""The actions that the manager chooses from."""

ASK, VALIDATE = "question_generation", "fill_validation"
"""The actions that a filler chooses from, beside `STOP`."""

EXTRACT, FOLLOW_UP, REPEAT = "information_extraction", "follow_up_question", "repeat_question"
"""The actions that the parser chooses from."""

OPEN_STATES = ("empty", "partially filled")
"""States in which the manager may work on a chunk."""

MAX_GROUP_LABELS = 5
"""Most labels of a group that a schema allows."""

FALLBACK_GROUP_LABELS = 4

MAX_TARGETS = 8
"""Most fields that one question can name as its targets."""

OPTIONS_MARK = " Your Options are : "
"""Follows the label in a fallback question."""

Dialogue = Sequence[Mapping[str, str]]
"""Questions `{"Assistant"}` and answers `{"User"}`, in turn."""

Content = Mapping[str, Any]
"""A part of a form, or of the state of a run, as JSON values."""

MAX_RECENT_ACTIONS = 6
"""Most actions that a state remembers, newest first."""

DECISIONS_PER_TURN = 4
"""A run ends after `DECISIONS_PER_TURN * (most turns + 1)` decisions of manager and fillers."""

Filling = Generator[Call, Completion, None]
"""A part of a run that yields calls of a model and returns nothing."""

MANAGER = Module("Dialogue Manager", "dialogue-manager", max_tokens=64)
"""Decides what to do next with the whole form."""

EXTRACTOR_OF_QUESTIONS = Module("question_extraction", "question-extractor", max_tokens=128)
"""Says in a sentence what a top-level label asks for."""

GROUPING = Module("question_grouping", "question-grouping", max_tokens=320)
"""Groups labels into chunks."""

GROUPING_VALIDATOR = Module("grouping_validation", "grouping-validator", max_tokens=320)
"""Improves a grouping."""

FILLER = Module("chunk_filling", "chunk-filler", max_tokens=24)
"""Decides what to do next with a chunk."""

QUESTION = Module("question_generation", "question-generator")
"""Asks about the open fields of a chunk."""

PARSER = Module("answer_parsing", "answer-parser", max_tokens=24)
"""Decides after an answer how to go on."""

FOLLOW_UP_QUESTION = Module("follow_up_question", "follow-up-question", max_tokens=128)
"""Explains what a valid answer is."""

REPEATED_QUESTION = Module("repeat_question", "repeated-question", max_tokens=128)
"""Asks again after an answer that did not match the question."""

EXTRACTOR = Module("information_extraction", "information-extractor")
"""Extracts facts from a dialogue."""

FORM_FILLER = Module("form_filling", "form-filler", max_tokens=512)
"""Fills facts into the fields."""

VALIDATOR = Module("fill_validation", "answer-validator", max_tokens=512)
"""Corrects the answers of a chunk."""


def ask_manager(session: FormSession, state: Content, offered: Sequence[str]) -> ObjectReply:
    """Asks the manager what to do next; returns `{"next action", "chunk to work on"}`. The chunk may not exist.

    The schema allows only the action that the prompt asks for in this state: to split the form at the beginning, then
    to work on one of the chunks `offered`, and to stop when none is left.

    Args:
        state: `ModularRun.manager_view`.
    """
    chunks: Mapping[str, str] = state["chunks"]
    actions = (FORM_CHUNKS, FILL_CHUNK, STOP)
    open_chunks = [name for name, chunk_state in chunks.items() if chunk_state in OPEN_STATES]

    def fits(reply: dict[str, Any]) -> bool:
        """Returns whether a reply has an action, and the name of a chunk where one is to be filled."""
        named = isinstance(reply.get("chunk to work on"), str)
        return reply.get("next action") in actions and (named or reply["next action"] != FILL_CHUNK)

    def fallback() -> dict[str, Any]:
        """Splits the form at first, then fills the first open chunk, and stops when all are validated."""
        if not state["last action"]:
            return {"next action": FORM_CHUNKS, "chunk to work on": None}
        if all(chunk_state == "validated" for chunk_state in chunks.values()):
            return {"next action": STOP, "chunk to work on": None}
        return {"next action": FILL_CHUNK, "chunk to work on": next(iter(open_chunks or chunks))}

    without_open_chunk = STOP if chunks else FORM_CHUNKS
    action = FILL_CHUNK if offered else without_open_chunk
    names: Sequence[str | None] = offered or [None]
    schema = object_schema({"next action": one_of([action]), "chunk to work on": one_of(names)})
    return session.ask(MANAGER, {"STATE": to_json_text(state)}, schema, fits, fallback)


def ask_for_summary(session: FormSession, label: str, node: Content) -> ObjectReply:
    """Asks for a sentence about a top-level label; returns `{"summary"}`. The fallback names its children."""
    return session.ask(
        EXTRACTOR_OF_QUESTIONS,
        {"SECTION": to_json_text({label: node})},
        object_schema({"summary": TEXT}),
        lambda reply: _is_text(reply.get("summary")),
        lambda: {"summary": ", ".join(node)},
    )


def ask_for_groups(session: FormSession, summaries: Mapping[str, str]) -> ObjectReply:
    """Asks for groups of labels; returns group -> labels. The fallback makes groups of four."""
    labels = list(summaries)

    def fallback() -> dict[str, Any]:
        """Groups the labels in their order."""
        starts = range(0, len(labels), FALLBACK_GROUP_LABELS)
        return {
            f"Group {number}": labels[start : start + FALLBACK_GROUP_LABELS]
            for number, start in enumerate(starts, 1)
        }

    return session.ask(
        GROUPING,
        {"SUMMARIES": to_json_text(summaries)},
        groups_schema(labels, MAX_GROUP_LABELS),
        lambda reply: _is_grouping(reply, summaries),
        fallback,
    )


def ask_for_better_groups(
    session: FormSession, summaries: Mapping[str, str], groups: Content
) -> ObjectReply:
    """Asks to improve a grouping; returns group -> labels. The fallback is the grouping itself."""
    return session.ask(
        GROUPING_VALIDATOR,
        {"SUMMARIES": to_json_text(summaries), "GROUPING": to_json_text(groups)},
        groups_schema(list(summaries), MAX_GROUP_LABELS),
        lambda reply: _is_grouping(reply, summaries),
        lambda: dict(groups),
    )


def ask_filler(session: FormSession, state: Content, may_ask: bool) -> ObjectReply:
    """Asks the filler of a chunk what to do next; returns `{"next action"}`. The fallback validates if all fields are
    answered.

    The schema allows only the actions that fit the state: to ask if `may_ask` is set, and to validate if a field is
    answered.

    Args:
        state: `Chunk.filler_view`.
    """
    states = set(state["fields"].values())
    all_answered = states <= {"answered", "validated"}
    actions = [*([ASK] if may_ask else []), *([VALIDATE] if "answered" in states else [])]
    return session.ask(
        FILLER,
        {"STATE": to_json_text(state)},
        object_schema({"next action": one_of(actions)}),
        lambda reply: reply.get("next action") in (ASK, VALIDATE, STOP),
        lambda: {"next action": VALIDATE if all_answered else ASK},
    )


def ask_for_question(session: FormSession, section: Content) -> ObjectReply:
    """Asks for a question on the open fields of a chunk, with its labels. The fallback is about the first field."""
    labels = list(dict.fromkeys([*section, *(field.path[-1] for field in fields_of_form(section))]))

    def fallback() -> dict[str, Any]:
        """Asks for the first field without an answer by its label and options."""
        unanswered = next(
            (field for field in fields_of_form(section) if field.answer is None), None
        )
        if unanswered is None:
            return {"question": labels[0], "fields": labels[:1]}  # nothing is open
        label = unanswered.path[-1]
        options = f"{OPTIONS_MARK}{list(unanswered.options)}" if unanswered.options else ""
        return {"question": f"{label}{options}", "fields": [label]}

    return session.ask(
        QUESTION,
        {"FORM": to_json_text(section)},
        object_schema({"question": TEXT, "fields": some_of(labels, MAX_TARGETS)}),
        lambda reply: _is_text(reply.get("question")) and _are_texts(reply.get("fields")),
        fallback,
    )


def ask_parser(
    session: FormSession, dialogue: Dialogue, targets: Sequence[str], section: Content
) -> ObjectReply:
    """Asks how to go on after an answer; returns `{"next action"}`. The fallback extracts the information.

    After as many follow-up questions as the rules allow, the information is extracted without a call.
    """
    extraction = {"next action": EXTRACT}
    # The dialogue has two lines a turn, and its first turn is no follow-up.
    if len(dialogue) // 2 > session.rules.follow_ups:
        return session.fall_back(PARSER, extraction)
    return (
        yield from session.ask(
            PARSER,
            _dialogue_values(dialogue, targets, section),
            object_schema({"next action": one_of((EXTRACT, FOLLOW_UP, REPEAT))}),
            lambda reply: reply.get("next action") in (EXTRACT, FOLLOW_UP, REPEAT),
            lambda: extraction,
        )
    )


def ask_for_follow_up(
    session: FormSession, dialogue: Dialogue, targets: Sequence[str], section: Content
) -> ObjectReply:
    """Asks for a question that explains what a valid answer is; returns `{"question"}`; fallback: the last question."""
    values = _dialogue_values(dialogue, targets, section)
    return session.ask(
        FOLLOW_UP_QUESTION,
        values,
        object_schema({"question": TEXT}),
        lambda reply: _is_text(reply.get("question")),
        lambda: {"question": _last_question(dialogue)},
    )


def ask_for_repetition(
    session: FormSession, dialogue: Dialogue, targets: Sequence[str], section: Content
) -> ObjectReply:
    """Asks for the question again with what was wrong in the answer; returns `{"new question"}`."""
    values = _dialogue_values(dialogue, targets, section)
    return session.ask(
        REPEATED_QUESTION,
        values,
        object_schema({"new question": TEXT}),
        lambda reply: _is_text(reply.get("new question")),
        lambda: {
            "new question": f"Your answer did not match the question. {_last_question(dialogue)}"
        },
    )


def extract_information(session: FormSession, dialogue: Dialogue, section: Content) -> ObjectReply:
    """Asks for the facts in a dialogue; returns texts by path of a field. The fallback is the last answer."""
    return session.ask(
        EXTRACTOR,
        {"DIALOGUE": to_json_text(dialogue)},
        pairs_schema([path_text(field.path) for field in fields_of_form(section)]),
        lambda reply: all(isinstance(value, str) for value in reply.values()),
        lambda: {_last_question(dialogue): dialogue[-1]["User"]},
    )


def fill_section(
    session: FormSession, section: Content, information: Mapping[str, str], targets: Sequence[str]
) -> ObjectReply:
    """Asks for the section with answers filled in. The fallback copies information to the fields of the same name."""
    values = {
        "FORM": to_json_text(section),
        "INFORMATION": to_json_text(information),
        "FIELDS": to_json_text(targets),
    }
    return session.ask(
        FORM_FILLER,
        values,
        section_schema(section),
        lambda reply: fits_section(reply, section),
        lambda: _with_information(section, information),
    )


def validate_section(
    session: FormSession, section: Content, information: Mapping[str, str]
) -> ObjectReply:
    """Asks for the section with corrected answers. The fallback is the section itself."""
    return session.ask(
        VALIDATOR,
        {"FORM": to_json_text(section), "INFORMATION": to_json_text(information)},
        section_schema(section),
        lambda reply: fits_section(reply, section),
        lambda: dict(section),
    )


def path_text(path: LabelPath) -> str:
    """Formats a path as one text."""
    return " / ".join(path)


def _dialogue_values(
    dialogue: Dialogue, targets: Sequence[str], section: Content
) -> dict[str, str]:
    """Returns the values of the prompts that are about a dialogue."""
    return {
        "DIALOGUE": to_json_text(dialogue),
        "FIELDS": to_json_text(targets),
        "FORM": to_json_text(section),
    }


def _is_grouping(reply: Content, summaries: Mapping[str, str]) -> bool:
    """Returns whether every member of every group is a label or a summary."""
    known = {*summaries, *summaries.values()}
    return bool(reply) and all(
        _are_texts(members) and known.issuperset(members) for members in reply.values()
    )


def _is_text(value: Any) -> bool:
    """Returns whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    """Returns whether a value is a list of texts that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _last_question(dialogue: Dialogue) -> str:
    """Returns the last question of a dialogue."""
    return next(line["Assistant"] for line in reversed(dialogue) if "Assistant" in line)


def _with_information(section: Content, information: Mapping[str, str]) -> dict[str, Any]:
    """Returns the section with information copied to fields; a key is a whole path or the label of an open field."""
    copy = deepcopy(dict(section))
    for key, value in information.items():
        # The key may be a fallback question: a label with its options.
        name, _, _ = key.partition(OPTIONS_MARK)
        for form_field, node in zip(fields_of_form(copy), field_nodes(copy), strict=True):
            is_open_label = form_field.path[-1] == name and form_field.answer is None
            if is_open_label or path_text(form_field.path) == name:
                node["answer"] = value
                break
    return copy


# The run


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
        session: Asks the modules and the user, and records their replies.
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
                reply = yield from ask_manager(
                    self.session, self.manager_view, self._offered_chunks()
                )
                action, name = reply["next action"], str(reply.get("chunk to work on"))
                if action == FILL_CHUNK and name not in self.chunks:
                    if self.chunks:
                        return "unknown chunk"
                    # Nothing can be filled before the form is split.
                    action = FORM_CHUNKS
                _remember(self.last_action, action)
                if action == STOP:
                    return "stop"
                if action == FORM_CHUNKS:
                    yield from self._form_chunks()
                else:
                    yield from self._fill_chunk(self.chunks[name])
                self.states = {name: chunk.manager_state for name, chunk in self.chunks.items()}
        except RunOver as over:
            return over.reason

    def _offered_chunks(self) -> list[str]:
        """Returns the open chunks with the fewest visits, so that each has its turn."""
        open_chunks = [name for name, state in self.states.items() if state in OPEN_STATES]
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
                reply = yield from ask_for_summary(self.session, label, node)
                summaries[label] = reply["summary"]
        groups: list[tuple[str, list[str]]] = []
        labels = list(summaries)
        size = self.session.rules.grouping_size
        for start in range(0, len(labels), size):
            batch = {label: summaries[label] for label in labels[start : start + size]}
            first_groups = yield from ask_for_groups(self.session, batch)
            last_groups = yield from ask_for_better_groups(self.session, batch, first_groups)
            # A module may name a member by its label or by its summary.
            label_of = {summary: label for label, summary in batch.items()}
            for name, members in last_groups.items():
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
            1 for label in chunk.states for _ in fields_of_form(self.content[label], (label,))
        )
        questions_left = max(field_count, 1)
        while any(state != "validated" for state in chunk.states.values()):
            can_validate = "answered" in chunk.states.values()
            open_labels = [label for label, state in chunk.states.items() if _is_open(state)]
            if not can_validate and questions_left <= 0:
                break
            self._count_decision()
            may_ask = bool(open_labels) and questions_left > 0
            reply = yield from ask_filler(self.session, chunk.filler_view, may_ask)
            action = reply["next action"]
            if action == ASK and not may_ask:
                action = VALIDATE
            _remember(chunk.last_action, action)
            if action == STOP:
                return
            if action == ASK:
                questions_left -= 1
                yield from self._ask(chunk, open_labels)
            else:
                yield from self._validate(chunk)
        _remember(chunk.last_action, STOP)

    def _ask(self, chunk: Chunk, open_labels: Sequence[str]) -> Filling:
        """Asks the user about open labels of a chunk, with follow-ups, and fills in what the answers say."""
        session = self.session
        section = {label: self.content[label] for label in open_labels}
        reply = yield from ask_for_question(session, section)
        targets = list(dict.fromkeys(reply["fields"]))
        dialogue: list[dict[str, str]] = []
        yield from self._put_question(chunk, reply["question"], dialogue)
        while True:
            reply = yield from ask_parser(session, dialogue, targets, section)
            if reply["next action"] == EXTRACT:
                break
            if reply["next action"] == FOLLOW_UP:
                reply = yield from ask_for_follow_up(session, dialogue, targets, section)
                yield from self._put_question(chunk, reply["question"], dialogue)
            else:
                reply = yield from ask_for_repetition(session, dialogue, targets, section)
                yield from self._put_question(chunk, reply["new question"], dialogue)
        facts = yield from extract_information(session, dialogue, section)
        chunk.information |= facts
        filled = yield from fill_section(session, section, facts, targets)
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
        corrected = yield from validate_section(self.session, section, chunk.information)
        copy_answers(corrected, self.content)
        for label, state in chunk.states.items():
            if state == "answered":
                chunk.states[label] = "validated"


def _is_open(state: str) -> bool:
    """Returns whether something may still be asked about a label in this state."""
    return state not in ("answered", "validated")


def _state_of(node: Mapping[str, Any]) -> str:
    """Returns `answered` if all required fields have an answer, also if there are none."""
    required = [node_field for node_field in fields_of_form(node) if node_field.required]
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
