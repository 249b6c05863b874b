"""`workbench prompts`, `keys`, `formats`, `completion` and `doctor`: how the program is set up."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from engine.base import folders
from engine.base.errors import UsageError
from engine.base.text import display_safe
from engine.opener.open_project import OpenProject
from engine.questions.service.answer_tables import read_text
from workbench.arguments import PROJECT, argument, number, switch, takes
from workbench.command_result import EXIT_DONE, EXIT_FAILED, CommandResult
from workbench.narration import narrate

MARKS = {"ok": "✓", "warn": "!", "bad": "✗"}
"""The sign of each status of a check."""

SHELLS = ("bash", "zsh", "fish")
"""The shells that `completion` writes for."""


@takes(
    PROJECT,
    argument("name", nargs="?", help="print this prompt"),
    argument("--set", metavar="FILE", dest="file", help="use the prompt in this file"),
    switch("--reset", "go back to the built-in prompt"),
    number(
        "--on",
        "try the prompt on N conversations (label-json: groups, merge-json: pairs), beside the built-in one if they"
        " differ; with --set the one in FILE, which is not stored",
    ),
    argument(
        "--model",
        metavar="M",
        action="append",
        help="try it with this model; several times: side by side",
    ),
)
def prompts(arguments: argparse.Namespace) -> CommandResult | int:
    """Lists, prints, replaces or resets the prompts of a project."""
    from engine.model.prompt_files import all_prompt_names, shipped_prompt

    changes = (arguments.file is not None or arguments.reset) and arguments.on is None
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        if arguments.name is None:
            if changes:
                raise UsageError("Which prompt?", f"Prompts are: {', '.join(all_prompt_names())}.")
            edited = {
                name: workspace.run_setup.prompts.source(name) != shipped_prompt(name)
                for name in all_prompt_names()
            }
            return CommandResult(
                [f"{name}{'  (edited)' * is_edited}" for name, is_edited in edited.items()],
                {
                    "prompts": [
                        {"name": name, "edited": is_edited} for name, is_edited in edited.items()
                    ]
                },
            )
        if arguments.on is not None:
            return _try_prompt(workspace, arguments)
        if changes:
            workspace.run_setup.prompts.edit(arguments.name, _read_prompt(arguments.file))
            narrate("What was made with another prompt stays; a new run adds a new set beside it.")
        source = workspace.run_setup.prompts.source(arguments.name)
    if arguments.json or changes:
        return CommandResult([], {"name": arguments.name, "text": source})
    sys.stdout.write(display_safe(source) if sys.stdout.isatty() else source)
    return EXIT_DONE


def _try_prompt(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    """Shows the replies to a prompt, and to the built-in one, side by side; stores nothing."""
    from engine.opener.model_previews import PromptTrial, trial_lines

    trial = PromptTrial(workspace, arguments.name, _read_prompt(arguments.file))
    replies = trial.replies(arguments.model or [None], arguments.on)
    return CommandResult(trial_lines(replies), {"name": arguments.name, "replies": replies})


def _read_prompt(path: str | None) -> str | None:
    """Returns the text of a file; None where none is named.

    Raises:
        FormatError: It cannot be read.
    """
    return None if path is None else read_text(Path(path), "Choose a text file.")


@takes(switch("--markdown", "print the default keys as a page of the documentation"))
def keys(arguments: argparse.Namespace) -> CommandResult:
    """Lists the keys; as a page of the documentation they are the default ones."""
    from workbench import launcher

    if arguments.markdown:
        page = launcher.default_keys_page().rstrip("\n")
        return CommandResult([page], {"markdown": page})
    places, keymap, problems = launcher.keys_in_force()
    file = str(folders.keymap_file())
    table = [
        {
            "id": action.id,
            "place": place.name,
            "keys": list(action.keys),
            "what": action.meaning,
            "changed": action.id in keymap,
        }
        for place in places
        for action in place.actions
    ]
    return CommandResult(
        [line for place in places for line in launcher.key_lines(place, keymap)],
        {"file": file, "problems": problems, "keys": table},
        EXIT_FAILED if problems else EXIT_DONE,
        notes=problems,
        hints=[f"To change them: {file}"],
    )


def formats(arguments: argparse.Namespace) -> CommandResult:
    """Lists name and records of each format, the person's own first."""
    from engine.formats.registry import (
        all_readers,
        built_in_readers,
        mapping_folder,
        unusable_formats,
    )

    ours = set(built_in_readers())
    readers = sorted(all_readers(), key=lambda reader: (reader in ours, reader.name))
    width = max(len(reader.name) for reader in readers)
    return CommandResult(
        [
            f"{reader.name:<{width}}  {reader.title}{'' if reader in ours else '  (yours)'}"
            for reader in readers
        ],
        {
            "folder": str(mapping_folder()),
            "formats": [
                {
                    "name": reader.name,
                    "records": reader.title,
                    "from": "workbench" if reader in ours else "you",
                }
                for reader in readers
            ],
        },
        hints=[
            *map(str, unusable_formats()),
            f"Your own mapping files belong into {mapping_folder()}; `workbench import --map` makes one.",
        ],
    )


@takes(argument("shell", choices=SHELLS, help="the shell that reads the script"))
def completion(arguments: argparse.Namespace) -> CommandResult:
    """Gives the script with which a shell completes commands; it holds all of them, so that the shell never starts the
    program to complete a word."""
    import shtab

    from workbench.cli import build_parser

    parser = build_parser()
    for command_parser in parser.with_commands():
        for action in command_parser._actions:
            if _takes_text(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(parser, shell=arguments.shell)
    return CommandResult([script], {"shell": arguments.shell, "script": script})


def _takes_text(action: argparse.Action) -> bool:
    """Returns whether the value of an option may be a path: most of those that are neither a choice nor a number
    are.
    """
    return action.nargs != 0 and action.choices is None and action.type not in (int, float)


@takes(argument("project", nargs="?", help="also check this project"))
def doctor(arguments: argparse.Namespace) -> CommandResult:
    """Says what this machine can do and what is wrong, with the fix; exits with 1 when a check is bad."""
    from rich.table import Table
    from rich.text import Text

    from engine.opener.doctor import check_network, run_checks

    project = Path(arguments.project) if arguments.project else None
    data = folders.data_dir()
    checks = [*run_checks(data, folders.cache_dir(), project), *check_network(data)]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for check in checks:
        answer = Text(display_safe(check.found))
        if check.fix:
            answer.append(f"\n→ {display_safe(check.fix)}", style="bold")
        table.add_row(Text(MARKS[check.status]), Text(check.name), answer)
    return CommandResult(
        [],
        {"checks": [asdict(check) for check in checks]},
        EXIT_FAILED if any(check.status == "bad" for check in checks) else EXIT_DONE,
        drawing=table,
    )
