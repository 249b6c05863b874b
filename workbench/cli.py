"""The command line: reads the arguments, runs the command, and prints its result or its error.

The commands are listed in `workbench.command_table`; their functions are in `workbench.commands`. The module of a
command is imported only when the command is named: `workbench --help` needs only the standard library.

Exit codes: 0 done, 1 failed, 2 usage, 3 done with items not scored or quarantined, 130 cancelled.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

from engine.base import network_guard
from engine.base.conversation import without_surrogates
from engine.base.errors import Cancelled, OutputLost, UsageError, WorkbenchError
from engine.base.folders import version
from engine.base.text import as_json, message_safe
from workbench.command_result import EXIT_DONE, CommandResult, exit_code
from workbench.command_table import COMMANDS, GROUPS, Command
from workbench.surroundings import Output, checked_streams, like_ctrl_c, on_terminal

DESCRIPTION = """\
Offline terminal workbench for conversations between users and LLM systems: what users wanted, whether
conversations ended, and how sure the model was. `workbench PROJECT` opens a project. Nothing leaves this machine
unless you name an endpoint or ask a hub; with --offline, not even then."""
"""The beginning of `workbench --help`."""

EPILOG = """\
exit codes: 0 done · 1 failed · 2 usage · 3 done, with items not scored or quarantined · 130 cancelled
Results go to standard output, progress and notes to standard error; every command takes --json.
With --json the last line of standard error is the error: {"error": ..., "hint": ..., "exit_code": ..., "code": ...}.
`workbench help CODE` explains the code of an error, `workbench help WORD` a word of the glossary."""

MAIN_PATH = """\
Conversation Workbench: what users wanted, whether conversations ended, and how sure the model was.

  workbench demo                            build a sample project and look at it
  workbench open logs.jsonl                 read, score and group your own conversations, then look at them

The same step by step:
  workbench import mine.wb logs.jsonl       read conversations into a project
  workbench run complete mine.wb            score how likely each conversation has ended
  workbench run cluster mine.wb             group conversations by what users wanted
  workbench mine.wb                         look at the project in the terminal

