"""The modules of form filling: the prompt, reply schema and fallback of each.

A module is one prompt with one kind of reply. A chunk is some top-level labels of a form that are filled together, a
section a part of the form, and a summary one sentence about a top-level label.

Names, replies and fallbacks follow Hakimov et al. (2024), with one correction: their fallback for a repeated question
uses a key that its caller does not read, so the run fails. Here it uses the key that is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from engine.simulate.forms.form import node_at
from engine.simulate.forms.form_scores import Path, fields
from engine.simulate.forms.form_session import (
    TEXT,
    FormSession,
    Module,
    ObjectReply,
    alike,
    dumped,
    groups_schema,
    object_schema,
    one_of,
    pairs_schema,
    section_schema,
    some_of,
)

FORM_CHUNKS, FILL_CHUNK, STOP = "form_chunks", "fill_chunk", "stop"
ASK, VALIDATE = "question_generation", "fill_validation"
EXTRACT, FOLLOW_UP, REPEAT = "information_extraction", "follow_up_question", "repeat_question"
"""The actions that the modules choose from: of the manager, of a filler beside `STOP`, and of the parser."""

OPEN_STATES = ("empty", "partially filled")
"""States in which the manager may work on a chunk."""

MAX_GROUP_LABELS = 5
"""Most labels of a group that a schema allows."""

FALLBACK_GROUP_LABELS = 4
"""Labels of a group that a fallback makes."""

MAX_TARGETS = 8
"""Most fields that one question can name as its targets."""

OPTIONS_MARK = " Your Options are : "
"""Follows the label in a fallback question."""

Dialogue = Sequence[Mapping[str, str]]
"""Questions `{"Assistant"}` and answers `{"User"}`, in turn."""

Content = Mapping[str, Any]
"""A part of a form, or of the state of a run, as JSON values."""

_NEXT = r'\{\s*"next action"\s*:\s*"(?:%s)"\s*\}'
"""Regular expression of a reply that chooses one of several actions."""

_OBJECT = r"\{.*\}"
"""Regular expression of a reply that is any object."""

MANAGER = Module(
    "Dialogue Manager",
    "dialogue-manager",
    rf'\{{\s*"next action"\s*:\s*"(?:{FORM_CHUNKS}|{FILL_CHUNK}|{STOP})"\s*,'
    r'\s*"chunk to work on"\s*:\s*(?:null|".*")\s*\}',
    max_tokens=64,
)
"""Decides what to do next with the whole form."""

GROUPING = Module(
    "question_grouping", "question-grouping", r'\{\s*".*"\s*:\s*\[.*\]\s*\}', max_tokens=320
)
"""Groups labels into chunks."""

GROUPING_VALIDATOR = Module(
    "grouping_validation", "grouping-validator", GROUPING.expression, max_tokens=GROUPING.max_tokens
)
"""Improves a grouping."""

FILLER = Module("chunk_filling", "chunk-filler", _NEXT % f"{ASK}|{VALIDATE}|{STOP}", max_tokens=24)
"""Decides what to do next with a chunk."""

QUESTION = Module(
    "question_generation",
    "question-generator",
    r'\{\s*"question"\s*:\s*".*"\s*,\s*"fields"\s*:\s*\[.+\]\s*\}',
)
"""Asks about the open fields of a chunk."""

PARSER = Module(
    "answer_parsing", "answer-parser", _NEXT % f"{EXTRACT}|{FOLLOW_UP}|{REPEAT}", max_tokens=24
)
"""Decides after an answer how to go on."""

EXTRACTOR = Module("information_extraction", "information-extractor", _OBJECT)
"""Extracts facts from a dialogue."""

FORM_FILLER = Module("form_filling", "form-filler", _OBJECT, max_tokens=512)
"""Fills facts into the fields."""

VALIDATOR = Module("fill_validation", "answer-validator", _OBJECT, max_tokens=512)
"""Corrects the answers of a chunk."""


def _one_text(key: str) -> str:
    """Returns the regular expression of a reply with one text under a key."""
    return rf'\{{\s*"{key}"\s*:\s*".*"\s*\}}'


EXTRACTOR_OF_QUESTIONS = Module(
    "question_extraction", "question-extractor", _one_text("summary"), max_tokens=128
)
"""Says in a sentence what a top-level label asks for."""


FOLLOW_UP_QUESTION = Module(
    "follow_up_question", "follow-up-question", _one_text("question"), max_tokens=128
)
"""Explains what a valid answer is."""

REPEATED_QUESTION = Module(
    "repeat_question", "repeated-question", _one_text("new question"), max_tokens=128
)
"""Asks again after an answer that did not match the question."""


MODULES = (
    MANAGER,
    EXTRACTOR_OF_QUESTIONS,
    GROUPING,
    GROUPING_VALIDATOR,
    FILLER,
    QUESTION,
    PARSER,
    FOLLOW_UP_QUESTION,
    REPEATED_QUESTION,
    EXTRACTOR,
    FORM_FILLER,
    VALIDATOR,
)
"""The modules that may be dummies; all but the user."""


def next_of_manager(session: FormSession, state: Content, offered: Sequence[str]) -> ObjectReply:
    """Asks the manager what to do next; returns `{"next action", "chunk to work on"}`. The chunk may not exist.

    A JSON schema, if the rules have one, allows only the action that the prompt asks for in this state: to split the
    form at the beginning, then to work on one of the chunks `offered`, and to stop when none is left.

    Args:
        state: `ModularRun.manager_view`.
    """
    chunks: Mapping[str, str] = state["chunks"]
    actions = (FORM_CHUNKS, FILL_CHUNK, STOP)
    open_chunks = [name for name, chunk_state in chunks.items() if chunk_state in OPEN_STATES]

    def fits(reply: dict[str, Any]) -> bool:
        """Whether a reply has an action, and the name of a chunk where one is to be filled."""
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
    return session.ask(MANAGER, {"STATE": dumped(state)}, schema, fits, fallback)


def summary_of(session: FormSession, label: str, node: Content) -> ObjectReply:
    """Asks for a sentence about a top-level label; returns `{"summary"}`. The fallback names its children."""
    return session.ask(
        EXTRACTOR_OF_QUESTIONS,
        {"SECTION": dumped({label: node})},
        object_schema({"summary": TEXT}),
        lambda reply: _is_text(reply.get("summary")),
        lambda: {"summary": ", ".join(node)},
    )


def groups_of(session: FormSession, summaries: Mapping[str, str]) -> ObjectReply:
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
        {"SUMMARIES": dumped(summaries)},
        groups_schema(labels, MAX_GROUP_LABELS),
        lambda reply: _is_grouping(reply, summaries),
        fallback,
    )


def better_groups(
    session: FormSession, summaries: Mapping[str, str], groups: Content
) -> ObjectReply:
    """Asks to improve a grouping; returns group -> labels. The fallback is the grouping itself."""
    return session.ask(
        GROUPING_VALIDATOR,
        {"SUMMARIES": dumped(summaries), "GROUPING": dumped(groups)},
        groups_schema(list(summaries), MAX_GROUP_LABELS),
        lambda reply: _is_grouping(reply, summaries),
        lambda: dict(groups),
    )


def next_of_filler(session: FormSession, state: Content, may_ask: bool) -> ObjectReply:
    """Asks the filler of a chunk what to do next; returns `{"next action"}`. The fallback validates if all fields are
    answered.

    A JSON schema, if the rules have one, allows only the actions that fit the state: to ask if a field is open and
    `may_ask` is set, and to validate if a field is answered.

    Args:
        state: `Chunk.filler_view`.
    """
    states = set(state["fields"].values())
    all_answered = states <= {"answered", "validated"}
    actions = [*([ASK] if may_ask else []), *([VALIDATE] if "answered" in states else [])]
    return session.ask(
        FILLER,
        {"STATE": dumped(state)},
        object_schema({"next action": one_of(actions)}),
        lambda reply: reply.get("next action") in (ASK, VALIDATE, STOP),
        lambda: {"next action": VALIDATE if all_answered else ASK},
    )


def question_about(session: FormSession, section: Content) -> ObjectReply:
    """Asks for a question on the open fields of a chunk, with its labels. The fallback is about the first field."""
    labels = list(dict.fromkeys([*section, *(field.path[-1] for field in fields(section))]))

    def fallback() -> dict[str, Any]:
        """Asks for the first field without an answer by its label and options."""
        unanswered = next((field for field in fields(section) if field.answer is None), None)
        if unanswered is None:
            return {"question": labels[0], "fields": labels[:1]}  # nothing is open
        label = unanswered.path[-1]
        options = f"{OPTIONS_MARK}{list(unanswered.options)}" if unanswered.options else ""
        return {"question": f"{label}{options}", "fields": [label]}

    return session.ask(
        QUESTION,
        {"FORM": dumped(section)},
        object_schema({"question": TEXT, "fields": some_of(labels, MAX_TARGETS)}),
        lambda reply: _is_text(reply.get("question")) and _are_texts(reply.get("fields")),
        fallback,
    )


def next_after_answer(
    session: FormSession, dialogue: Dialogue, targets: Sequence[str], section: Content
) -> ObjectReply:
    """Asks how to go on after an answer; returns `{"next action"}`. The fallback extracts the information.

    After as many follow-up questions as the rules allow, the information is extracted without a call.
    """
    values = _dialogue_values(dialogue, targets, section)
    return session.ask(
        PARSER,
        values,
        object_schema({"next action": one_of((EXTRACT, FOLLOW_UP, REPEAT))}),
        lambda reply: reply.get("next action") in (EXTRACT, FOLLOW_UP, REPEAT),
        lambda: {"next action": EXTRACT},
        # The dialogue has two lines a turn, and its first turn is no follow-up.
        at_once=len(dialogue) // 2 > session.rules.follow_ups,
    )


def follow_up(
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


def repeated_question(
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


def information_in(session: FormSession, dialogue: Dialogue, section: Content) -> ObjectReply:
    """Asks for the facts in a dialogue; returns texts by path of a field. The fallback is the last answer."""
    return session.ask(
        EXTRACTOR,
        {"DIALOGUE": dumped(dialogue)},
        pairs_schema([path_text(field.path) for field in fields(section)]),
        lambda reply: all(isinstance(value, str) for value in reply.values()),
        lambda: {_last_question(dialogue): dialogue[-1]["User"]},
    )


def filled_section(
    session: FormSession, section: Content, information: Mapping[str, str], targets: Sequence[str]
) -> ObjectReply:
    """Asks for the section with answers filled in. The fallback copies information to the fields of the same name."""
    values = {
        "FORM": dumped(section),
        "INFORMATION": dumped(information),
        "FIELDS": dumped(targets),
    }
    return session.ask(
        FORM_FILLER,
        values,
        section_schema(section),
        lambda reply: alike(reply, section),
        lambda: _with_information(section, information),
    )


def validated_section(
    session: FormSession, section: Content, information: Mapping[str, str]
) -> ObjectReply:
    """Asks for the section with corrected answers. The fallback is the section itself."""
    return session.ask(
        VALIDATOR,
        {"FORM": dumped(section), "INFORMATION": dumped(information)},
        section_schema(section),
        lambda reply: alike(reply, section),
        lambda: dict(section),
    )


def path_text(path: Path) -> str:
    """Formats a path as one text."""
    return " / ".join(path)


def _dialogue_values(
    dialogue: Dialogue, targets: Sequence[str], section: Content
) -> dict[str, str]:
    """Returns the values of the prompts that are about a dialogue."""
    return {"DIALOGUE": dumped(dialogue), "FIELDS": dumped(targets), "FORM": dumped(section)}


def _is_grouping(reply: Content, summaries: Mapping[str, str]) -> bool:
    """Whether every member of every group is a label or a summary."""
    known = {*summaries, *summaries.values()}
    return bool(reply) and all(
        _are_texts(members) and known.issuperset(members) for members in reply.values()
    )


def _is_text(value: Any) -> bool:
    """Whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    """Whether a value is a list of texts that is not empty."""
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
        named_paths = (
            field.path
            for field in fields(copy)
            if path_text(field.path) == name or (field.path[-1] == name and field.answer is None)
        )
        path = next(named_paths, None)
        node = None if path is None else node_at(copy, path)
        if node is not None:
            node["answer"] = value
    return copy
