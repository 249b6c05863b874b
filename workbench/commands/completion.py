"""`workbench completion`: a script with which a shell completes the commands and options of the program."""

from __future__ import annotations

import argparse

import shtab

from workbench.narration import print_json, print_text
from workbench.result import DONE

SHELLS = ("bash", "zsh", "fish")


def completion_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `completion`."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def completion(arguments: argparse.Namespace) -> int:
    """Prints the script, which holds all commands: the shell never starts the program to complete a word."""
    from workbench.cli import build_parser

    parser = build_parser()
    for each in parser.with_commands():
        for action in each._actions:
            if _takes_text(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(parser, shell=arguments.shell)
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print_text(script)
    return DONE


def _takes_text(action: argparse.Action) -> bool:
    """Whether the value of an option may be a path: most of those that are neither a choice nor a number are."""
    return action.nargs != 0 and action.choices is None and action.type not in (int, float)
