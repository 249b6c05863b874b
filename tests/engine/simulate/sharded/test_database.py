"""SQL tasks: queries are compared by the rows they return, and can only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import BadInstruction
from engine.simulate.sharded.database import (
    Databases,
    Limits,
    Unrunnable,
    matches,
    same_rows,
    without_distinct,
)
from tests.engine.simulate.sharded.bound import bound, score

SCHEMA = "CREATE TABLE pets (id INTEGER, kind TEXT, age INTEGER, Name TEXT);"
ROWS = (
    "INSERT INTO pets VALUES (1,'cat',3,'Ada'),(2,'dog',5,'Bo'),(3,'cat',3,'Cy'),(4,'owl',5,'Bo');"
)
PETS = Databases(script=SCHEMA + ROWS)
BRIEF = Limits(seconds=1)

Table = list[tuple[int, ...]]
values = st.integers(0, 3)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Small results with many equal values."""
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.tuples(*[values] * width), min_size=1, max_size=6))


def match(answer: str, gold: str) -> bool:
    return bool(matches(answer, gold, PETS, Limits()))


class TestRows:
    @given(tables(), tables())
    def test_the_comparison_agrees_with_trying_every_order(self, one: Table, other: Table) -> None:
        """The search over columns finds a match exactly where trying every order finds one."""
        assert same_rows(one, other, ordered=False) == _by_trying(one, other)


def _by_trying(one: Sequence[tuple[int, ...]], other: Sequence[tuple[int, ...]]) -> bool:
    if len(one) != len(other) or len(one[0]) != len(other[0]):
        return False
    return any(
        sorted(one) == sorted(tuple(row[at] for at in columns) for row in other)
        for columns in permutations(range(len(one[0])))
    )


class TestQueries:
    def test_order_counts_if_the_gold_query_orders(self) -> None:
        """ORDER BY in the answer only does not matter; ORDER BY in the gold query must be met."""
        assert match("SELECT kind FROM pets ORDER BY age", "SELECT kind FROM pets")
        assert match(
            "select id from pets order by id desc", "SELECT id FROM pets ORDER  BY id DESC"
        )
        assert not match("SELECT id FROM pets", "SELECT id FROM pets ORDER BY id DESC")

    def test_distinct_is_dropped_from_both(self) -> None:
        """DISTINCT is ignored, within a function too; the word within a text is kept."""
        assert match("SELECT kind FROM pets", "SELECT DISTINCT kind FROM pets")
        assert match("SELECT COUNT(distinct kind) FROM pets", "SELECT COUNT(kind) FROM pets")
        assert without_distinct("SELECT 'distinct'") == "SELECT 'distinct'"

    def test_values_of_the_gold_query_are_put_into_the_answer(self) -> None:
        """A query of the right shape with other values matches; one of another shape does not."""
        gold = "SELECT id FROM pets WHERE kind = 'cat' AND age > 2"
        assert match("SELECT id FROM pets WHERE age > 17 AND kind = 'Katze'", gold)
        assert match('SELECT id FROM pets WHERE age > 2 AND kind = "feline"', gold)
        assert not match("SELECT id FROM pets WHERE kind <> 'cat' AND age > 2", gold)
        assert not match("SELECT kind FROM pets WHERE kind = 'cat' AND age > 2", gold)


class TestConfinement:
    @pytest.mark.parametrize(
        "query",
        [
            "DROP TABLE pets",
            "PRAGMA writable_schema = 1",
            "SELECT * FROM pragma_table_info('pets')",
            "SELECT load_extension('x')",
            "ATTACH DATABASE '{target}' AS x",
        ],
    )
    def test_a_query_can_only_read(self, query: str, tmp_path: Path) -> None:
        """Only SELECT is authorised: no writing, ATTACH, PRAGMA or extension; no file appears or changes."""
        file = tmp_path / "pets" / "pets.sqlite"
        file.parent.mkdir()
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(SCHEMA + ROWS)
        before = file.read_bytes()
        target = tmp_path / "written"
        for where in (PETS, Databases((file,))):
            refused = query.format(target=target)
            assert not matches(refused, "SELECT id FROM pets", where, BRIEF)
            with pytest.raises(Unrunnable, match=r"authoriz|prohibited"):
                matches("SELECT 1", refused, where, BRIEF)
        assert not target.exists()
        assert file.read_bytes() == before
        assert [one.name for one in file.parent.iterdir()] == ["pets.sqlite"]

    @pytest.mark.parametrize(
        "query",
        [
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n",
            "SELECT hex(zeroblob(1000000000))",
        ],
    )
    def test_a_query_without_end_is_no_match(self, query: str) -> None:
        """Time, rows and length of values are limited; a query beyond a limit scores 0."""
        assert not matches(query, "SELECT id FROM pets", PETS, Limits(seconds=0.2))


class TestTask:
    def test_every_database_of_the_folder_must_agree(self, tmp_path: Path) -> None:
        """A query that is right on one file of `db_id` and wrong on the other is wrong."""
        folder = tmp_path / "pets"
        folder.mkdir()
        for name, rows in (("a", ROWS), ("b", "INSERT INTO pets VALUES (1,'cat',3,'Ada')")):
            with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
                connection.executescript(SCHEMA + rows)
        task = bound(
            "database",
            databases=tmp_path,
            db_id="pets",
            schema_sql=SCHEMA,
            fully_specified_question="Which are cats?",
            reference_sql="SELECT id FROM pets WHERE kind = 'cat'",
        )
        assert score(task, "SELECT id FROM pets WHERE kind = 'cat'") == 1.0
        assert score(task, "SELECT id FROM pets WHERE age = 3") == 1.0
        with closing(sqlite3.connect(folder / "b.sqlite")) as connection, connection:
            connection.execute("INSERT INTO pets VALUES (2,'dog',3,'Bo')")
        assert score(task, "SELECT id FROM pets WHERE age = 3") == 0.0

    def test_without_a_folder_the_schema_and_its_rows_are_built(self) -> None:
        """Without a folder the database is built from the instruction's schema and rows."""
        task = bound(
            "database",
            db_id="pets",
            schema_sql=SCHEMA,
            rows_sql=ROWS,
            fully_specified_question="q",
            reference_sql="SELECT COUNT(*) FROM pets",
        )
        assert score(task, "SELECT count(id) FROM pets") == 1.0
        assert score(task, "SELECT count(id) + 1 FROM pets") == 0.0

    def test_a_database_without_rows_is_refused(self) -> None:
        """An instruction with empty tables, on which every query would match, is refused with what is missing."""
        with pytest.raises(BadInstruction, match="no rows"):
            bound(
                "database",
                db_id="pets",
                schema_sql=SCHEMA,
                fully_specified_question="q",
                reference_sql="SELECT id FROM pets",
            )

    @pytest.mark.parametrize("name", ["../pets", ".."])
    def test_a_name_does_not_lead_out_of_the_folder(self, name: str, tmp_path: Path) -> None:
        """`db_id` names a folder inside the databases; a path that leads out finds none."""
        inside = tmp_path / "inside"
        inside.mkdir()
        for folder in (tmp_path / "pets", inside):
            folder.mkdir(exist_ok=True)
            with closing(sqlite3.connect(folder / "x.sqlite")) as connection:
                connection.executescript("CREATE TABLE secret (a); INSERT INTO secret VALUES (1)")
        with pytest.raises(BadInstruction):
            bound(
                "database",
                databases=inside,
                db_id=name,
                schema_sql=SCHEMA,
                fully_specified_question="q",
                reference_sql="SELECT a FROM secret",
            )