`workbench help` lists every command, `workbench help COMMAND` explains one;
`workbench help topics` lists what else is explained: pages, words, error codes."""
"""The text that is printed where no command is named and no screen can be drawn."""

FILTER_OPTIONS = ("--filter", "--a", "--b")
"""Options whose value is a filter."""

_FIRST_WORDS = tuple(dict.fromkeys(command.words.split()[0] for command in COMMANDS))
"""The words that can follow `workbench`: commands, and groups of commands."""

_OFFLINE_HELP = "use no network, not even for endpoints and hubs that you named"

_GLOBAL_OPTIONS = ("-h", "--help", "--version", network_guard.FLAG)
"""Options that are allowed before a command, or without one."""

_DATA_COMMANDS = ("export", "watch", "prompts")
"""Commands whose output is for programs even without `--json`."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """What one call of the program asks for.

    Attributes:
        words: The arguments without a leading `--offline`; `help COMMAND` became `COMMAND --help`.
        topic: The words that `help` has to explain; empty for any other command.
        offline: Whether `--offline` stands before the command.
        json: Whether results and errors are printed as JSON.
    """

    words: list[str]
    topic: list[str]
    offline: bool
    json: bool

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Invocation:
        """Reads the arguments that follow `workbench`."""
        offline = arguments[:1] == [network_guard.FLAG]
        words = list(arguments[1:] if offline else arguments)
        topic = words[1:] if words[:1] == ["help"] else []
        topic.sort(key=lambda word: word.startswith("-"))  # `help --json recall`
        if words[:1] == ["help"] and (
            not topic or topic[0].startswith("-") or topic[0] in _FIRST_WORDS
        ):
            words = [*topic, "--help"]  # `_run` then prints what else is known of the topic
        return cls(words, topic, offline, "--json" in words)


class Parser(argparse.ArgumentParser):
    """A parser that declares the options of its command only when they are needed."""

    def __init__(self, *args: Any, command: Command | None = None, **settings: Any) -> None:
        """Declares no options; `command` is the command to parse, None for a parser that only selects a command."""
        super().__init__(*args, **settings)
        self._command_to_declare = command  # None once its options are declared

    def declare(self) -> None:
        """Imports the module of the command and declares its options, the first time it is called."""
        command, self._command_to_declare = self._command_to_declare, None
        if command is None:
            return
        name, function = command.run.split(":")
        module = import_module(f"workbench.commands.{name}")
        self.set_defaults(run=getattr(module, function))
        self.add_argument("--json", action="store_true", help="print the result as JSON")
        # without a default, which would override `--offline` before the command
        self.add_argument(
            network_guard.FLAG, action="store_true", default=argparse.SUPPRESS, help=_OFFLINE_HELP
        )
        for declared in getattr(module, function).__dict__.get("arguments", ()):
            declared.add_to(self)
        for action in self._actions:
            if action.dest == "project" and not action.help:
                action.help = "the project file"

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Returns the value of an argument; argparse makes an empty list of one that is only `--`."""
        if arg_strings == ["--"] and action.nargs not in ("?", "*"):
            name = "/".join(action.option_strings) or action.metavar or action.dest
            self.error(f"argument {name}: it must not be `--`")
        return super()._get_values(action, arg_strings)

    def with_commands(self) -> Iterator[Parser]:
        """Yields this parser and the parsers of all commands below it, with their options declared."""
        self.declare()
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    yield from parser.with_commands()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Declares the options, then parses as `argparse` does.

        Raises:
            UsageError: An argument is not known. The hint is the usage line of the command; that of argparse would be
                the usage line of all commands.
        """
        self.declare()
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        """Raises a message of argparse as UsageError, with the usage line as its hint."""
        raise UsageError(
            f"{self.prog.partition(' ')[2]}: {message}".removeprefix(": "),
            self.format_usage().strip(),
        )


def build_parser(first: str | None = None) -> Parser:
    """Returns the parser of all commands, or only of those that begin with the word `first`, which takes less time."""
    parser = Parser(
        prog="workbench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version and what it runs on, and exit"
    )
    parser.add_argument(network_guard.FLAG, action="store_true", help=_OFFLINE_HELP)
    top = parser.add_subparsers(dest="command", metavar="COMMAND")
    groups: dict[str, argparse._SubParsersAction[Parser]] = {}
    for command in COMMANDS:
        word, _, second = command.words.partition(" ")
        if first not in (None, word):
            continue
        parsers = top
        if second:  # a command of a group, such as `goals split`
            if word not in groups:
                group = GROUPS[word]
                group_parser = top.add_parser(word, help=group.help, description=group.description)
                groups[word] = group_parser.add_subparsers(
                    dest="subcommand", metavar=group.metavar, required=True
                )
            parsers = groups[word]
        parsers.add_parser(
            second or word, help=command.help, description=command.help, command=command
        )
    return parser


def _with_joined_filters(words: Sequence[str]) -> list[str]:
    """Returns the arguments with each filter joined to its option by `=`.

    Without that, argparse takes a filter that begins with a minus for an option.
    """
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in FILTER_OPTIONS:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _with_command(words: list[str]) -> list[str]:
    """Returns the arguments with the command that a person may leave out.

    That is `open` before a project or before options of `open`, and the default of a group before its project.
    Without arguments it is `open` on a terminal, and elsewhere none: then `main` prints how to begin.

    Raises:
        UsageError: The first word is neither a command nor a project, or the second is no command of its group.
    """
    if not words:
        return ["open"] if on_terminal() else []
    first, *rest = words
    if first.startswith("-"):
        if any(option.startswith(first) for option in _GLOBAL_OPTIONS):
            return words
        # a command that follows shows that the option belongs behind it
        next_word = next((word for word in rest if not word.startswith("-")), "")
        if next_word in _FIRST_WORDS and not os.path.exists(next_word):
            raise UsageError(
                f"The option {first} stands before the command.",
                f"The options of a command follow it; `workbench help {next_word}` lists them.",
            )
        return ["open", *words]
    if first not in _FIRST_WORDS:
        if not _may_be_project(first):
            _refuse_unknown(first, "", _FIRST_WORDS, rest)
        return ["open", *words]
    return [first, *_with_subcommand(first, rest)] if first in GROUPS else words


def _with_subcommand(group: str, words: list[str]) -> list[str]:
    """Returns the words after a group of commands, with its default command before a project.

    Raises:
        UsageError: The first word is neither a command of the group nor a project.
    """
    if not words or words[0].startswith("-"):
        return words
    first, *rest = words
    all_words = [command.words.split() for command in COMMANDS]
    subcommands = [second for name, *seconds in all_words for second in seconds if name == group]
    if first in subcommands:
        return words
    default = GROUPS[group].default
    if not default or not _may_be_project(first):
        _refuse_unknown(first, f"{group} ", subcommands, rest)
    return [default, *words]


def _may_be_project(word: str) -> bool:
    """Returns whether a word looks like a file rather than like a command."""
    return os.path.exists(word) or bool(os.path.splitext(word)[1]) or os.sep in word


def _refuse_unknown(
    word: str, group: str, commands: Sequence[str], rest: Sequence[str]
) -> NoReturn:
    """Raises UsageError for a word that is no command; the hint names the most similar command if there is one.

    Args:
        group: The group of commands before the word, with a space; empty for none.
        commands: The commands that are possible in place of the word.
        rest: The words after it.
    """
    import difflib

    similar = next(iter(difflib.get_close_matches(word, commands, n=1)), None)
    if similar is not None:
        suggestion = " ".join(["workbench", *f"{group}{similar}".split(), *map(shlex.quote, rest)])
        hint = f"Did you mean {similar}? `{suggestion}`"
    elif group:
        hint = f"These exist: {', '.join(commands)}."
    else:
        hint = f"`workbench {word}.wb --create` makes a new project, `workbench --help` lists the commands."
    message = f"There is no command `{group}{word}`"
    raise UsageError(message + ("." if group or rest else f", and no project {word}."), hint)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Files that it writes can be read by their owner only."""
    invocation = Invocation.from_arguments(sys.argv[1:] if argv is None else list(argv))
    is_output_data = invocation.json or invocation.words[:1] in ([name] for name in _DATA_COMMANDS)
    network_guard.install()
    previous_mask = os.umask(0o077)  # no rights for group and others
    try:
        with like_ctrl_c(), checked_streams() as output:
            _make_output_encodable(is_output_data, invocation.json)
            return _run_and_report(invocation, output)
    finally:
        os.umask(previous_mask)


