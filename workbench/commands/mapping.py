"""`workbench import --map`: guesses where a file of an unknown format has its messages, to be edited and saved."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
from os import PathLike
from pathlib import Path

from engine.base.conversation import Conversation
from engine.base.errors import FormatError, UnknownFormat, UsageError
from engine.base.text import one_line
from engine.conversations.service.imports import file_of, shares_line
from engine.conversations.service.mapping_draft import MappingDraft, Trial
from engine.formats.records import PLACES
from workbench.narration import print_text
from workbench.result import WITH_GAPS, Result

_MESSAGES_SHOWN = 6
_COLUMNS = 100

_ASK = "Enter saves it and imports the file; e edits it, g makes another guess, q leaves: "


def file_to_map(arguments: argparse.Namespace) -> str:
    """The file that `--map` is about.

    Raises:
        UsageError: There are several, it is a folder or standard input, or a format was chosen too.
    """
    path: str = arguments.paths[0]
    if len(arguments.paths) > 1:
        raise UsageError(
            f"--map is about one file, and {len(arguments.paths)} paths were given.",
            "Map one of them; then import the others with --format and the name that you gave.",
        )
    if arguments.format is not None:
        raise UsageError(
            "--map makes a format, and --format chooses one.", "Leave out one of them."
        )
    if os.path.isdir(path):
        raise UsageError("--map is about a file, not a folder.", "Name one of the folder's files.")
    if path == "-":
        raise UsageError("--map cannot read standard input.", "Write the records to a file first.")
    return path


def guessed_mapping(path: str) -> Result:
    """The guess of where a file has its messages as a mapping file, and what is read with it; stores nothing.

    Raises:
        FormatError: Nothing in the file looks like messages.
    """
    draft = MappingDraft.of_file(path)
    text = draft.texts[0]
    trial = draft.try_out(text)
    return Result(
        [_shown(draft, text), "\nNothing was stored."],
        {
            "mapping": text,
            "conversations": trial.conversations,
            "messages": trial.messages,
            "quarantined": trial.rejected,
            "doubts": trial.doubts,
            "characters": {place: trial.account.chars.get(place, 0) for place in PLACES},
        },
        WITH_GAPS,
    )


def ask_for_mapping(path: str) -> str | None:
    """Shows the mapping of a file until the person takes it, and saves it.

    Returns:
        The name of the new format; None if the person left.

    Raises:
        FormatError: Nothing in the file looks like messages.
    """
    draft = MappingDraft.of_file(path)
    guess = 0
    text = draft.texts[guess]
    while True:
        print_text(_shown(draft, text))
        answer = _answer(_ASK)
        if answer is None or answer == "q":
            print_text("Nothing was imported.")
            return None
        try:
            if answer == "e":
                text = _edited(text)
            elif answer == "g":
                guess = (guess + 1) % len(draft.texts)
                text = draft.texts[guess]
            elif answer == "":
                name = draft.save(text)
                print_text(f"Saved as format {name}.")
                return name
        except FormatError as error:
            print_text(f"{error.message} {error.hint}")


def map_command(project: str | PathLike[str], path: str, again: bool = False) -> str:
    """The command that asks where a file has its messages, in words; `again` replaces what was read of it before."""
    words = ["workbench", "import", str(project), path, "--map"]
    return f"To say where its messages are: {shlex.join(words)}" + (" --replace" if again else "")


def with_command(error: UnknownFormat, project: str | PathLike[str]) -> FormatError:
    """The refusal of a file, with the command that asks where it has its messages."""
    path = file_of(error.path)
    return error if path is None else FormatError(error.message, map_command(project, path))


def _edited(text: str) -> str:
    """The text as the person left it in the editor of `VISUAL` or `EDITOR`.

    Raises:
        FormatError: The editor cannot be run, or what it wrote is no text.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        file = Path(folder) / "mapping.toml"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), os.fspath(file)], check=True)
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise FormatError(
                f"{editor} did not edit the mapping: {error}.", "Set EDITOR."
            ) from None


def _answer(question: str) -> str | None:
    """What the person types; None at the end of the input or after ctrl+c."""
    try:
        return input(question).strip()
    except (EOFError, KeyboardInterrupt):
        print_text("")
        return None


def _shown(draft: MappingDraft, text: str) -> str:
    return "\n".join(["", text, *_trial_lines(draft.try_out(text))])


def _trial_lines(trial: Trial) -> list[str]:
    lines = [trial.counts, *(f"  ! {doubt}" for doubt in trial.doubts)]
    if trial.account.total:
        lines.append(shares_line(trial.account))
    for conversation in trial.shown:
        lines += _conversation_lines(conversation)
    return lines


def _conversation_lines(conversation: Conversation) -> list[str]:
    messages = conversation.messages
    lines = [f"  == {one_line(conversation.external_id, 60)} =="]
    for message in messages[:_MESSAGES_SHOWN]:
        calls = "".join(f" [calls {call.name}]" for call in message.tool_calls)
        text = one_line(message.content, _COLUMNS - 16)
        lines.append(f"  {message.role:>10}  {text}{calls}")
    if len(messages) > _MESSAGES_SHOWN:
        lines.append(f"  {'':>10}  ... {len(messages) - _MESSAGES_SHOWN:,} more")
    return lines
