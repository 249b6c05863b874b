"""All readers: mapping files of the person, of installed packages and of the program, and the readers in code."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.base.errors import FormatError
from engine.base.folders import config_dir
from engine.formats.coded import (
    claude_code,
    cline,
    codex,
    conversation_rows,
    form_runs,
    gemini_cli,
    langchain,
    openclaw,
    openhands,
    recllmsim,
    rows,
    sgd,
    sharded_logs,
    swe_agents,
    taskmaster_calls,
)
from engine.formats.coded.chat_logs import CHAT_LOGS
from engine.formats.coded.model_calls import MODEL_CALLS
from engine.formats.coded.traces.readers import TRACES
from engine.formats.mappings.mapping import load_mapping
from engine.formats.mappings.reading import reader_of
from engine.formats.reader import Reader

PLUGINS = "conversation_workbench.formats"
"""Entry point group of packages that add formats: each entry point is a `Reader` or the path of a mapping file."""

_MAPPINGS = Path(__file__).parent / "mappings"

_CODED: tuple[Reader, ...] = (
    Reader(
        "sharded_logs",
        sharded_logs.recognise,
        sharded_logs.read,
        conditions=2,
        title='logs of "LLMs Get Lost In Multi-Turn Conversation" (Laban et al. 2025)',
    ),
    Reader(
        "recllmsim",
        recllmsim.recognise,
        recllmsim.read,
        conditions=2,
        title="the three studies of RecLLMSim",
    ),
    Reader(
        "sgd",
        sgd.recognise,
        sgd.read,
        frozenset(("actions", "slots", "state")),
        conditions=2,
        title="schema-guided dialogues (Rastogi et al. 2020), also of MultiWOZ 2.2",
        sample="sgd.json",
    ),
    Reader(
        "taskmaster_calls",
        taskmaster_calls.recognise,
        taskmaster_calls.read,
        conditions=5,
        title="dialogues of Taskmaster 4, with calls of an interface",
        sample="taskmaster4.json",
    ),
    gemini_cli.lines_of(reader_of(load_mapping(_MAPPINGS / "gemini_cli.toml"))),
    Reader(
        "rows",
        rows.recognise,
        rows.read,
        arrange=rows.arrange,
        conditions=2,
        title="rows that are a message, or a question with its answer, of a named conversation",
        sample="doc/messages.csv",
    ),
    Reader(
        "conversation_rows",
        conversation_rows.recognise,
        conversation_rows.read,
        arrange=conversation_rows.arrange,
        title="rows that are a conversation: a list of messages, a transcript, or questions with their answers",
    ),
    Reader(
        "claude_code",
        claude_code.recognise,
        claude_code.read,
        arrange=claude_code.arrange,
        conditions=5,
        title="sessions of Claude Code",
        sample="claude_code/tool_call_conversation.jsonl",
    ),
    Reader(
        "codex",
        codex.recognise,
        codex.read,
        arrange=codex.arrange,
        conditions=3,
        title="rollouts of Codex",
        sample="codex_rollout_1.jsonl",
    ),
    Reader(
        "langchain",
        langchain.recognise,
        langchain.read,
        arrange=langchain.arrange,
        conditions=3,
        title="messages of LangChain, states and checkpoints of LangGraph",
        sample="made/langgraph_state.json",
    ),
    Reader(
        "cline_history",
        cline.recognise,
        cline.read,
        conditions=4,
        title="conversation histories of Cline",
    ),
    Reader(
        "openhands",
        openhands.recognise,
        openhands.read,
        arrange=openhands.arrange,
        conditions=4,
        title="trajectories of OpenHands",
        sample="openhands_output.jsonl",
    ),
    Reader(
        "swe_agent",
        swe_agents.recognise_trajectory,
        swe_agents.read,
        conditions=4,
        title="trajectories of SWE-agent",
        sample="sweagent_katy.traj",
    ),
    Reader(
        "mini_swe_agent",
        swe_agents.recognise_mini,
        swe_agents.read,
        conditions=4,
        title="trajectories of mini-SWE-agent",
        sample="minisweagent.traj.json",
    ),
    Reader(
        "swe_instances",
        swe_agents.recognise_instance,
        swe_agents.read,
        conditions=4,
        title="trajectories on instances of SWE-bench, as of SWE-smith and SWE-Gym",
        sample="doc/swesmith_traj.jsonl",
    ),
    Reader(
        "openclaw",
        openclaw.recognise,
        openclaw.read,
        arrange=openclaw.arrange,
        conditions=4,
        title="telemetry of OpenClaw",
        sample="openclaw_telemetry.jsonl",
    ),
    *TRACES,
    *MODEL_CALLS,
    *CHAT_LOGS,
)


def mapping_folder() -> Path:
    """Folder of the person's own mapping files."""
    return config_dir() / "formats"


@cache
def built_in() -> tuple[Reader, ...]:
    """The readers of the program; those that ask for more come first."""
    mapped = [reader_of(load_mapping(file)) for file in sorted(_MAPPINGS.glob("*.toml"))]
    readers = [form_runs.with_files(one) if one.name == "form_filling" else one for one in mapped]
    return tuple(sorted((*readers, *_CODED), key=lambda reader: -reader.conditions))


def all_readers() -> tuple[Reader, ...]:
    """The readers in the order of preference: the person's own, those of packages, those of the program.

    A mapping file of the person and a format of a package that cannot be used are passed over; `unusable` names them.
    """
    return (*_own_now()[0], *_from_packages()[0], *built_in())


def unusable() -> tuple[FormatError, ...]:
    """Why mapping files of the person and formats of packages cannot be used."""
    return (*_own_now()[1], *_from_packages()[1])


def reader_named(name: str) -> Reader:
    """Returns the reader of a format.

    Raises:
        FormatError: There is none.
    """
    known = all_readers()
    for reader in known:
        if reader.name == name:
            return reader
    names = ", ".join(reader.name for reader in known)
    raise FormatError(f"There is no format {name!r}.", f"Choose one of {names}.")


def recognised(record: Any) -> bool:
    """Whether a value is a record of any format."""
    return any(reader.recognise(record) for reader in all_readers())


def _own_now() -> tuple[tuple[Reader, ...], tuple[FormatError, ...]]:
    files = sorted(mapping_folder().glob("*.toml"))
    return _own(tuple((file, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=1)
def _own(
    files: tuple[tuple[Path, int], ...],
) -> tuple[tuple[Reader, ...], tuple[FormatError, ...]]:
    """The readers of the person's mapping files, those that ask for more first, and why others cannot be used; read
    again when one was changed."""
    found: list[Reader] = []
    errors: list[FormatError] = []
    for file, _ in files:
        try:
            found.append(reader_of(load_mapping(file)))
        except FormatError as error:
            errors.append(error)
    return tuple(sorted(found, key=lambda reader: -reader.conditions)), tuple(errors)


@cache
def _from_packages() -> tuple[tuple[Reader, ...], tuple[FormatError, ...]]:
    """The readers of installed packages, and why others cannot be used."""
    readers: list[Reader] = []
    errors: list[FormatError] = []
    for point in metadata.entry_points(group=PLUGINS):
        try:
            found = point.load()
            readers.append(
                found if isinstance(found, Reader) else reader_of(load_mapping(Path(found)))
            )
        except Exception as error:  # noqa: BLE001 -- anything may go wrong in another package
            errors.append(
                FormatError(
                    f"The format {point.name} of an installed package cannot be used: {error}.",
                    "Update or remove the package.",
                )
            )
    return tuple(readers), tuple(errors)
