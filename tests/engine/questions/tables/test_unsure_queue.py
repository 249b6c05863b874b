"""The order `unsure` of the triage queue, which comes from response trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from engine.conversations.filters import ListQuery, parse_filter
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from engine.trees.options import TreeOptions
from engine.trees.tables import TreeEntry
from tests.screens.trees.tree_project import CONFIG, entry, grown, imported, run_of, store

COUNT = 20


def give_trees(
    project: Project, figures: Mapping[int, tuple[int, float]], config: str = "cafe", step: int = 2
) -> None:
    """Stores a tree for each conversation with this number of leaves and best log-probability."""
    kept = replace(CONFIG, config_hash=config)
    run_id = run_of(project, kept)
    one = entry(1, grown(b"a", TreeOptions(0.2, max_tokens=2)), run_id, kept)
    entries = [
        TreeEntry(
            replace(one.row, conversation_id=key, step=step, leaves=leaves, max_log_prob=best),
            one.frame,
        )
        for key, (leaves, best) in figures.items()
    ]
    store(project, entries, kept)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Twenty conversations, the last one without a tree."""
    with imported(tmp_path / "p.wb", COUNT) as made:
        plain = {n: (n, -1 - n / 100) for n in range(1, COUNT)}
        # Of 19 trees the top tenth are two: 7 and 8 by leaves, 8 and 9 by their best answer.
        give_trees(made, {**plain, 7: (90, -0.5), 8: (80, -5.0), 9: (1, -6.0)})
        yield made


def queued(project: Project, filter_text: str = "") -> list[int]:
    """Conversations in the order `unsure`."""
    page = TriageService(project).queue("unsure", ListQuery(parse_filter(filter_text)))
    assert page.total == len(page.items)
    return [item.conversation_id for item in page.items]


class TestOrder:
    def test_both_tenths_then_one_then_the_rest(self, project: Project) -> None:
        """Conversations in both top tenths come first, then those in one, then the others by the sum of both ranks;
        only those with a tree.
        """
        found = queued(project)
        assert found[0] == 8
        assert set(found[1:3]) == {7, 9}
        assert found[3:6] == [19, 18, 17]
        assert sorted(found) == list(range(1, COUNT))

    def test_why(self, project: Project) -> None:
        """The reason of each item names its tenth."""
        items = TriageService(project).queue("unsure").items
        why = {item.conversation_id: item.why for item in items}
        assert why[8] == "unsure: 80 leaves and an unlikely best answer, both in the top tenth"
        assert why[7] == "unsure: 90 leaves, in the top tenth"
        assert why[9] == "unsure: 1 leaf; the best answer is among the least likely tenth"
        assert why[19] == "not among the most unsure tenth: 19 leaves"


class TestTies:
    def test_several_trees_of_a_conversation(self, tmp_path: Path) -> None:
        """Of several trees of a conversation the most leaves and the lowest best log-probability count."""
        with imported(tmp_path / "p.wb", 3) as project:
            give_trees(project, {1: (5, -1.0), 2: (6, -1.5)})
            give_trees(project, {1: (2, -9.0), 2: (1, -1.0)}, step=4)
            items = TriageService(project).queue("unsure").items
        assert [(item.conversation_id, item.why) for item in items] == [
            (1, "unsure: 5 leaves; the best answer is among the least likely tenth"),
            (2, "unsure: 6 leaves, in the top tenth"),
        ]
