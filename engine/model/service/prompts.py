"""The prompts of one project: those that come with the program, or a person's edited versions.

A prompt of a simulation is called after its folder and file, like `sharded/user`; all others are prompt files.
"""

from __future__ import annotations

from engine.base.errors import NotFound, UsageError
from engine.model.prompt_files import Prompt, parse_prompt, prompt_names, prompt_text
from engine.model.prompt_texts import places, prompt_kinds, prompt_texts
from engine.project import settings
from engine.project.project import Project

PROMPT_KEY = "prompt."
"""Setting: the prompt of this project in place of the shipped one of that name (`prompts --set`)."""


def names() -> list[str]:
    """Names of all prompts, those of simulations last."""
    return [
        *prompt_names(),
        *(f"{kind}/{name}" for kind in prompt_kinds() for name in prompt_texts(kind)),
    ]


def shipped(name: str) -> str:
    """The text of a prompt as it comes with the program.

    Raises:
        UsageError: There is no such prompt.
    """
    kind, _, of_kind = name.partition("/")
    if not of_kind:
        return prompt_text(name)
    found = prompt_texts(kind).get(of_kind) if kind in prompt_kinds() else None
    if found is None:
        raise NotFound(f"There is no prompt {name!r}.", f"Prompts are: {', '.join(names())}.")
    return found


class ProjectPrompts:
    """The prompts as one project has them."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def prompt(self, name: str) -> Prompt:
        """A prompt file."""
        return parse_prompt(name, self.source(name))

    def source(self, name: str) -> str:
        """The text of a prompt.

        Raises:
            UsageError: There is no such prompt.
        """
        text = shipped(name)
        with self._project.reading() as conn:
            return str(settings.get(conn, PROMPT_KEY + name, text))

    def texts(self, kind: str) -> dict[str, str]:
        """The prompts of one kind of simulation, by name."""
        return {name: self.source(f"{kind}/{name}") for name in prompt_texts(kind)}

    def edit(self, name: str, text: str | None) -> None:
        """Stores a prompt for this project; None restores the one that comes with the program.

        Raises:
            UsageError: There is no such prompt, or the text is none: not a prompt file, or with places that nothing
                fills.
        """
        before = shipped(name)
        if text is not None and "/" not in name:
            parse_prompt(name, text)
        elif text is not None and (unknown := places(text) - places(before)):
            known = ", ".join(f"[[{place}]]" for place in sorted(places(before))) or "none"
            raise UsageError(
                f"The prompt {name} has places that nothing fills: "
                f"{', '.join(f'[[{place}]]' for place in sorted(unknown))}.",
                f"Places are: {known}.",
            )
        self._project.write(
            lambda conn: settings.put(conn, PROMPT_KEY + name, before if text is None else text)
        )
