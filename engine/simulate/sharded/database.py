"""Questions to databases (Spider): the answer is one query, correct if it returns the rows of the gold query.

Queries written by models run here, confined: the database is opened read-only or built in memory; only what SELECT
needs is authorized (no ATTACH, PRAGMA, writing, virtual tables, loading of extensions); time, the length of a value and
the number of rows are limited. Memory within those limits is not.

Queries are also edited as text: DISTINCT is removed, and values (numbers, and strings in single or double quotes) are
replaced by those of another query. Double quotes may also enclose the name of a column or a table. SQLite decides that
by the schema; here the argument `names` decides. The gold query is the reference of the data set.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Literal

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import (
    Evaluating,
    Evaluation,
    Extraction,
    Task,
    bullets,
    without_judge,
)

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<name>`[^`]*`|\[[^\]]*\]|[^\W\d][\w$]*)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
"""Matches one token of SQL; the name of the group that matched is its kind."""

_SPLIT_SIGNS = (("> =", ">="), ("< =", "<="), ("! =", "!="))
"""Operators that small models split, and how they are joined."""

_CURRENT_YEAR = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)
"""Matches the current year in the SQL of another database."""

_DATA_YEAR = "2020"
"""Replaces the current year, since the known answers are of this year."""


Kind = Literal["space", "name", "value", "sign"]
"""Kinds of tokens; keywords are names too, and values are numbers and strings."""


Row = tuple[object, ...]
"""A row of a result."""

_READ_ACTIONS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
"""The actions that queries may take."""

_BUILD_ACTIONS = _READ_ACTIONS | {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_REINDEX,
}
"""The actions that the script that builds a database may take."""

_STEPS_PER_TIME_CHECK = 10_000
"""Instructions of SQLite's virtual machine between two checks of the time."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a query. The joined texts of all tokens are the query."""

    kind: Kind
    text: str


def tokens(query: str, names: Set[str] = frozenset()) -> list[Token]:
    """Returns the tokens of a query.

    Args:
        names: Names of columns and tables in lower case; a text in double quotes that is not among them is a value.
    """
    query_tokens: list[Token] = []
    for match in _TOKEN.finditer(query):
        text = match.group()
        match match.lastgroup:
            case "string" | "number":
                query_tokens.append(Token("value", text))
            case "quoted":
                is_name = text[1:-1].replace('""', '"').lower() in names
                query_tokens.append(Token("name" if is_name else "value", text))
            case "name":
                query_tokens.append(Token("name", text))
            case "space":
                query_tokens.append(Token("space", text))
            case _:
                query_tokens.append(Token("sign", text))
    return query_tokens


def tidy(query: str) -> str:
    """Returns a query ready to run: on one line, without fence, operators such as `> =` joined, and the current year
    replaced by the year of the data."""
    bare = query.replace("```sql", "").replace("```", "")
    # Removed, because on one line a comment would hide the rest of the query.
    line = " ".join(
        "".join(" " if token.kind == "space" else token.text for token in tokens(bare)).split(" ")
    )
    for split, joined in _SPLIT_SIGNS:
        line = line.replace(split, joined)
    return _CURRENT_YEAR.sub(_DATA_YEAR, line).strip().removesuffix(";").strip()


def without_distinct(query: str) -> str:
    """Returns the query without any DISTINCT."""
    return "".join(token.text for token in tokens(query) if not _is_keyword(token, "distinct"))


def is_ordered(query: str) -> bool:
    """Returns whether ORDER BY occurs anywhere in a query."""
    words = [token for token in tokens(query) if token.kind != "space"]
    return any(
        _is_keyword(first, "order") and _is_keyword(second, "by")
        for first, second in pairwise(words)
    )


def variants(query: str, gold: str, names: Set[str], limit: int) -> Iterator[str]:
    """Yields the query, then the query with its values replaced by those of `gold` in all ways, at most `limit` in all.

    Each place is filled first with its own value, if `gold` has it too, then with the other values in order.
    """
    yield query
    values = list(
        dict.fromkeys(token.text for token in tokens(gold, names) if token.kind == "value")
    )
    query_tokens = tokens(query, names)
    value_indices = [index for index, token in enumerate(query_tokens) if token.kind == "value"]
    choices = [_own_first(query_tokens[index].text, values) for index in value_indices]
    if not value_indices or not values:
        return
    for count, combination in enumerate(product(*choices), 2):  # the query itself was the first
        if count > limit:
            return
        texts = [token.text for token in query_tokens]
        for index, value in zip(value_indices, combination, strict=True):
            texts[index] = value
        if (variant := "".join(texts)) != query:
            yield variant


def _own_first(value: str, values: Sequence[str]) -> list[str]:
    """Returns the values with a given one first."""
    return [
        *(other for other in values if other == value),
        *(other for other in values if other != value),
    ]


def _is_keyword(token: Token, word: str) -> bool:
    """Returns whether a token is this word, in any case."""
    return token.kind == "name" and token.text.lower() == word


