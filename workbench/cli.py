"""The command line: reads the arguments, runs the command, prints its result or its error.

The commands are in `workbench.command_table`, what each does in `workbench.commands`. The module of a command is
imported when the command is named: `workbench --help` needs the standard library only.

Exit codes: 0 done, 1 failed, 2 usage, 3 done with items not scored or quarantined, 130 cancelled.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

from engine.base import network_guard
from engine.base.conversation import without_surrogates
from engine.base.errors import Cancelled, OutputLost, UsageError, WorkbenchError
from engine.base.folders import version
from engine.base.text import as_json, display_safe
from workbench.command_result import EXIT_DONE, CommandResult, exit_code
from workbench.command_table import COMMANDS, GROUPS, Command
from workbench.surroundings import checked_streams, like_ctrl_c, on_terminal

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
"""The end of `workbench --help`."""

MAIN_PATH = """\
Conversation Workbench: what users wanted, whether conversations ended, and how sure the model was.

  workbench demo                            build a sample project and look at it
  workbench open logs.jsonl                 read, score and group your own conversations, then look at them

The same step by step:
  workbench import mine.wb logs.jsonl       read conversations into a project
  workbench run complete mine.wb            score how complete each conversation is
  workbench run cluster mine.wb             group conversations by what users wanted
  workbench mine.wb                         look at the project in the terminal

`workbench help` lists every command, `workbench help COMMAND` explains one;
`workbench help topics` lists what else is explained: pages, words, error codes."""
"""Printed where no command is named and no screen can be drawn."""

FILTER_OPTIONS = ("--filter", "--a", "--b")
"""Options whose value is a filter."""
_OFFLINE_HELP = "use no network, not even for endpoints and hubs that you named"
"""Help of `--offline`."""

_GLOBAL_OPTIONS = ("-h", "--help", "--version", network_guard.FLAG)
"""Options that stand before a command, or without one."""

_DATA_COMMANDS = (["export"], ["watch"], ["prompts"])
"""Commands whose output is for programs also without `--json`."""


class Parser(argparse.ArgumentParser):
    """A parser that declares the options of its command when they are needed first.

    Args:
        command: The command that it parses; None for the parsers that only select a command.
    """

    def __init__(self, *args: Any, command: Command | None = None, **settings: Any) -> None:
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
        # No default here: it would override `--offline` given before the command.
        self.add_argument(
            network_guard.FLAG, action="store_true", default=argparse.SUPPRESS, help=_OFFLINE_HELP
        )
        for declared in getattr(module, function).__dict__.get("arguments", ()):
            declared.add_to(self)
        for action in self._actions:
            if action.dest == "project" and not action.help:
                action.help = "the project file"

    def with_commands(self) -> Iterator[Parser]:
        """Yields this parser and those of all commands that follow it, with their options declared."""
        self.declare()
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    yield from parser.with_commands()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Declares the options, then parses as `argparse` does.

        Raises:
            UsageError: An argument is not known, with the usage line of the command: argparse tells that of all.
        """
        self.declare()
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        """Raises the message of argparse as an error of this program.

        Raises:
            UsageError: Always, with the usage line as its hint.
        """
        raise UsageError(
            f"{self.prog.partition(' ')[2]}: {message}".removeprefix(": "),
            self.format_usage().strip(),
        )


def build_parser() -> Parser:
    """Returns the parser of all commands."""
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
        first, _, second = command.words.partition(" ")
        parsers = top
        if second:  # a command of a group, such as `goals split`
            if first not in groups:
                group = GROUPS[first]
                group_parser = top.add_parser(first, help=group.help, description=group.description)
                groups[first] = group_parser.add_subparsers(
                    dest="subcommand", metavar=group.metavar, required=True
                )
            parsers = groups[first]
        parsers.add_parser(
            second or first, help=command.help, description=command.help, command=command
        )
    return parser


def _with_joined_filters(words: Sequence[str]) -> list[str]:
    """Returns the arguments with each filter joined to its option by `=`: argparse takes a filter that begins with a
    minus for an option.
    """
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in FILTER_OPTIONS:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _with_command(words: list[str]) -> list[str]:
    """Returns the arguments with the command that may be left out: `open` before a project or before options of `open`,
    the default of a group before its project.

    Raises:
        UsageError: The first word is neither a command nor a project, or the second is no command of its group.
    """
    if not words and on_terminal():
        return ["open"]
    if not words:
        return words
    first, *rest = words
    commands = list(dict.fromkeys(command.words.split()[0] for command in COMMANDS))
    if first.startswith("-"):
        if any(option.startswith(first) for option in _GLOBAL_OPTIONS):
            return words
        # A first word of `rest` that is a command shows that the option belongs behind it.
        next_word = next((word for word in rest if not word.startswith("-")), "")
        if next_word in commands and not os.path.exists(next_word):
            raise UsageError(
                f"The option {first} stands before the command.",
                f"The options of a command follow it; `workbench help {next_word}` lists them.",
            )
        return ["open", *words]
    if first not in commands:
        if not _may_be_project(first):
            _refuse_unknown(first, "", commands, rest)
        return ["open", *words]
    if first in GROUPS and rest:
        second, *rest_of_group = rest
        all_words = [command.words.split() for command in COMMANDS]
        subcommands = [
            word for group, *words_after in all_words for word in words_after if group == first
        ]
        if not second.startswith("-") and second not in subcommands:
            default = GROUPS[first].default
            if not default or not _may_be_project(second):
                _refuse_unknown(second, f"{first} ", subcommands, rest_of_group)
            return [first, default, *rest]
    return words


