"""`workbench import --map`: says where a file of an unknown format has its messages, line by line, and saves that as a
mapping file."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.conversation import Conversation
from engine.errors import FormatError
from engine.number_format import counted
from engine.services.import_accounts import shares_line
from engine.services.mapping_draft import Line, MappingDraft, Trial, format_name
from engine.text import one_line
from workbench.commands.narration import print_text

_MESSAGES_SHOWN = 6
_COLUMNS = 100

_ASK = "Enter takes it, a number changes that line, t shows the file to be saved, q leaves: "


def ask_for_mapping(path: str) -> str | None:
    """Asks where a file has its messages, until the person takes the mapping, and saves it.

    Returns:
        The name of the new format; None if the person left.

    Raises:
        FormatError: Nothing in the file looks like messages, or the mapping file cannot be written.
    """
    label = Path(path).name
    draft = MappingDraft.of_file(path)
    if not sys.stdin.isatty():
        print_text(_shown(draft))
        print_text(
            f"\n# The mapping file:\n{draft.toml(draft.suggested_name)}\nNothing was stored."
        )
        return None
    while True:
        print_text(_shown(draft))
        answer = _answer(_ASK)
        if answer is None or answer == "q":
            return None
        if answer == "t":
            print_text("\n" + draft.toml(draft.suggested_name))
        elif answer == "":
            return _saved(draft, label)
        else:
            _change(draft, answer)


def _saved(draft: MappingDraft, label: str) -> str | None:
    suggested = draft.suggested_name
    name = _answer(f"Name of the format [{suggested}]: ")
    if name is None:
        return None
    name = format_name(name) if name else suggested
    print_text(f"Saved as {draft.save(name)}. Files like {label} are read so from now on.")
    return name


def _change(draft: MappingDraft, answer: str) -> None:
    """Asks for the new value of a line: one of some choices by its number, or a path."""
    lines = draft.lines()
    if not answer.isdigit() or not 1 <= int(answer) <= len(lines):
        print_text(f"There is no line {answer!r}.")
        return
    line = lines[int(answer) - 1]
    choices = draft.choices(line.key)
    print_text(f"\n{line.title} {line.value or 'nothing'}. It may be:")
    for number, choice in enumerate(choices, 1):
        print_text(f"  {number}  {choice.value or '-':<32} {one_line(choice.example, 60)}")
    given = _answer("A number, or a path: ")
    if not given:
        return
    by_number = given.isdigit() and 1 <= int(given) <= len(choices)
    try:
        draft.change(line.key, choices[int(given) - 1].value if by_number else given)
    except FormatError as error:
        print_text(error.message)


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
    return f"{number:>3}  {line.title:<28} {line.value or '-':<26} {one_line(line.finds, 44)}"


def _trial_lines(trial: Trial) -> list[str]:
    read = f"{counted(trial.conversations, 'conversation')}, {counted(trial.messages, 'message')}"
    if trial.rejected:
        read += f"; {trial.rejected:,} not read: {trial.reason}"
    lines = [f"Read so: {read}"]
    if trial.account.total:
        lines.append(shares_line(trial.account))
    for conversation in trial.shown:
        lines += _conversation_lines(conversation)
    return lines


def _conversation_lines(conversation: Conversation) -> list[str]:
    messages = conversation.messages
    lines = [f"  == {conversation.external_id} =="]
    for message in messages[:_MESSAGES_SHOWN]:
        calls = "".join(f" [calls {call.name}]" for call in message.tool_calls)
        text = one_line(message.content, _COLUMNS - 16)
        lines.append(f"  {message.role:>10}  {text}{calls}")
    if len(messages) > _MESSAGES_SHOWN:
        lines.append(f"  {'':>10}  ... {len(messages) - _MESSAGES_SHOWN:,} more")
    return lines
