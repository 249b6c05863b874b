"""`workbench doctor`: prints the checks of this machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.base import folders
from engine.base.text import display_safe
from workbench.doctor import report
from workbench.narration import print_json
from workbench.network_checks import network_checks
from workbench.result import DONE, FAILED

MARKS = {"ok": "✓", "warn": "!", "bad": "✗"}


def doctor_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `doctor`."""
    parser.add_argument("project", nargs="?", help="also check this project")


def doctor(arguments: argparse.Namespace) -> int:
    """Prints what this machine can do and what is wrong, with the fix; exits with 1 when a check is bad."""
    project = Path(arguments.project) if arguments.project else None
    data = folders.data_dir()
    checks = [*report(data, folders.cache_dir(), project), *network_checks(data, project)]
    if arguments.json:
        print_json({"checks": [asdict(check) for check in checks]})
    else:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for check in checks:
            found = Text(display_safe(check.found))
            if check.fix:
                found.append(f"\n→ {display_safe(check.fix)}", style="bold")
            table.add_row(Text(MARKS[check.status]), Text(check.name), found)
        Console(highlight=False).print(table)
    return FAILED if any(check.status == "bad" for check in checks) else DONE
