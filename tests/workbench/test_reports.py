"""`workbench compare` and `workbench why`, and what the report says of the latter."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from engine.project.project import Project
from tests.command_line import result
from tests.engine.project.support import fill, give_scores, talk
from tests.plain_html import plain_text
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A project of 40 scored conversations in two months."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        dated = [talk(str(n), f"hi {n}", created_at=f"2026-0{1 + n % 2}-02") for n in range(40)]
        fill(project, dated)
        give_scores(project, {n + 1: 0.9 if n % 2 else 0.1 for n in range(40)})
    return str(tmp_path / "p.wb")


def test_why_says_the_same_on_every_surface(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command, its JSON, Python and the report name the month that all conversations that broke off are of."""
    assert main(["why", path]) == 0
    printed = capsys.readouterr().out
    assert "A  20 conversations that broke off (state:broken-off)" in printed
    assert "date:2026-01  100%  0%" in printed
    document = result("why", path)
    month = document["associations"][0]
    assert (month["filter"], month["side"], month["counts"]) == ("date:2026-01", "a", [20, 0])
    assert len(month["examples"]) == 5
    with workbench.open(path, read_only=True) as project:
        found = project.why("state:broken-off", "state:ended", within_goals=False)
        assert found["associations"] == document["associations"]
    out = tmp_path / "r.html"
    assert main(["report", path, "-o", str(out)]) == 0
    section = plain_text(out.read_text("utf-8")).partition("## Did it go wrong?")[2]
    assert (
        "In 100% of the conversations that broke off and 0% of those that ended date:2026-01 holds"
        in section
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "Nothing to compare is named"),
        (["--b", "x"], "Nothing to compare is named"),
        (["--a", "x", "--by", "month"], "--by and --a"),
        (["--a", "x", "--filter", "y"], "no meaning with --a"),
    ],
)
def test_refused(
    path: str, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    """What names no comparison, or two, is refused."""
    assert main(["compare", path, *options]) == 2
    assert says in capsys.readouterr().err
