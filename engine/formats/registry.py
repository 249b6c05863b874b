"""All readers: mapping files of the person and of the program, and the readers in code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from engine.base.conversation import MAX_MESSAGES
from engine.base.errors import FormatError, NotFound
from engine.base.folders import config_dir
from engine.formats.accounting import account_for
from engine.formats.coded import prepared_records
from engine.formats.coded.agent_sessions import CLINE_HISTORY, OPENCLAW
from engine.formats.coded.chat_logs import CHAT_LOGS, LANGCHAIN
from engine.formats.coded.claude_code import CLAUDE_CODE
from engine.formats.coded.codex import CODEX
from engine.formats.coded.message_lines import MESSAGE_LINES, STREAMS
from engine.formats.coded.swe_agents import MINI_SWE_AGENT, OPENHANDS, SWE_AGENT, SWE_INSTANCES
from engine.formats.coded.table_rows import CONVERSATION_ROWS, ROWS
from engine.formats.coded.task_dialogues import RECLLMSIM, SGD, SHARDED_LOGS, TASKMASTER_CALLS
from engine.formats.coded.trace_platforms import TRACES
from engine.formats.json_values import FAULTS, BadRecord, json_text, reason_of_fault
from engine.formats.leaks import guard
from engine.formats.mappings.mapping import load_mapping
from engine.formats.mappings.toml_reader import SHARED_FIELD, reader_of
from engine.formats.messages.times import with_date
from engine.formats.opening.framing import Frame
from engine.formats.records import Parsed, Reader, Rejected

_MAPPINGS = Path(__file__).parent / "mappings"
"""Folder of the mapping files of the program."""

_MOST_BESIDE = 100_000
"""Most characters of JSON beside wrapped records that the first of their conversations keeps."""

_CODED: tuple[Reader, ...] = (
    SHARDED_LOGS,
    RECLLMSIM,
    SGD,
    TASKMASTER_CALLS,
    prepared_records.gemini_cli_lines(reader_of(load_mapping(_MAPPINGS / "gemini_cli.toml"))),
    prepared_records.copilot_lines(reader_of(load_mapping(_MAPPINGS / "copilot.toml"))),
    prepared_records.tau2_ticks(reader_of(load_mapping(_MAPPINGS / "tau2_simulations.toml"))),
    ROWS,
    CONVERSATION_ROWS,
    CLAUDE_CODE,
    CODEX,
    LANGCHAIN,
    CLINE_HISTORY,
    OPENHANDS,
    SWE_AGENT,
    MINI_SWE_AGENT,
    SWE_INSTANCES,
    OPENCLAW,
    *TRACES,
    *CHAT_LOGS,
    STREAMS,
    MESSAGE_LINES,
)


_ARRANGED: dict[str, Callable[[Reader], Reader]] = {
    "vcon": prepared_records.vcon_with_turns,
    "lm_eval": prepared_records.lm_eval_with_likeliest,
}
"""Names of mapping files whose records are changed before the file reads them, and what changes them."""


def mapping_folder() -> Path:
    """Returns the folder of the person's own mapping files."""
    return config_dir() / "formats"


@cache
def built_in_readers() -> tuple[Reader, ...]:
    """Returns the readers of the program; those that ask for more come first."""
    mapped = [reader_of(load_mapping(file)) for file in sorted(_MAPPINGS.glob("*.toml"))]
    readers = [
        _ARRANGED[reader.name](reader) if reader.name in _ARRANGED else reader for reader in mapped
    ]
    return tuple(sorted((*readers, *_CODED), key=lambda reader: -reader.conditions))


def all_readers() -> tuple[Reader, ...]:
    """Returns the readers in the order of preference: the person's own, those of the program.

    A mapping file of the person that cannot be used is passed over; `unusable_formats` names it.
    """
    own_readers, _ = _own_readers()
    return (*own_readers, *built_in_readers())


