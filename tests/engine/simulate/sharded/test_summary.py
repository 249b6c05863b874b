"""Summary tasks: which insights a judge finds covered, and how well their lines cite the documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.errors import BadInstruction
from engine.simulate.sharded.task import Task
from engine.simulate.sharded.tasks import citation_f1
from tests.engine.simulate.sharded.bound import bound, scored

SHARDS = [
    {"shard_id": 0, "shard": "", "doc_idxs": [3, 1]},
    {"shard_id": 1, "shard": "", "doc_idxs": [2]},
]
KEYS: dict[str, Any] = {
    "domain": "news",
    "topic": "Trams",
    "query": "What do riders think?",
    "documents": [
        {"document_id": f"d{number}", "document_index": number, "document_text": f"Text {number}."}
        for number in (1, 2, 3)
    ],
    "insights": [
        {"insight_id": "i1", "insight": "Riders like the new seats."},
        {"insight_id": "i2", "insight": "Fares went up by 5 percent."},
    ],
    "insightid2ref_citations": {"i1": [1, 3], "i2": [2]},
}


def summarized(**changes: Any) -> Task:
    """Three documents with two insights, in two shards."""
    return bound("summary", SHARDS, **{**KEYS, **changes})


def judge(*verdicts: Any) -> Any:
    """A judge that gives these replies one after another."""
    left = list(verdicts)
    return lambda call: left.pop(0)


def verdict(coverage: str, line: int) -> dict[str, Any]:
    """The judge's reply."""
    return {"coverage": f"{coverage}_COVERAGE", "bullet_id": line}


class TestScore:
    def test_coverage_times_citation_averaged_over_insights(self) -> None:
        """One insight full with F1 2/3, one partial with F1 1: (1 * 2/3 + 1/2 * 1) / 2."""
        evaluation, asked = scored(
            summarized(),
            "- Seats are liked [1].\n- Fares rose [2].",
            judge(verdict("FULL", 1), verdict("PARTIAL", 2)),
        )
        assert evaluation.score == pytest.approx((2 / 3 + 1 / 2) / 2)
        assert evaluation.details == {"coverage": 0.75, "insights": 2, "unjudged": 0}
        assert [call.role for call in asked] == ["judge", "judge"]

    def test_the_judge_chooses_among_the_lines(self) -> None:
        """Its reply is constrained to the three words and the numbers of lines that are not empty."""
        _, requests = scored(summarized(), "- a\n\n- b", judge(verdict("NO", 0), verdict("NO", 0)))
        schema = json.loads(requests[0].sampling.json_schema or "")
        assert schema["properties"]["bullet_id"]["enum"] == [0, 1, 3]
        assert requests[0].messages[-1].content.count("Riders like the new seats.") == 1
        assert "Fares went up" not in requests[0].messages[-1].content

    @pytest.mark.parametrize("bad", ["{", verdict("FULL", 9)])
    def test_a_bad_verdict_is_asked_again_and_then_counts_as_no_coverage(self, bad: Any) -> None:
        """An invalid verdict is asked for again with another seed; after a second one the insight is not covered, and
        the details say so.
        """
        evaluation, asked = scored(
            summarized(), "- Seats [1, 3].", judge(bad, bad, bad, verdict("FULL", 1))
        )
        assert evaluation.details["unjudged"] == 1
        assert evaluation.score == 0.0
        assert asked[0] != asked[1]
        assert len(asked) == 4


class TestCitations:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("x [1, 3]", 1.0),
            ("x [1][3]", 1.0),
            ("x [1, 3, 7, 8]", 2 / 3),
            ("x [2]", 0.0),
            ("x [see 1, 3]", 0.0),
        ],
    )
    def test_f1_of_the_documents(self, line: str, expected: float) -> None:
        """The F1 of citations, which are numbers in square brackets, against documents 1 and 3."""
        assert citation_f1(line, frozenset({1, 3})) == pytest.approx(expected)


class TestPrompts:
    def test_no_prompt_gives_the_insights_away(self) -> None:
        """The assistant's prompts have the number of insights and none of their texts."""
        task = summarized()
        seen = task.system_prompt() + task.full_prompt()
        assert "about 2 bullet points" in seen
        assert "Riders like" not in seen

    @pytest.mark.parametrize(
        "change",
        [
            {"documents": [{"document_text": "no number"}]},
            {"documents": KEYS["documents"][:1]},
            {"insights": [{"insight_id": "i9", "insight": "uncited"}]},
        ],
    )
    def test_bad_keys_are_refused(self, change: dict[str, Any]) -> None:
        """Documents without numbers, shards of unknown documents and insights without citations are refused."""
        with pytest.raises(BadInstruction):
            summarized(**change)
