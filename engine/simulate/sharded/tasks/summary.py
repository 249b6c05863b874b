"""Summaries with citations (Summary of a Haystack): the score is coverage of the insights times quality of citation.

A judge decides for each insight whether a line of the summary covers it. The published instructions send the first
documents twice, with the opening and again one turn later; here each shard is sent once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.base.errors import BadInstruction
from engine.model.chat import Call, ChatMessage, Completion
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.model.asking import TRIES, ask_json, object_schema
from engine.simulate.sharded.task import Evaluating, Evaluation, Extraction
from engine.simulate.sharded.tasks.base import TaskText, listed, mapped

WORDS = 300
"""Most words of a summary that are judged."""

_CREDIT = {"NO_COVERAGE": 0.0, "PARTIAL_COVERAGE": 0.5, "FULL_COVERAGE": 1.0}
_CITED = re.compile(r"\[([\d, ]+)\]")
_LONGEST = 64
"""Longest reply of the judge, in tokens."""


@dataclass(frozen=True, slots=True)
class _Insight:
    text: str
    documents: frozenset[int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge's verdict on one insight.

    Attributes:
        coverage: A key of `_CREDIT`.
        line: Number of the line that covers the insight, from 1; 0 for none.
    """

    coverage: str
    line: int


def cut(summary: str, words: int = WORDS) -> list[str]:
    """Returns the lines of a summary. If it is too long, each line is cut by the same share, but keeps a word."""
    lines = summary.split("\n")
    total = sum(len(line.split()) for line in lines)
    if total <= words:
        return lines
    return [" ".join(line.split()[: max(1, len(line.split()) * words // total)]) for line in lines]


def citation_f1(line: str, documents: frozenset[int]) -> float:
    """Returns the F1 score, 0 to 1, of the documents cited in a line (`[3, 7]`) against those that have the insight."""
    cited = {
        int(number)
        for group in _CITED.findall(line)
        for number in group.replace(" ", ",").split(",")
        if number
    }
    shared = len(cited & documents)
    return 2 * shared / (len(cited) + len(documents)) if shared else 0.0


class SummaryTask(TaskText):
    """Keys: `domain`, `topic`, `query`, `documents`, `insights`, `insightid2ref_citations`; shards have `doc_idxs`."""

    extraction: Extraction = "full_response"
    always_attempts = True
    scored_at_end = True

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        self._news = instruction.text("domain") != "conv"
        self._topic, self._query = instruction.text("topic"), instruction.text("query")
        self._documents = _documents(instruction)
        self._insights = _insights(instruction)
        for shard in instruction.shards:
            numbers = shard.extra.get("doc_idxs")
            if not isinstance(numbers, list) or not all(
                isinstance(one, int) and one in self._documents for one in numbers
            ):
                raise BadInstruction(
                    f"{instruction.task_id}: `doc_idxs` of shard {shard.shard_id} must name documents."
                )

    def full_prompt(self) -> str:
        return self._opening(self._laid_out(list(self._documents)))

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        chunks = "".join(
            f"Document Chunk {number}:\n{self._laid_out(shard.extra['doc_idxs'])}"
            for number, shard in enumerate(shards, 1)
        )
        return self._opening(self.text("chunks", CHUNKS=chunks))

    def user_turn(self, shards: Sequence[Shard], at: int) -> str | None:
        documents = self._laid_out(shards[at].extra["doc_idxs"])
        return self.text("next", DOCUMENTS=documents) if at else self._opening(documents)

    def evaluate(self, answer: str) -> Evaluating:
        lines = cut(answer)
        if not answer.strip():
            return Evaluation(0.0, {"insights": len(self._insights)})
        coverage, joint, unjudged = [], [], 0
        for insight in self._insights:
            verdict = yield from self._judged(insight, lines)
            if verdict is None:
                unjudged += 1
                verdict = Verdict("NO_COVERAGE", 0)
            credit = _CREDIT[verdict.coverage]
            cited = citation_f1(lines[verdict.line - 1], insight.documents) if verdict.line else 0.0
            coverage.append(credit)
            joint.append(credit * cited)
        count = len(self._insights)
        details = {
            "coverage": sum(coverage) / count,
            "insights": count,
            "unjudged": unjudged,
        }
        return Evaluation(sum(joint) / count, details)

    def _judged(
        self, insight: _Insight, lines: Sequence[str]
    ) -> Generator[Call, Completion, Verdict | None]:
        """Asks the judge about one insight; returns None if no reply could be used."""
        numbered = [number for number, line in enumerate(lines, 1) if line.strip()]
        shown = json.dumps(
            {"bullets": [{"bullet_id": number, "text": lines[number - 1]} for number in numbered]},
            ensure_ascii=False,
            indent=1,
        )
        prompt = self.text("judge", BULLETS=shown, INSIGHT=insight.text)
        schema = object_schema(coverage={"enum": [*_CREDIT]}, bullet_id={"enum": [0, *numbered]})
        call = Call(
            module="summary judge",
            role="judge",
            messages=(ChatMessage("user", prompt),),
            max_tokens=_LONGEST,
        )
        accept = partial(_verdict, numbered=numbered)
        return (yield from ask_json(call, schema, accept, TRIES[:2]))

    def _opening(self, documents: str) -> str:
        return self.text(
            "news" if self._news else "conv",
            TOPIC=self._topic,
            QUERY=self._query,
            DOCUMENTS=documents,
            N_DOCS=str(len(self._documents)),
            N_INSIGHTS=str(len(self._insights)),
        )

    def _laid_out(self, numbers: Sequence[int]) -> str:
        return "".join(f"Document {one}:\n{self._documents[one]}\n\n" for one in numbers)


def _verdict(reply: Mapping[str, Any], numbered: Sequence[int]) -> Verdict | None:
    coverage, line = reply.get("coverage"), reply.get("bullet_id")
    if coverage not in _CREDIT or type(line) is not int:
        return None
    return Verdict(coverage, line) if line in (0, *numbered) else None


def _documents(instruction: Instruction) -> dict[int, str]:
    found: dict[int, str] = {}
    for one in listed(instruction, "documents"):
        if (
            not isinstance(one, dict)
            or not isinstance(one.get("document_text"), str)
            or not isinstance(one.get("document_index"), int)
        ):
            raise BadInstruction(
                f"{instruction.task_id}: a document needs `document_index`, a number, and `document_text`."
            )
        found[one["document_index"]] = one["document_text"]
    return found


def _insights(instruction: Instruction) -> list[_Insight]:
    citations = mapped(instruction, "insightid2ref_citations")
    found: list[_Insight] = []
    for one in listed(instruction, "insights"):
        if not isinstance(one, dict) or not isinstance(one.get("insight"), str):
            raise BadInstruction(f"{instruction.task_id}: an insight has no text.")
        documents = citations.get(str(one.get("insight_id")))
        if not isinstance(documents, list) or not all(isinstance(each, int) for each in documents):
            raise BadInstruction(
                f"{instruction.task_id}: `insightid2ref_citations` lists no documents for {one.get('insight_id')!r}."
            )
        found.append(_Insight(one["insight"], frozenset(documents)))
    return found
