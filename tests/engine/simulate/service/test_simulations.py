"""Simulations of a project: edited prompts, what is played, and how results are found again."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.model.chat import Role
from engine.model.prompt_files import (
    all_prompt_names,
    places,
    prompt_kinds,
    prompt_texts,
    shipped_prompt,
)
from engine.opener.open_project import OpenProject
from engine.simulate.request import SimulationRequest
from workbench.arguments import read_request
from workbench.cli import build_parser


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a project will be."""
    return tmp_path / "p.wb"


def a_prompt() -> tuple[str, str, str]:
    """Kind, name and text of a prompt with placeholders."""
    return next(
        (kind, name, text)
        for kind in prompt_kinds()
        for name, text in prompt_texts(kind).items()
        if places(text)
    )


class TestPrompts:
    def test_names(self) -> None:
        """Prompts of simulations are listed after the others, named after their folder and file."""
        kind, name, text = a_prompt()
        assert all_prompt_names().index(f"{kind}/{name}") > all_prompt_names().index("summary")
        assert shipped_prompt(f"{kind}/{name}") == text

    def test_editing(self, path: Path) -> None:
        """A simulation uses an edited prompt until it is reset."""
        kind, name, text = a_prompt()
        with OpenProject(path, create=True) as workspace:
            edited = f"Please. {text}"
            workspace.prompts.edit(f"{kind}/{name}", edited)
            assert workspace.simulation_runs.texts(kind)[name] == edited
            workspace.prompts.edit(f"{kind}/{name}", None)
            assert workspace.simulation_runs.texts(kind) == prompt_texts(kind)

    def test_places_that_nothing_fills(self, path: Path) -> None:
        """An edit with an unknown placeholder is refused with the list of known ones."""
        kind, name, text = a_prompt()
        with OpenProject(path, create=True) as workspace:
            with pytest.raises(UsageError, match=r"\[\[NO_SUCH_PLACE\]\]") as error:
                workspace.prompts.edit(f"{kind}/{name}", f"{text} [[NO_SUCH_PLACE]]")
            assert f"[[{min(places(text))}]]" in error.value.hint
            workspace.prompts.edit(f"{kind}/{name}", "No places at all.")


class TestWords:
    def test_common_options(self) -> None:
        """Every kind takes models for the roles, repetitions and seeds."""
        words = ["simulate", "forms", "p.wb", "--model", "a", "--judge-model", "b", "--runs", "3"]
        arguments: argparse.Namespace = build_parser().parse_args(words)
        options = read_request(SimulationRequest, arguments, kind="forms")
        roles: tuple[Role, ...] = ("assistant", "user", "judge")
        assert [options.model_of(role) for role in roles] == ["a", "a", "b"]
        assert (options.runs, options.seed, options.temperature) == (3, 0, None)
