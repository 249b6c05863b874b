"""`workbench prompts`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.errors import UsageError
from engine.model.prompting import prompt_names, prompt_text
from engine.text import display_safe
from workbench.commands.narration import say, show, tell
from workbench.services import Workspace


def prompts(arguments: argparse.Namespace) -> int:
    """Lists, prints, replaces or resets the prompts of a project."""
    changing = arguments.file is not None or arguments.reset
    with Workspace(Path(arguments.project), read_only=not changing) as workspace:
        if arguments.name is None:
            if changing:
                raise UsageError("Which prompt?", f"Prompts are: {', '.join(prompt_names())}.")
            edited = {
                name: workspace.prompt_source(name) != prompt_text(name) for name in prompt_names()
            }
            if arguments.json:
                show({"prompts": [{"name": n, "edited": e} for n, e in edited.items()]})
            else:
                for name, changed in edited.items():
                    say(f"{name}{'  (edited)' if changed else ''}")
            return 0
        if changing:
            workspace.edit_prompt(arguments.name, _read(arguments.file))
            tell("Scores made with another prompt stay; a new run adds a new set beside them.")
        source = workspace.prompt_source(arguments.name)
        if arguments.json:
            show({"name": arguments.name, "text": source})
        elif not changing:
            sys.stdout.write(display_safe(source) if sys.stdout.isatty() else source)
    return 0


def _read(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