def _is_command(word: str) -> bool:
    """Returns whether a word is a command, a group of commands or an option."""
    return word.startswith("-") or any(word == command.words.split()[0] for command in COMMANDS)


def _may_be_project(word: str) -> bool:
    """Returns whether a word looks like a file rather than like a command."""
    return os.path.exists(word) or bool(os.path.splitext(word)[1]) or os.sep in word


def _refuse_unknown(
    word: str, group: str, commands: Sequence[str], rest: Sequence[str]
) -> NoReturn:
    """Refuses a word that is no command.

    Args:
        group: The group of commands before the word, with a space; empty for none.
        commands: The commands that could stand in its place.
        rest: The words after it.

    Raises:
        UsageError: Always, with the command that is most like the word, if one is.
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
    """Runs one command and returns its exit code. What it writes is for its user only."""
    words = list(sys.argv[1:] if argv is None else argv)
    json = "--json" in words
    offline = words[:1] == [network_guard.FLAG]
    if offline:
        del words[0]
    # `help COMMAND` prints what `COMMAND --help` does, then what else is known of the word.
    topic = words[1:] if words[:1] == ["help"] else []
    if words[:1] == ["help"] and (not topic or _is_command(topic[0])):
        words = [*topic, "--help"]
    network_guard.install()
    previous_mask = os.umask(0o077)  # no rights for group and others
    try:
        with like_ctrl_c(), checked_streams() as output:
            _make_output_encodable(json or words[:1] in _DATA_COMMANDS, json)
            try:
                code = _run(words, topic, offline)
                sys.stdout.flush()
                return code
            except (WorkbenchError, KeyboardInterrupt) as error:
                if output is None or output.lost is None:
                    return _print_error(error, json)
                if output.unread:  # nobody waits for the rest
                    return EXIT_DONE
                return _print_error(output.lost, json)
    finally:
        os.umask(previous_mask)


def version_line() -> str:
    """Returns the version, and what it runs on: the questions of every report of a fault."""
    import platform
    from importlib import metadata

    llama = metadata.version("llama-cpp-python")
    python = f"Python {platform.python_version()}"
    system = f"{platform.system()} {platform.machine()}"
    return f"{version()} ({python}, llama-cpp-python {llama}, {system})"


def _run(words: list[str], topic: list[str], offline: bool) -> int:
    """Runs the command that the words name; returns the exit code. `topic` is what `help` is asked about.

    Raises:
        UsageError: The words are no command, or nothing in this folder or of these names can be a file.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "The current folder is no longer there.", "Go to another one: `cd ~`."
        ) from None
    try:
        arguments = build_parser().parse_args(_with_joined_filters(_with_command(words)))
    except SystemExit as stop:  # after --help
        if topic:
            name, *_ = topic
            explaining = import_module("workbench.commands.explaining")
            for entry in explaining.topics_of(name):
                reference = f"More: `workbench help {entry.name}.md`\n"
                print(f"\n{reference if entry.kind == 'page' else entry.text}", end="")
        return int(stop.code or 0)
    if arguments.version:
        print(version_line())
        return EXIT_DONE
    if arguments.command is None:
        print(MAIN_PATH)
        return EXIT_DONE
    if offline or arguments.offline:
        os.environ[network_guard.VARIABLE] = network_guard.FLAG
    try:
        result = arguments.run(arguments)
        if isinstance(result, CommandResult):
            from workbench.narration import print_result

            print_result(result, arguments.json)
            return result.code
        return int(result)
    except UnicodeEncodeError:
        # An argument whose bytes are no text in the encoding of the terminal has lone surrogates.
        undecodable = next((word for word in words if word != without_surrogates(word)), None)
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
    """Lets a terminal or a pipe that is not UTF-8 get \\u2013 instead of a character that it does not have.

    Args:
        is_output_data: Whether programs read standard output; it then is UTF-8 all the same, because \\xe9 is no JSON.
        are_errors_data: The same of standard error.
    """
    for stream, for_programs in ((sys.stdout, is_output_data), (sys.stderr, are_errors_data)):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            if for_programs:
                stream.reconfigure(encoding="utf-8")
            else:
                stream.reconfigure(errors="backslashreplace")


def _print_error(error: WorkbenchError | KeyboardInterrupt, json: bool) -> int:
    """Prints an error on standard error, as one line of JSON if `json`; returns the exit code."""
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
    sys.stderr.write(display_safe(f"workbench: {error.message}\n"))
    if error.hint:
        sys.stderr.write(display_safe(f"  {error.hint}\n"))
    if not isinstance(error, Cancelled | OutputLost):
        sys.stderr.write(f"  ({error.code}: `workbench help {error.code}` says more)\n")
    return code