class DatabaseTask(Task):
    """A question to a database.

    Keys: `schema_sql`, `fully_specified_question`, `reference_sql`, `db_id`; optional `rows_sql`, which inserts rows
    into the tables of `schema_sql`.

    Queries run on every `.sqlite` file in the folder `db_id` of the databases. If there is none, they run on a database
    built by `schema_sql` and `rows_sql`, which must have at least one row.
    """

    extraction: Extraction = "prefix_suffix"

    def __init__(
        self, instruction: Instruction, texts: Mapping[str, str], databases: Path | None
    ) -> None:
        super().__init__(instruction, texts)
        self._schema = instruction.text("schema_sql")
        self._question = instruction.text("fully_specified_question")
        self._gold = instruction.text("reference_sql")
        rows = instruction.text("rows_sql") if "rows_sql" in instruction.keys else ""
        self._databases = Databases(
            _files(databases, instruction.text("db_id")), f"{self._schema}\n;\n{rows}"
        )
        self._limits = Limits()
        try:
            check(self._databases, self._gold, self._limits)
        except Unrunnable as error:
            raise BadInstruction(
                f"{instruction.task_id}: `reference_sql` cannot be run. {error}",
                "Name the folder that holds the databases, or add `rows_sql` to the instruction.",
            ) from error

    def system_prompt(self) -> str:
        """Returns the system message with the schema."""
        return self.text("system", SCHEMA=self._schema)

    def full_prompt(self) -> str:
        """Returns the full question."""
        return self.text("full", USER_QUERY=self._question)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the shards as a list in place of the question."""
        return self.text("full", USER_QUERY=f"Consider all the following:\n{bullets(shards)}")

    def evaluate(self, answer: str) -> Evaluating:
        """Scores 1 if the query returns the rows of the gold query."""
        matching = matches(answer, self._gold, self._databases, self._limits)
        return without_judge(Evaluation(1.0 if matching else 0.0, {"query": matching}))


def _files(databases: Path | None, db_id: str) -> tuple[Path, ...]:
    """Returns the files of one database; () if `db_id` is not a plain name and could lead out of the folder."""
    if databases is None or Path(db_id).name != db_id or db_id in ("", ".."):
        return ()
    return tuple(sorted((databases / db_id).glob("*.sqlite")))


# Confined databases, and the comparison of queries by their rows


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one comparison; beyond them the queries count as different.

    Attributes:
        variants: Most variants of the answer, with other values, that are tried.
        seconds: Time for all variants together.
        rows: Most rows of the gold result that are read.
        value_bytes: Longest value, and longest query.
    """

    variants: int = 100
    seconds: float = 60.0
    rows: int = 200_000
    value_bytes: int = 2_000_000


