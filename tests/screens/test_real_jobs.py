"""Long work from the screens, with the services that the program opens and a layer of the default model: nothing is
scripted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from engine.base import folders
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from engine.model.endpoints.sender import Prices
from engine.opener.open_project import OpenProject
from engine.simulate.demo import sample_conversations, write_jsonl
from screens.conversations.ask_form import AskForm
from screens.shell.run_form import ScoringForm
from tests.engine.model.tuned import tune
from tests.engine.project.support import fill, talk
from tests.screens.driving import press, settle, text, until
from workbench.app import WorkbenchApp

SECONDS = 300.0
"""Longest wait for a job, far longer than one takes here on an idle machine."""


@pytest.fixture
def workspace(tmp_path: Path, single_layer_weights: Path) -> Path:
    """Where a new project will be; the default model is tuned, and one of its layers reads."""
    tune(single_layer_weights, folders.data_dir(), folders.cache_dir())
    return tmp_path / "p.wb"


@asynccontextmanager
async def screens_of(workspace: OpenProject) -> AsyncIterator[Pilot[None]]:
    """The app as the program starts it."""
    app = WorkbenchApp(workspace, workspace.subscribe)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await settle(pilot)
        yield pilot


async def shown(pilot: Pilot[None], what: Callable[[str], bool]) -> None:
    """Waits until the screen satisfies `what`."""
    async with asyncio.timeout(SECONDS):
        while not what(text(pilot)):
            await pilot.pause(0.05)
            await settle(pilot)


async def choose_mode(pilot: Pilot[None], name: str) -> None:
    """Chooses the mode of this name in the form of a scoring run."""
    while name not in text(pilot):
        await press(pilot, "right")


async def test_import_estimate_and_score(workspace: Path, tmp_path: Path) -> None:
    """A file is imported by its path, its account shown, the cost of scoring counted; the project has the scores."""
    samples = sorted(
        sample_conversations(40, seed=5), key=lambda one: sum(len(m.seen) for m in one.messages)
    )[:3]
    source = tmp_path / "samples.jsonl"
    write_jsonl(samples, source)
    with OpenProject(workspace, create=True) as opened:
        async with screens_of(opened) as pilot:
            await press(pilot, "i")
            await pilot.press(*str(source))
            await press(pilot, "enter")
            await shown(pilot, lambda seen: "3 conversations" in seen)
            stored = opened.conversations.reports
            await until(pilot, lambda: bool(stored()))  # comes after the conversations are shown
            await press(pilot, "1", "A")
            # one word each: where the folder has a long name, its line is broken
            await shown(pilot, lambda seen: all(word in seen for word in ("uniform,", "because")))
            await shown(pilot, lambda seen: "nowhere 0.0%" in seen)
            await press(pilot, "escape")

            await press(pilot, "2", "r")
            assert isinstance(pilot.app.screen, ScoringForm)
            await choose_mode(pilot, "a model as it is")
            await shown(pilot, lambda seen: "3 conversations ·" in seen and "tokens" in seen)
            await press(pilot, "enter")
            await shown(pilot, lambda seen: "100% scored" in seen)
        rows = opened.conversations
        found = [rows.score(key) for key in (1, 2, 3)]
    assert [score.mode for score in found if score is not None] == ["base"] * 3


async def test_what_leaves_the_machine_is_shown_before_the_first_request(tmp_path: Path) -> None:
    """Asking a model on another machine shows what would be sent, one request in full, with pseudonyms in place of
    personal data; `a` allows it for the project, and the run begins."""
    entry = EndpointEntry(
        "far",
        "http://far.example:9/v1#big",
        Capabilities(
            chat=True,
            structure="json_schema",
            completions=True,
            tokens="vllm",
            template="vllm",
            chars_per_token=4.0,
            tokens_per_piece=1.3,
        ),
        prices=Prices(1, 2),
    )
    folders.data_dir().mkdir(parents=True, exist_ok=True)
    (folders.data_dir() / "endpoints.json").write_text(json.dumps({"far": entry.as_params()}))
    with OpenProject(tmp_path / "p.wb", create=True) as opened:
        fill(opened.project, [talk("c1", "Write to ada@example.org.", "Done.")])
        async with screens_of(opened) as pilot:
            await press(pilot, "2", "Q")
            await pilot.press(*"refused")
            await press(pilot, "down", "right")
            form = pilot.app.screen
            assert isinstance(form, AskForm)
            form.query_one("#model", Input).value = "far"
            await shown(pilot, lambda seen: "with far (endpoint)" in seen)
            await press(pilot, "enter")
            await shown(pilot, lambda seen: "http://far.example:9/v1" in seen and "[email " in seen)
            assert "ada@" not in text(pilot)
            assert opened.jobs.history() == []

            await press(pilot, "a")
            await until(pilot, lambda: opened.egress.allows(entry.address))
            await until(pilot, lambda: bool(opened.jobs.history()))


async def test_a_question(tmp_path: Path) -> None:
    """A question is asked of what is listed, by its patterns; a model that cannot be asked is refused in the form with
    the way out."""
    with OpenProject(tmp_path / "p.wb", create=True) as opened:
        texts = ["Sure.", "I am unable to do that."]
        fill(opened.project, [talk(f"c{n}", f"Lamp {n}?", text) for n, text in enumerate(texts)])
        async with screens_of(opened) as pilot:
            await press(pilot, "2", "Q")
            await shown(pilot, lambda seen: "No question yet." in seen)
            await pilot.press(*"refused")
            await press(pilot, "down", "right")
            await shown(pilot, lambda seen: "too small" in seen and "--anyway" in seen)
            await press(pilot, "left")
            await shown(pilot, lambda seen: "with its patterns" in seen)
            await press(pilot, "enter")
            answers = [("pattern", {"no": 1, "yes": 1})]
            await until(pilot, lambda: list(opened.questions.summary("refused").answers) == answers)
