"""`workbench backup` copies a project beside itself; `workbench restore` lists the copies, or puts one in place."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.base.errors import UsageError
from engine.base.number_format import counted, size
from engine.project.file.backups import KEEP, Backup, back_up, backups_of, restore
from workbench.narration import narrate, print_json, print_text
from workbench.result import DONE


def backup_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `backup`."""
    parser.add_argument("project")
    parser.add_argument(
        "--keep",
        type=int,
        default=KEEP,
        metavar="N",
        help=f"how many backups of this command stay, by default {KEEP}; those before upgrades always do",
    )


def backup(arguments: argparse.Namespace) -> int:
    """Makes a backup, also while the project is open elsewhere, and removes the oldest ones."""
    if arguments.keep < 1:
        raise UsageError(f"--keep {arguments.keep} would keep no backup.", "Keep 1 or more.")
    made, removed = back_up(arguments.project, arguments.keep)
    if arguments.json:
        print_json({"backup": made, "removed": removed})
        return DONE
    print_text(made)
    for old in removed:
        narrate(f"Removed {old}.")
    return DONE


def restore_backup_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `restore_backup`."""
    parser.add_argument("project")
    parser.add_argument(
        "backup",
        nargs="?",
        help="the file to restore, which stays; without it the backups are listed. The present file is kept beside",
    )


def restore_backup(arguments: argparse.Namespace) -> int:
    """Lists the backups, or restores one and says where the present file is."""
    if arguments.backup is None:
        return _list(arguments)
    kept = restore(arguments.project, arguments.backup)
    if arguments.json:
        print_json({"project": arguments.project, "restored": arguments.backup, "kept": kept})
        return DONE
    print_text(f"{arguments.project} is as in {arguments.backup}.")
    if kept is not None:
        print_text(f"What was there before is {kept}.")
    return DONE


def _list(arguments: argparse.Namespace) -> int:
    found = backups_of(arguments.project)
    if arguments.json:
        print_json({"backups": [asdict(one) for one in found]})
        return DONE
    for one in found:
        print_text(_line(one))
    if found:
        narrate(f"To put one in place: `workbench restore {arguments.project} BACKUP`.")
    else:
        narrate(
            f"There is no backup beside {arguments.project}."
            f" `workbench backup {arguments.project}` makes one."
        )
    return DONE


def _line(one: Backup) -> str:
    held = (
        "cannot be read"
        if one.schema is None or one.conversations is None
        else f"{counted(one.conversations, 'conversation')}, schema {one.schema}"
    )
    return f"{one.made}  {size(one.size)}  {held}  {one.path}"