def unusable_formats() -> tuple[FormatError, ...]:
    """Returns why mapping files of the person cannot be used."""
    _, errors = _own_readers()
    return errors


def reader_named(name: str) -> Reader:
    """Returns the reader of a format.

    Raises:
        NotFound: There is no reader of this name.
    """
    readers = all_readers()
    for reader in readers:
        if reader.name == name:
            return reader
    names = ", ".join(reader.name for reader in readers)
    refused = "".join(f"{error} " for error in unusable_formats())
    raise NotFound(f"There is no format {name!r}.", f"{refused}Choose one of {names}.")


def is_whole_record(value: Any) -> bool:
    """Returns whether a value is a record of any format but `message_lines`, for which a message within a record looks
    like a record too."""
    readers = (reader for reader in all_readers() if reader.name != MESSAGE_LINES.name)
    return any(recognition(reader, value) for reader in readers)


def recognition(reader: Reader, record: Any) -> str | None:
    """Returns in words why a record looks like a reader's format; None if it does not, or if the reader fails at it."""
    try:
        return reader.recognize(record)
    except FAULTS:
        return None


def _own_readers() -> tuple[tuple[Reader, ...], tuple[FormatError, ...]]:
    """Returns the readers of the person's mapping files, and why others cannot be used."""
    files = sorted(mapping_folder().glob("*.toml"))
    return _load_own_readers(tuple((file, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=1)
def _load_own_readers(
    files: tuple[tuple[Path, int], ...],
) -> tuple[tuple[Reader, ...], tuple[FormatError, ...]]:
    """Returns the readers of the person's mapping files, those that ask for more first, and why others cannot be used;
    read again when one was changed."""
    readers: list[Reader] = []
    errors: list[FormatError] = []
    for file, _ in files:
        try:
            readers.append(reader_of(load_mapping(file)))
        except FormatError as error:
            errors.append(error)
    return tuple(sorted(readers, key=lambda reader: -reader.conditions)), tuple(errors)


def parse_record(reader: Reader, frame: Frame, fallback_id: str) -> Parsed | Rejected:
    """Reads a record with the reader of its format. A record at which the program fails is rejected, with the fault as
    its reason.

    Args:
        fallback_id: The id for a record without one.
    """
    try:
        return _parse(reader, frame, fallback_id)
    except BadRecord as bad:
        return Rejected(frame.number, frame.raw, bad.reason)
    except FAULTS as fault:
        return Rejected(frame.number, frame.raw, reason_of_fault(fault))


def _parse(reader: Reader, frame: Frame, fallback_id: str) -> Parsed:
    """Returns the conversation of a record.

    Raises:
        BadRecord: The record is no conversation, or too long a one.
    """
    outer = frame.outer
    draft = reader.read(frame.value, frame.name or fallback_id, outer and outer.value)
    count = len(draft.conversation.messages)
    if count > MAX_MESSAGES:
        raise BadRecord(f"{count:,} messages, more than the {MAX_MESSAGES:,} of one conversation")
    fields = draft.fields
    if frame.beside and len(json_text(frame.beside)) <= _MOST_BESIDE:
        fields = {SHARED_FIELD: frame.beside, **fields}
    conversation, leaks = guard(draft.conversation, fields, draft.truth_fields)
    account = account_for(frame, conversation, draft)
    for leak in leaks:
        account.hide(leak)
    conversation, unread_date = with_date(conversation)
    if unread_date:
        account.see_date(unread_date)
    return Parsed(frame.number, frame.raw, conversation, leaks, account)


def parse_own_record(
    record: Mapping[str, Any] | Sequence[Any], format: str, fallback_id: str
) -> Parsed | Rejected:
    """Reads a record that this program made, as if it came from a file of that format.

    Raises:
        FormatError: There is no such format.
    """
    raw = json.dumps(record).encode("ascii")
    return parse_record(reader_named(format), Frame(None, raw, json.loads(raw)), fallback_id)
