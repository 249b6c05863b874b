"""The pictures of the documentation, taken again from a project: `python -m tests.pictures PROJECT`.

All are of the demo (`workbench demo`), those of screens in a dark and a light theme. The project is copied first,
because some keys give verdicts. The report is drawn by Chromium; without it the picture of the report stays as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from textual.pilot import Pilot

from engine.base import folders
from engine.conversations.filters import Filter
from engine.opener.open_project import OpenProject
from engine.opener.report import write_report
from tests.screens.driving import press, settle
from workbench.app import WorkbenchApp

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
SIZE = (120, 36)
REPORT = "report"
REPORT_SIZE = (860, 1250)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Screenshot(NamedTuple):
    """One picture: its name, and the keys that lead there from the overview."""

    name: str
    keys: Sequence[str]


class Step(NamedTuple):
    """One step of the moving picture: the keys pressed, and for how many seconds the screen then stands."""

    keys: Sequence[str]
    seconds: float


STILLS = (
    Screenshot("overview", ()),
    Screenshot("account", ("A",)),
    Screenshot("conversations", ("2", "down", "down")),
    Screenshot("reader", ("2", "down", "enter")),
    Screenshot("triage", ("3",)),
    Screenshot("tree", ("4", "enter")),
    Screenshot("goals", ("5",)),
    Screenshot("desk", ("6",)),
    Screenshot("models", ("8",)),
    Screenshot("mapping", ("i", *"rides.jsonl", "ctrl+t")),
)
MOVING = "session"
MOVING_SIZE = (110, 30)
STEPS = (
    Step(("5",), 4),
    Step(("6",), 4),
    Step(("y",), 3),
    Step(("3",), 4),
    Step(("i",), 3),
    Step(("4", "enter"), 4),
    Step(("1",), 4),
)


RIDES = (
    (
        "Where is the next garage that repairs tires?",
        "Miller's garage on Ross Road. It is two miles away.",
    ),
    (
        "Please lead me there, but not by the highway.",
        "The route avoids the highway and takes eleven minutes.",
    ),
)
"""What is said in a file of a shape that no format has."""


def unknown_file() -> str:
    """The content of the file whose messages the dialog for mappings finds."""
    rides = [
        {
            "ride": f"ride-{number}",
            "dialogue": [
                {"turn": who, "data": {"utterance": text}}
                for asked, answered in RIDES
                for who, text in (("driver", asked), ("car", answered))
            ],
        }
        for number in range(1, 5)
    ]
    return "".join(f"{json.dumps(ride)}\n" for ride in rides)


def main(arguments: Sequence[str] | None = None) -> int:
    """Takes all pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures")
    parser.add_argument("project", type=Path)
    project = parser.parse_args(arguments).project.absolute()
    folders_of_now = {"DATA": folders.data_dir(), "CACHE": folders.cache_dir()}
    os.environ |= {f"WORKBENCH_{name}": str(folder) for name, folder in folders_of_now.items()}
    os.environ["HOME"] = str(Path(sys.prefix).parent)  # so that no picture shows where it was taken
    for still in STILLS:
        for theme in ("dark", "light"):
            (picture,) = _taken(project, SIZE, [still.keys], light=theme == "light")
            (FOLDER / f"{still.name}-{theme}.svg").write_text(picture, encoding="utf-8")
    frames = _taken(project, MOVING_SIZE, [step.keys for step in STEPS])
    moving = animated(frames, [step.seconds for step in STEPS])
    (FOLDER / f"{MOVING}.svg").write_text(moving, encoding="utf-8")
    if browser := next(filter(None, map(shutil.which, BROWSERS)), None):
        _picture_report(project, browser)
    else:
        sys.stderr.write(f"{REPORT}.png stays: none of {', '.join(BROWSERS)} is here\n")
    return 0


def _picture_report(project: Path, browser: str) -> None:
    """The beginning of the report, as a browser shows it."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        with OpenProject(Path(shutil.copy(project, folder))) as workspace:
            write_report(workspace, page, Filter())
        size = ",".join(map(str, REPORT_SIZE))
        picture = f"--screenshot={FOLDER / REPORT}.png"
        options = ("--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}")
        subprocess.run([browser, *options, picture, page.as_uri()], check=True, capture_output=True)


def _taken(
    project: Path, size: tuple[int, int], steps: Sequence[Sequence[str]], *, light: bool = False
) -> list[str]:
    """The screen after each step, as SVG that asks nothing of the network."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(project, folder))
        (Path(folder) / "rides.jsonl").write_text(unknown_file(), encoding="utf-8")
        with contextlib.chdir(folder), OpenProject(copy) as workspace:
            app = WorkbenchApp(workspace, workspace.subscribe)
            return asyncio.run(_pictures(app, size, steps, light))


async def _pictures(
    app: WorkbenchApp, size: tuple[int, int], steps: Sequence[Sequence[str]], light: bool
) -> list[str]:
    found: list[str] = []
    async with app.run_test(size=size, notifications=False) as pilot:
        await _rest(pilot)
        if light:
            await press(pilot, "T")
        for keys in steps:
            await press(pilot, *keys)
            await _rest(pilot)
            found.append(without_requests(app.export_screenshot(title="workbench demo.wb")))
    return found


async def _rest(pilot: Pilot[None]) -> None:
    """Waits until what a key set off is on the screen, also what comes by a timer."""
    for _ in range(5):
        await settle(pilot)
        await pilot.pause(0.2)


def without_requests(picture: str) -> str:
    """A picture of Textual without the fonts that it would fetch: whoever looks at it has one of a fixed width."""
    return re.sub(r"@font-face\s*\{.*?\}\s*", "", picture, flags=re.S)


def animated(pictures: Sequence[str], seconds: Sequence[float]) -> str:
    """One SVG that shows pictures of one size in turn, for so many seconds each, again and again."""
    (opening,) = {re.findall(r"<svg[^>]*>", picture)[0] for picture in pictures}
    total = sum(seconds)
    rules: list[str] = []
    groups: list[str] = []
    begin = 0.0
    for number, (picture, length) in enumerate(zip(pictures, seconds, strict=True)):
        first, last = 100 * begin / total, 100 * (begin + length) / total
        shown = f"{first:.3f}%,{last:.3f}%{{visibility:visible}}"
        hidden = "" if number == 0 else "0%{visibility:hidden}"
        after = "" if last > 99.9 else f"{last + 0.001:.3f}%,100%{{visibility:hidden}}"
        rules.append(f"@keyframes k{number}{{{hidden}{shown}{after}}}")
        rules.append(
            f".f{number}{{visibility:hidden;animation:k{number} {total}s step-end infinite}}"
        )
        inner = picture.split(opening, 1)[1].rsplit("</svg>", 1)[0]
        groups.append(f'<g class="f{number}">{inner}</g>')
        begin += length
    still = "@media (prefers-reduced-motion){.f0{visibility:visible}g{animation:none!important}}"
    return f"{opening}<style>{''.join(rules)}{still}</style>{''.join(groups)}</svg>\n"


if __name__ == "__main__":
    sys.exit(main())
