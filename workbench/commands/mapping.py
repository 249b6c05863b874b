"""`workbench import --map`: says where a file of an unknown format has its messages, line by line, and saves that as a
mapping file."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import asdict
from os import PathLike

from engine.base.conversation import Conversation
from engine.base.errors import FormatError, UnknownFormat, UsageError
from engine.base.text import one_line
from engine.conversations.service.imports import file_of, shares_line
from engine.conversations.service.mapping_draft import Line, MappingDraft, format_name
from engine.conversations.service.mapping_trial import Trial
from engine.formats.records import PLACES
from workbench.narration import print_json, print_text

_MESSAGES_SHOWN = 6
_COLUMNS = 100

_ASK = (
    "Enter takes it; a number changes that line, u undoes, t shows the file to be saved, q leaves: "
)


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


def print_mapping(path: str, *, as_json: bool) -> None:
    """Prints the guess of where a file has its messages, its mapping file, and what is read with it; stores nothing.

    Raises:
        FormatError: Nothing in the file looks like messages.
    """
    draft = MappingDraft.of_file(path)
    name = draft.suggested_name
    if not as_json:
        print_text(_shown(draft))
        print_text(f"\n# The mapping file:\n{draft.toml(name)}\nNothing was stored.")
        return
    trial = draft.try_out()
    print_json(
        {
            "name": name,
            "mapping": draft.toml(name),
            "lines": [asdict(line) for line in draft.lines()],
            "conversations": trial.conversations,
            "messages": trial.messages,
            "quarantined": trial.rejected,
            "doubts": trial.doubts,
            "characters": {place: trial.account.chars.get(place, 0) for place in PLACES},
        }
    )


def ask_for_mapping(path: str) -> str | None:
    """Asks where a file has its messages, until the person takes the mapping, and saves it.

    Returns:
        The name of the new format; None if the person left.

    Raises:
        FormatError: Nothing in the file looks like messages, or the mapping file cannot be written.
    """
    draft = MappingDraft.of_file(path)
    shown = True
    while True:
        if shown:
            print_text(_shown(draft))
        shown = False
        answer = _answer(_ASK)
        if answer is None or answer == "q":
            _leave(draft)
            return None
        if answer == "t":
            print_text("\n" + draft.toml(draft.suggested_name))
        elif answer == "u":
            shown = draft.undo()
            if not shown:
                print_text("No line was changed.")
        elif answer == "":
            if (name := _saved(draft)) is not None:
                return name
        else:
            shown = _change(draft, answer)


def map_command(project: str | PathLike[str], path: str, again: bool = False) -> str:
    """The command that asks where a file has its messages, in words; `again` replaces what was read of it before."""
    words = ["workbench", "import", str(project), path, "--map"]
    return f"To say where its messages are: {shlex.join(words)}" + (" --replace" if again else "")


def with_command(error: UnknownFormat, project: str | PathLike[str]) -> FormatError:
    """The refusal of a file, with the command that asks where it has its messages."""
    path = file_of(error.path)
    return error if path is None else FormatError(error.message, map_command(project, path))


def _saved(draft: MappingDraft) -> str | None:
    """Saves the mapping under a name that is asked for; returns it, or None if it is still to be changed."""
    suggested = draft.suggested_name
    given = _answer(f"Name of the format [{suggested}]: ")
    if given is None:
        return None
    name = format_name(given) if given else suggested
    by_name = False
    if draft.known_as is not None:
        print_text(
            f"Files like this are read as {draft.known_as} without a mapping. It may be used\n"
            f"  1  for this import, and where --format {name} asks for it\n"
            f"  2  for all files that it fits, in place of {draft.known_as}"
        )
        use = _answer("1 or 2 [1]: ")
        if use is None or use not in ("", "1", "2"):
            return None
        by_name = use != "2"
    try:
        file = draft.save(name, by_name)
    except FormatError as error:
        print_text(f"{error.message} {error.hint}")
        return None
    when = f"--format {name} reads files so" if by_name else "Files like this are read so"
    print_text(f"Saved as {file}. {when} from now on.")
    return name


def _leave(draft: MappingDraft) -> None:
    """Offers to keep what was changed."""
    if draft.changes and _answer("Keep the mapping file for later? y or n [n]: ") == "y":
        _saved(draft)
    print_text("Nothing was imported.")


def _change(draft: MappingDraft, answer: str) -> bool:
    """Asks for the new value of a line: one of some choices by its number, or a path. Returns whether it changed."""
    lines = draft.lines()
    if not answer.isdigit() or not 1 <= int(answer) <= len(lines):
        print_text(f"There is no line {answer!r}.")
        return False
    line = lines[int(answer) - 1]
    choices = draft.choices(line.key)
    print_text(f"\n{line.title}: {line.words}. It may be:")
    for number, choice in enumerate(choices, 1):
        print_text(f"  {number:>2}  {choice.words:<32} {one_line(choice.example, 60)}")
    given = _answer("A number, or a path; Enter leaves the line as it is: ")
    if not given:
        return False
    by_number = given.isdigit() and 1 <= int(given) <= len(choices)
    try:
        draft.change(line.key, choices[int(given) - 1].value if by_number else given)
    except FormatError as error:
        print_text(error.message)
        return False
    return True


def _answer(question: str) -> str | None:
    """What the person types; None at the end of the input or after ctrl+c."""
    try:
        return input(question).strip()
    except (EOFError, KeyboardInterrupt):
        print_text("")
        return None


def _shown(draft: MappingDraft) -> str:
    trial = draft.try_out()
    lines = [_line(number, line) for number, line in enumerate(draft.lines(), 1)]
    return "\n".join(["", *lines, "", *_trial_lines(trial)])


def _line(number: int, line: Line) -> str:
    return f"{number:>3}  {line.title:<28} {line.words:<26} {one_line(line.finds, 44)}".rstrip()


def _trial_lines(trial: Trial) -> list[str]:
    lines = [trial.counts, *(f"  ! {doubt}" for doubt in trial.doubts)]
    if trial.account.total:
        lines.append(shares_line(trial.account))
    if trial.remark:
        lines.append(f"  {one_line(trial.remark, _COLUMNS)}")
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
