"""Questions to databases (Spider): the answer is one query, correct if it returns the rows of the gold query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Evaluating, Evaluation, Extraction, without_judge
from engine.simulate.sharded.tasks.base import TaskText, bullets
from engine.simulate.sharded.tasks.sql_match import Databases, Limits, Unrunnable, check, matches


class DatabaseTask(TaskText):
    """Keys: `schema_sql`, `fully_specified_question`, `reference_sql`, `db_id`; optional `rows_sql`, which
    inserts rows into the tables of `schema_sql`.

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
        return self.text("system", SCHEMA=self._schema)

    def full_prompt(self) -> str:
        return self.text("full", USER_QUERY=self._question)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        return self.text("full", USER_QUERY=f"Consider all the following:\n{bullets(shards)}")

    def evaluate(self, answer: str) -> Evaluating:
        matching = matches(answer, self._gold, self._databases, self._limits)
        return without_judge(Evaluation(1.0 if matching else 0.0, {"query": matching}))


def _files(databases: Path | None, db_id: str) -> tuple[Path, ...]:
    """Returns the files of one database; () if `db_id` is not a plain name and could lead out of the folder."""
    if databases is None or Path(db_id).name != db_id or db_id in ("", ".."):
        return ()
    return tuple(sorted((databases / db_id).glob("*.sqlite")))
