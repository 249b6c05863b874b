"""No table is forgotten: each is dealt with where a text is replaced."""

from __future__ import annotations

import inspect
import re

import pytest

from engine.conversations.tables import earlier_states, facets
from engine.project.project import Project

STAYS = {
    "alias", "earlier_state", "question", "answer", "answerer",  # what was imported and what people said
    "machine_answer",  # keyed by what answered
    "assignment", "goal_move", "membership", "no_vector",  # clusterings stay as they were made
    "generated_end",  # goes with its score
    "play", "watched",
}  # fmt: skip
"""Tables about conversations whose rows stay when an import brings another text."""


@pytest.fixture
def tables(project: Project) -> dict[str, set[str]]:
    """The columns of each table of a project, those of the full-text indexes left out."""
    with project.reading() as conn:
        names = conn.execute("SELECT name FROM pragma_table_list WHERE type = 'table'").fetchall()
        return {
            name: {row[1] for row in conn.execute(f"PRAGMA table_info({name})")}
            for (name,) in names
            if not name.startswith("sqlite_")
        }


def test_of_a_replaced_text_everything_goes_or_stays(tables: dict[str, set[str]]) -> None:
    """The rows of a conversation in each table are deleted when its text is replaced, or are known to stay."""
    code = "".join(map(inspect.getsource, (earlier_states, facets)))
    goes = {name for name in tables if re.search(rf"\b{name}\b", code)}
    about = {name for name, columns in tables.items() if "conversation_id" in columns}
    assert about - goes - STAYS == set()
