"""Users with profiles on the default model: simulated, labelled, predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.tables.truth import truth_by_conversation
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.rating_scales import RATINGS
from engine.questions.tables import verdicts
from engine.simulate.profiles.labelling import agreement_rows, label_rows, tag_labels
from engine.simulate.profiles.ratings import rated_by_turns, rating_agreement
from engine.simulate.records import PlayRow
from engine.simulate.recsim.behaviour import SCHEMAS
from tests.workbench.test_analyse_profiles import PEOPLE, project, simulated
from workbench.cli import main


def row(conversation: int, final: dict[str, Any], *runs: dict[str, Any]) -> PlayRow:
    """A play with the labels of one conversation in the second schema."""
    labels = {"final": final, **{str(n): run for n, run in enumerate(runs, 1)}}
    result = {"conversation": conversation, "labels": {"strategy_V2": labels}}
    return PlayRow(1, "c", "behaviour", str(conversation), 1, None, None, result)


DEEP = {"order": "Depth", "feedback": "Positive"}
WIDE = {"order": "Breadth", "feedback": "Positive"}


class TestTags:
    def test_a_new_label_replaces_the_tag_of_the_old_one(self, tmp_path: Path) -> None:
        """A conversation has the tags of its newest labels, who gave them is stored, and other tags stay."""
        path = project(tmp_path / "p.wb", [simulated(1), simulated(2)])
        with Project.open(path) as opened:
            store = ConversationService(opened)
            assert tag_labels(opened, [row(1, DEEP), row(2, {})], ["strategy_V2"], "m") == 2
            opened.write(lambda conn: verdicts.tag(conn, [1], "mine"))
            assert tag_labels(opened, [row(1, WIDE)], ["strategy_V2"], "m") == 1
            (first, second) = store.rows([1, 2])
            assert sorted(first.tags) == [
                "mine", "strategy_V2.feedback.Positive", "strategy_V2.order.Breadth",
            ]  # fmt: skip
            assert second.tags == ()
            assert list(store.ids(ListQuery(parse_filter("tag:strategy_V2.order.Breadth")))) == [1]


class TestTables:
    def test_labels(self) -> None:
        """The table has the counts of the labels, the number of conversations with one, and of those where all runs
        agree.
        """
        rows = [row(1, DEEP, DEEP, DEEP, DEEP), row(2, WIDE, WIDE, DEEP, WIDE), row(3, {})]
        order, feedback = label_rows(rows, ["strategy_V2"])
        assert (order.asked, order.labelled, order.unanimous) == (3, 2, 0.5)
        assert order.counts == {"Depth": 1, "Breadth": 1, "DepthBreadth": 0, "BreadthDepth": 0}
        assert (feedback.counts["Positive"], feedback.unanimous) == (2, 1)

    def test_agreement(self) -> None:
        """Agreement is with the published labels and with people's, each over conversations that have both; an invalid
        label counts as none.
        """
        rows = [row(1, DEEP), row(2, WIDE), row(3, WIDE)]
        truths = {
            1: {"strategy_V2": {"final": DEEP}, "strategy_human_V2": {"final": WIDE}},
            2: {"strategy_V2": {"final": DEEP}},
            3: {"strategy_V2": {"final": {"order": "Sideways"}}},
        }
        found = {
            (one.label, one.one, one.other): one.found
            for one in agreement_rows(rows, truths, ["strategy_V2"])
        }
        assert found["order", "model", "published"].count == 2
        assert found["order", "model", "published"].accuracy.value == 0.5
        assert found["order", "model", "people"].accuracy.value == 0
        assert found["order", "published", "people"].count == 1
        assert found["feedback", "model", "published"].accuracy.value == 1
        assert found["feedback", "model", "published"].kappa is None
        assert found["order", "model", "published"].weighted is None

    def test_grades(self) -> None:
        """The majority vote of the third schema is compared with the uniform file; grades also have an agreement
        weighted by distance.
        """
        final = {"question_broadness": 4, "context_dependency": 3, "feedback": "Both"}
        rows = [
            PlayRow(n, "c", "behaviour", str(n), 1, None, None,
                    {"conversation": n, "labels": {"strategy_V3": {"final": {**final, "question_broadness": n}}}})
            for n in (2, 3, 4)
        ]  # fmt: skip
        truths = {n: {"user_strategy": {**final, "question_broadness": n}} for n in (2, 3, 4)}
        first = agreement_rows(rows, truths, ["strategy_V3"])[0]
        assert (first.label, first.found.count, first.found.accuracy.value) == (
            "question_broadness",
            3,
            1,
        )
        assert first.found.weighted is not None
        assert first.found.weighted.value == 1


class TestRatings:
    def test_agreement_with_what_came_along_and_with_people(self) -> None:
        """Ratings are compared with truth and with one person's tags; annotations of messages place by place, where
        both sides have one."""
        ours = {"Diversity": 2, "Memorization": 1}
        result = {
            "conversation": 1, "labels": {"rating": {"final": ours}},
            "user_intents": ["Planning", None, "Others"], "hallucination": [True, False],
        }  # fmt: skip
        rows = [PlayRow(1, "c", "ratings", "1", 1, None, None, result)]
        truths = {
            1: {
                "rating": {"Diversity": 1},
                "user_intents": ["Planning", "Search", "Search"],
                "hallucination": [None, False],
            }
        }
        found = rating_agreement(
            rows, truths, {1: ("people.Diversity.2", "people.Memorization.0", "x")}
        )
        assert [
            (one.label, one.other, one.found.count, one.found.accuracy.value) for one in found
        ] == [
            ("Memorization", "people", 1, 0.0),
            ("Diversity", "published", 1, 0.0),
            ("Diversity", "people", 1, 1.0),
            ("user_intents", "published", 2, 0.5),
            ("hallucination", "published", 1, 1.0),
        ]
        (row,) = rated_by_turns(rows, {1: 3})
        assert (row.turns, row.means["Diversity"].value) == (3, 2.0)


class TestOnTheDefaultModel:
    def test_simulated(
        self, tuned_shallow: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A simulated conversation is stored with its profile as truth, hidden from models; a second run asks
        nothing.
        """
        path = tmp_path / "p.wb"
        words = ["simulate", "recsim", str(path), "--task", "preparing gifts", "--turns", "1"]
        words += ["--user-tokens", "16", "--assistant-tokens", "16", "--context", "1024", "--json"]
        words += ["--translate"]
        assert main(words) == 0
        told = json.loads(capsys.readouterr().out)
        assert [one["task"] for one in told["tasks"]] == ["preparing gifts"]
        assert told["runs"][0]["turns"] == 1
        with Project.open(path, read_only=True) as opened, opened.reading() as conn:
            ((_, truth),) = truth_by_conversation(conn)
        assert truth["goal"] == "preparing gifts"
        assert all(one["content_zh"] for one in truth["messages"])
        assert set(truth["profile_mapped"]) >= {"Gender", "Age", "Occupation"}
        assert main(words) == 0
        second = capsys.readouterr()
        assert json.loads(second.out) == told
        assert "1 were played before" in second.err

    def test_labelled_and_guessed(
        self, tuned_shallow: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Every reply is one of the labels or answers, in Chinese as well, and conversations stay unchanged."""
        records = [simulated(n) for n in range(PEOPLE)]
        records[0]["history"][0]["content"] = "我想给外甥女准备礼物，有什么建议？"
        records[0]["strategy_V2"] = {"final": DEEP}
        path = project(tmp_path / "p.wb", records)
        capsys.readouterr()
        words = ["analyse", "behaviour", path, "--schema", "strategy_V2", "--limit", "2", "--json"]
        assert main([*words, "--context", "2048", "--tag"]) == 0
        told = json.loads(capsys.readouterr().out)
        with Project.open(path, read_only=True) as opened:
            tags = dict(ConversationService(opened).tags())
        assert tags == {
            f"strategy_V2.{one['label']}.{label}": count
            for one in told["labels"]
            for label, count in one["counts"].items()
            if count
        }
        assert [one["labelled"] for one in told["labels"]] == [2, 2]
        for one in told["labels"]:
            assert set(one["counts"]) == {str(x) for x in SCHEMAS["strategy_V2"][one["label"]]}
        assert {one["count"] for one in told["agreement"]} == {1}

        words = ["analyse", "ratings", path, "--part", "ratings", "--limit", "2", "--tag", "--json"]
        assert main([*words, "--context", "2048"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert sum(one["conversations"] for one in told["turns"]) == 2
        rated = told["conversations"][0]["rating"]
        assert set(rated) == set(RATINGS)
        with Project.open(path, read_only=True) as opened:
            (first,) = ConversationService(opened).rows([1])
        assert {f"rating.{name}.{grade}" for name, grade in rated.items()} <= set(first.tags)

        words = [
            "analyse",
            "profiles",
            path,
            "--llm",
            "--limit",
            "2",
            "--context",
            "2048",
            "--json",
        ]
        assert main(words) == 0
        rows = json.loads(capsys.readouterr().out)["profiles"]
        assert {one["way"] for one in rows} == {
            "most frequent", "linear", "nearest (tfidf)", "language model"
        }  # fmt: skip
        assert {one["conversations"] for one in rows} == {2}

    def test_nobody_speaks(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Conversations without a user message are a usage error before any model is asked."""
        silent = {"id": "a", "messages": [{"role": "assistant", "content": "Hello?"}]}
        path = project(tmp_path / "p.wb", [silent])
        assert main(["analyse", "behaviour", path]) == 2
        assert "does a user speak" in capsys.readouterr().err
