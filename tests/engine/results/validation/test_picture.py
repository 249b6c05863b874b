"""Pictures of validation tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import ProjectError, UsageError
from engine.base.statistics.intervals import Classification, Interval
from engine.results.records import CompletenessTable, SeparationRow, TruthRow, TruthTable
from engine.results.validation.picture import save_picture

SOME = Interval(0.8, 0.7, 0.9)


def row(
    name: str, recipe: str = "", size: int | None = None, cut: int | None = None
) -> SeparationRow:
    """One with the same figures as any other."""
    found = Classification(SOME, SOME, SOME, SOME, SOME, SOME, SOME)
    return SeparationRow(name, "scores", 9, found, recipe=recipe, conversations=size, cut=cut)


def table(*rows: SeparationRow) -> CompletenessTable:
    """A table of these rows with one known truth and one that has a single value."""
    claim = TruthTable(
        "not complete", "", 4, 5, 9, tuple(TruthRow(one.name, SOME, SOME) for one in rows)
    )
    return CompletenessTable(
        None, 0, 0.5, 9, 0, 9, rows, (claim, TruthTable("same", "", 0, 9, 9, ()))
    )


PLAIN = table(row("base"), row("a & b <odd>", "boundary", 100, 0))
GROWING = table(
    row("base"),
    row("b50", "boundary", 50, 0),
    row("b200", "boundary", 200, 0),
    row("p200", "paper", 200, 0),
    row("b200 and cut", "boundary", 200, 80),
)


def test_every_row_and_every_claim_is_drawn(tmp_path: Path) -> None:
    """Every row and every truth is drawn by name, with any characters; a truth with a single value has no panel."""
    save_picture(PLAIN, tmp_path / "t.svg")
    drawn = (tmp_path / "t.svg").read_text("utf-8")
    assert "a &amp; b &lt;odd&gt;" in drawn
    assert "low where not complete (4 of 9)" in drawn
    assert "same" not in drawn


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    """The same table gives the same file, so a picture in a repository changes only with its figures."""
    for name in ("a.svg", "b.svg"):
        save_picture(GROWING, tmp_path / name, "conversations")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_by_conversations(tmp_path: Path) -> None:
    """Adapters of one recipe and one cut share are a curve over conversations; untrained rows are horizontal lines; a
    single adapter is left out.
    """
    save_picture(GROWING, tmp_path / "t.svg", "conversations")
    drawn = (tmp_path / "t.svg").read_text("utf-8")
    assert ">boundary<" in drawn
    assert ">base<" in drawn
    assert "paper" not in drawn
    assert "40% cut" not in drawn


def test_by_what_was_cut(tmp_path: Path) -> None:
    """Adapters of one recipe and one number of conversations are a curve over the cut share."""
    save_picture(GROWING, tmp_path / "t.svg", "cut")
    drawn = (tmp_path / "t.svg").read_text("utf-8")
    assert ">boundary, 200 conversations<" in drawn
    assert ">0.4<" in drawn


def test_no_two_that_differ(tmp_path: Path) -> None:
    """Without two adapters that differ, the error says what would make a curve; nothing is written."""
    with pytest.raises(UsageError, match="No two adapters of one recipe"):
        save_picture(PLAIN, tmp_path / "t.svg", "conversations")
    assert not list(tmp_path.iterdir())


def test_another_ending(tmp_path: Path) -> None:
    """Another file ending is an error that names the one that is known."""
    with pytest.raises(UsageError) as error:
        save_picture(PLAIN, tmp_path / "t.png")
    assert ".svg" in error.value.hint


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A missing folder is an error that says so."""
    with pytest.raises(ProjectError, match="cannot be written"):
        save_picture(PLAIN, tmp_path / "none" / "t.svg")