def _run_and_report(invocation: Invocation, output: Output | None) -> int:
    """Runs the command that is asked for, prints its error if there is one, and returns the exit code.

    Args:
        output: Standard output, which knows whether output was lost; None in some tests. What was lost because its
            reader has ended, as `head` does, is no error, be it standard output or a pipe that `-o` names.
    """
    try:
        code = _run(invocation)
        sys.stdout.flush()
        return code
    except (WorkbenchError, KeyboardInterrupt) as error:
        # lost output is told before what the command made of it
        reported = error if output is None else output.lost or error
        if isinstance(reported.__cause__, BrokenPipeError):  # nobody waits for the rest
            return EXIT_DONE
        return _print_error(reported, invocation.json)


def version_line() -> str:
    """Returns the version of the program and of what it runs on, which every report of a fault needs."""
    import platform
    from importlib import metadata

    llama = metadata.version("llama-cpp-python")
    python = f"Python {platform.python_version()}"
    system = f"{platform.system()} {platform.machine()}"
    return f"{version()} ({python}, llama-cpp-python {llama}, {system})"


def _run(invocation: Invocation) -> int:
    """Runs the command that is asked for, and returns the exit code.

    Raises:
        UsageError: The words are no command, the current folder is gone, or a word cannot be the name of a file.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "The current folder is no longer there.", "Go to another one: `cd ~`."
        ) from None
    try:
        whole_words = _with_joined_filters(_with_command(invocation.words))
        first = next(iter(whole_words), None)
        parser = build_parser(first if first in _FIRST_WORDS else None)
        arguments = parser.parse_args(whole_words)
    except SystemExit as stop:  # after --help
        if invocation.topic:
            explaining = import_module("workbench.commands.explaining")
            for entry in explaining.topics_of(invocation.topic[0]):
                reference = f"More: `workbench help {entry.name}.md`\n"
                print(f"\n{reference if entry.kind == 'page' else entry.text}", end="")
        return int(stop.code or 0)
    if arguments.version:
        print(version_line())
        return EXIT_DONE
    if arguments.command is None:
        print(MAIN_PATH)
        return EXIT_DONE
    if invocation.offline or arguments.offline:
        os.environ[network_guard.VARIABLE] = network_guard.FLAG
    try:
        result = arguments.run(arguments)
        if isinstance(result, CommandResult):
            from workbench.narration import print_result

            print_result(result, arguments.json)
            return result.code
        return int(result)
    except UnicodeEncodeError:
        # an argument whose bytes are no text in the encoding of the terminal has lone surrogates
        words = (word for word in invocation.words if word != without_surrogates(word))
        undecodable = next(words, None)
        if undecodable is None:
            raise
        raise UsageError(
            f"“{undecodable}” is not in the encoding of the terminal.",
            "Use UTF-8, for instance with LC_ALL=C.UTF-8.",
        ) from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise UsageError(
            f"“{str(error.filename)[:40]}…” is too long for the name of a file.",
            "Choose a shorter name.",
        ) from None


def _make_output_encodable(is_output_data: bool, are_errors_data: bool) -> None:
    """Makes a terminal or a pipe that is not UTF-8 get \\u2013 instead of a character that its encoding lacks.

    Args:
        is_output_data: Whether programs read standard output; it is UTF-8 then, because \\xe9 is no JSON.
        are_errors_data: Whether programs read standard error.
    """
    for stream, for_programs in ((sys.stdout, is_output_data), (sys.stderr, are_errors_data)):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            if for_programs:
                stream.reconfigure(encoding="utf-8")
            else:
                stream.reconfigure(errors="backslashreplace")


def _print_error(error: WorkbenchError | KeyboardInterrupt, json: bool) -> int:
    """Prints an error on standard error, as one line of JSON if `json`, and returns the exit code."""
    if isinstance(error, KeyboardInterrupt):
        error = Cancelled("cancelled")
    code = exit_code(type(error))
    if json:
        report = {
            "error": error.message,
            "hint": error.hint,
            "exit_code": code,
            "code": error.code,
        }
        sys.stderr.write(as_json(report) + "\n")
        return code
    sys.stderr.write(message_safe(f"workbench: {error.message}") + "\n")
    if error.hint:
        sys.stderr.write(message_safe(f"  {error.hint}") + "\n")
    if not isinstance(error, Cancelled | OutputLost):
        sys.stderr.write(f"  ({error.code}: `workbench help {error.code}` says more)\n")
    return code