class Unrunnable(ValueError):
    """The gold query or the schema cannot be run; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Databases:
    """The databases of a comparison: SQLite files, or if there are none, one in memory built by the SQL `script`."""

    files: tuple[Path, ...] = ()
    script: str = ""

    @contextmanager
    def connected(self, limits: Limits, deadline: float) -> Iterator[list[sqlite3.Connection]]:
        """Yields a confined connection to every database; `deadline` is a time of `time.monotonic`.

        Raises:
            Unrunnable: The script fails, or a file is not a database.
        """
        connections: list[sqlite3.Connection] = []
        try:
            for file in self.files:
                address = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
                connections.append(sqlite3.connect(address, uri=True))
            if not self.files:
                connections.append(_build(self.script, limits, deadline))
            for connection in connections:
                _confine(connection, _READ_ACTIONS, limits, deadline)
            yield connections
        except sqlite3.Error as error:
            raise Unrunnable(f"{type(error).__name__}: {error}") from error
        finally:
            for connection in connections:
                connection.close()


def check(databases: Databases, gold: str, limits: Limits) -> None:
    """Checks that the gold query can be run and compared.

    Raises:
        Unrunnable: It fails, or no table has a row, so that every query would match.
    """
    deadline = time.monotonic() + limits.seconds
    with databases.connected(limits, deadline) as connections:
        for connection in connections:
            connection.execute(tidy(gold)).fetchone()
        if not any(_has_rows(connection) for connection in connections):
            raise Unrunnable("The database has no rows, so every query would match.")


def matches(answer: str, gold: str, databases: Databases, limits: Limits) -> str:
    """Compares an answer with the gold query by the rows that they return.

    DISTINCT is removed from both. The literal values of the answer are replaced by those of the gold query in all ways
    (variants). Rows are compared as a multiset, or as a list if the gold query has ORDER BY; columns may be in another
    order. The answer matches if one variant matches on every database. These are the generous rules of the published
    evaluation: a wrong query counts as correct if one of its variants returns the same rows on these databases.

    Returns:
        The variant that matches, "" for none.

    Raises:
        Unrunnable: The gold query does not run.
    """
    if not answer.strip():
        return ""
    deadline = time.monotonic() + limits.seconds
    gold_query, answer_query = without_distinct(tidy(gold)), without_distinct(tidy(answer))
    ordered = is_ordered(gold_query)
    with databases.connected(limits, deadline) as connections:
        results = [_rows(connection, gold_query, limits.rows) for connection in connections]
        names = frozenset[str]().union(*(_names(connection) for connection in connections))
        for query in variants(answer_query, gold_query, names, limits.variants):
            if all(
                _returns_rows(connection, query, rows, ordered)
                for connection, rows in zip(connections, results, strict=True)
            ):
                return query
            if time.monotonic() > deadline:
                break
    return ""


def same_rows(expected: Sequence[Row], answer_rows: Sequence[Row], *, ordered: bool) -> bool:
    """Returns whether two results are equal for some order of the columns.

    Args:
        ordered: Rows are compared as lists; else as multisets.
    """
    if len(expected) != len(answer_rows):
        return False
    if not expected:
        return True
    width = len(expected[0])
    if len(answer_rows[0]) != width:
        return False
    candidates = [
        [
            index
            for index in range(width)
            if _column(answer_rows, index, ordered) == _column(expected, position, ordered)
        ]
        for position in range(width)
    ]
    return _can_be_arranged(expected, answer_rows, ordered, candidates, columns=())


def _can_be_arranged(
    expected: Sequence[Row],
    answer_rows: Sequence[Row],
    ordered: bool,
    candidates: Sequence[Sequence[int]],
    columns: tuple[int, ...],
) -> bool:
    """Returns whether the columns of `answer_rows` can be assigned to those of `expected`.

    It backtracks; each step compares the rows so far.

    Args:
        candidates: For each column of `expected`, the indices of the columns of `answer_rows` with the same values.
        columns: The columns that are assigned to the first ones of `expected` so far.
    """
    if len(columns) == len(candidates):
        return True
    tried_columns: set[tuple[object, ...]] = set()
    for index in candidates[len(columns)]:
        column = tuple(row[index] for row in answer_rows)
        if index in columns or column in tried_columns:  # equal columns are interchangeable
            continue
        tried_columns.add(column)
        assigned = (*columns, index)
        beginnings = [row[: len(assigned)] for row in expected]
        rearranged = [tuple(row[position] for position in assigned) for row in answer_rows]
        equal = beginnings == rearranged if ordered else Counter(beginnings) == Counter(rearranged)
        if equal and _can_be_arranged(expected, answer_rows, ordered, candidates, assigned):
            return True
    return False


def _column(rows: Sequence[Row], index: int, ordered: bool) -> object:
    """Returns the values of a column in the form that is compared."""
    values = [row[index] for row in rows]
    return values if ordered else Counter(values)


def _returns_rows(
    connection: sqlite3.Connection, query: str, expected: Sequence[Row], ordered: bool
) -> bool:
    """Returns whether a query returns the expected rows; one that fails does not."""
    try:
        # One row more than expected suffices to see that there are too many.
        answer_rows = _rows(connection, query, len(expected) + 1)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError):
        return False
    return same_rows(expected, answer_rows, ordered=ordered)


def _rows(connection: sqlite3.Connection, query: str, limit: int) -> list[Row]:
    """Returns the first rows of a query, at most `limit`."""
    with closing(connection.execute(query)) as cursor:
        return [tuple(row) for row in cursor.fetchmany(limit)]


def _build(script: str, limits: Limits, deadline: float) -> sqlite3.Connection:
    """Returns a database in memory that a script has built."""
    connection = sqlite3.connect(":memory:")
    _confine(connection, _BUILD_ACTIONS, limits, deadline)
    try:
        connection.executescript(script)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _confine(
    connection: sqlite3.Connection, allowed: frozenset[int], limits: Limits, deadline: float
) -> None:
    """Confines a connection to some actions, a time and a length of values."""

    def authorize(
        action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
    ) -> int:
        """Allows the actions, and all functions but the one that loads extensions; called by SQLite."""
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_DENY if second == "load_extension" else sqlite3.SQLITE_OK
        return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS_PER_TIME_CHECK)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.text_factory = lambda raw: raw.decode("utf-8", "ignore")


def _names(connection: sqlite3.Connection) -> frozenset[str]:
    """Returns the names of tables and columns in lower case."""
    tables = [
        str(table)
        for (table,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        )
    ]
    names = {table.lower() for table in tables}
    for table in tables:
        with closing(connection.execute(f"SELECT * FROM {_quote(table)} LIMIT 0")) as cursor:
            names.update(name.lower() for name, *_ in cursor.description)
    return frozenset(names)


def _has_rows(connection: sqlite3.Connection) -> bool:
    """Returns whether a table of the database has a row."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return any(
        connection.execute(f"SELECT 1 FROM {_quote(str(name))} LIMIT 1").fetchone()
        for (name,) in tables
    )


def _quote(name: str) -> str:
    """Returns the name of a table as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
