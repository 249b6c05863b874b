"""The seven tasks of sharded simulation by name, and those whose answers are texts: math, descriptions of tables,
translation and summaries.

Summaries (Summary of a Haystack) are scored by coverage of the insights times quality of citation. A judge decides for
each insight whether a line of the summary covers it. The published instructions send the first documents twice, with
the opening and again one turn later; here each shard is sent once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from engine.base.errors import BadInstruction, PackageMissing
from engine.model.chat import TRIES, Call, ChatMessage, Completion
from engine.model.reply_forms import Limits
from engine.model.structured_replies import ask_in_play
from engine.simulate.sharded.actions import ActionsTask
from engine.simulate.sharded.code import CodeTask
from engine.simulate.sharded.database import DatabaseTask
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import (
    Evaluating,
    Evaluation,
    Extraction,
    Task,
    bullets,
    list_of,
    value_of,
    without_judge,
)

_NUMBER = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
"""Matches a number as the published evaluation finds it."""

_MARK = "####"
"""Stands before the number in a known answer."""

MAX_WORDS = 300
"""Most words of a summary that are judged."""

_CREDIT = {"NO_COVERAGE": 0.0, "PARTIAL_COVERAGE": 0.5, "FULL_COVERAGE": 1.0}
"""The credit for each degree of coverage."""

_CITED = re.compile(r"\[([\d, ]+)\]")
"""Matches the numbers of documents that a line cites: `[3, 7]`."""

_MAX_JUDGE_TOKENS = 64
"""Longest reply of the judge, in tokens."""


def last_number(text: str) -> str | None:
    """Returns the last number of a text in the form that is compared; None if there is none.

    A number is what the regular expression of the published evaluation matches, which also matches two or more of `$.,`
    without a digit. The form that is compared has no `,`, no `$`, no `.00` after a sum in dollars and no final dot.
    """
    numbers = [match.group() for match in _NUMBER.finditer(text.strip())]
    return _plain(numbers[-1]) if numbers else None


def _plain(number: str) -> str:
    """Returns a number in the form that is compared."""
    if "$" in number:
        number = number.removesuffix(".00")
    return number.replace(",", "").replace("$", "").removesuffix(".")


class MathTask(Task):
    """A word problem with one number as its answer. Keys: `question`, `answer` ("... #### 16")."""

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        self._question = instruction.text("question")
        _, mark, gold = instruction.text("answer").partition(_MARK)
        if not mark or not gold.strip():
            raise BadInstruction(
                f"{instruction.task_id}: `answer` must end with {_MARK} and the number."
            )
        self._gold = _plain(gold.strip().lower())

    def full_prompt(self) -> str:
        """Returns the full question."""
        return self.text("full", QUESTION=self._question)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the shards as a list in place of the question."""
        return self.text("full", QUESTION=bullets(shards))

    def evaluate(self, answer: str) -> Evaluating:
        """Scores 1 if the last number of the answer is the known one."""
        number = last_number(answer)
        score = 1.0 if number == self._gold else 0.0
        return without_judge(Evaluation(score, {"number": number, "gold": self._gold}))


def require_bleu() -> None:
    """Checks before a run that BLEU can be computed.

    Raises:
        UsageError: sacrebleu is not installed.
    """
    if find_spec("sacrebleu") is None:
        raise PackageMissing(
            "Translations and descriptions of tables are scored with sacrebleu, which is not installed.",
            "Install it with `pip install 'conversation-workbench[simulate]'`, or leave these tasks out.",
        )


def bleu(text: str, references: Sequence[str]) -> float:
    """Returns the corpus BLEU of one segment against one or more references, 0 to 1.

    A text equal to its reference scores exactly 1 if it has at least four tokens, which BLEU needs.
    """
    import sacrebleu

    score = sacrebleu.corpus_bleu(
        [text.strip()], [[reference.strip()] for reference in references]
    ).score
    # Rounded, because the geometric mean of four precisions of 1 differs from 1 by a rounding error.
    return round(min(max(score / 100, 0.0), 1.0), 12)


class DataToTextTask(Task):
    """A table to describe in words. Keys: `table_highlighted_html`, `fewshot_descriptions`, `metadata`, `references`.

    No model plays the user: each shard is sent verbatim, the table too.
    """

    extraction: Extraction = "full_response"

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        require_bleu()
        self._table = instruction.text("table_highlighted_html")
        self._examples = instruction.text("fewshot_descriptions")
        self._context = "".join(
            f"{name}: {value}\n"
            for name, value in value_of(instruction, "metadata", dict[str, Any]).items()
        )
        self._references = list_of(instruction, "references", str)

    def full_prompt(self) -> str:
        """Returns the table with the examples and the metadata."""
        return self.text(
            "full",
            TABLE_HTML=self._table,
            FEWSHOT_DESCRIPTIONS=self._examples,
            CONTEXT=self._context,
        )

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the shards as numbered hints, in place of the table."""
        hints = "".join(f"Hint {shard.shard_id}:\n{shard.text}\n\n" for shard in shards)
        return self.text("full", TABLE_HTML="", FEWSHOT_DESCRIPTIONS="", CONTEXT=hints)

    def user_turn(self, shards: Sequence[Shard], index: int) -> str | None:
        """Returns the shard itself."""
        return shards[index].text

    def evaluate(self, answer: str) -> Evaluating:
        """Scores the answer by BLEU against the references."""
        return without_judge(Evaluation(bleu(answer, self._references)))


class TranslationTask(Task):
    """A German document to translate into English. Keys: `document_de`, `document_en`."""

    extraction: Extraction = "full_response"
    always_attempts = True

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        require_bleu()
        self._german = instruction.text("document_de")
        self._english = instruction.text("document_en")

    def full_prompt(self) -> str:
        """Returns the German document."""
        return self.text("full", GERMAN_TEXT=self._german)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the shards as numbered chunks of the document."""
        chunks = "".join(
            f"Document Chunk {number}:\n{shard.text}\n\n" for number, shard in enumerate(shards, 1)
        )
        return self.text("full", GERMAN_TEXT=self.text("chunks", CHUNKS=chunks))

    def user_turn(self, shards: Sequence[Shard], index: int) -> str | None:
        """Returns a request to translate the next chunk."""
        part = "first" if index == 0 else "next"
        return self.text(part, NUMBER=str(index + 1), CHUNK=shards[index].text)

    def evaluate(self, answer: str) -> Evaluating:
        """Scores the answer by BLEU against the English document."""
        return without_judge(Evaluation(bleu(answer, [self._english])))


# Summaries


@dataclass(frozen=True, slots=True)
class _Insight:
    """An insight, which a summary should have, and the numbers of the documents that have it."""

    text: str
    documents: frozenset[int]


class Verdict(msgspec.Struct, frozen=True):
    """The judge's verdict on one insight.

    Attributes:
        coverage: A key of `_CREDIT`.
        line: Number of the line that covers the insight, from 1; 0 for none.
    """

    coverage: str
    line: int = msgspec.field(name="bullet_id")


def cut(summary: str, max_words: int = MAX_WORDS) -> list[str]:
    """Returns the lines of a summary. If it is too long, each line is cut by the same share, but keeps a word."""
    lines = summary.split("\n")
    total = sum(len(line.split()) for line in lines)
    if total <= max_words:
        return lines
    words_by_line = [line.split() for line in lines]
    return [" ".join(words[: max(1, len(words) * max_words // total)]) for words in words_by_line]


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


class SummaryTask(Task):
    """Documents to summarize with citations.

    Keys: `domain`, `topic`, `query`, `documents`, `insights`, `insightid2ref_citations`; shards have `doc_idxs`.
    """

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
                number in self._documents for number in numbers
            ):
                raise BadInstruction(
                    f"{instruction.task_id}: `doc_idxs` of shard {shard.shard_id} must name documents."
                )

    def full_prompt(self) -> str:
        """Returns all documents with the topic and the query."""
        return self._opening(self._document_texts(list(self._documents)))

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the documents as numbered chunks, one for each shard."""
        chunks = "".join(
            f"Document Chunk {number}:\n{self._document_texts(shard.extra['doc_idxs'])}"
            for number, shard in enumerate(shards, 1)
        )
        return self._opening(self.text("chunks", CHUNKS=chunks))

    def user_turn(self, shards: Sequence[Shard], index: int) -> str | None:
        """Returns the documents of the shard; the first turn also has the topic and the query."""
        documents = self._document_texts(shards[index].extra["doc_idxs"])
        return self.text("next", DOCUMENTS=documents) if index else self._opening(documents)

    def evaluate(self, answer: str) -> Evaluating:
        """Scores the mean over insights of the coverage that the judge sees, times the F1 score of the citations."""
        lines = cut(answer)
        if not answer.strip():
            return Evaluation(0.0, {"insights": len(self._insights)})
        credits: list[float] = []
        joint_scores: list[float] = []
        unjudged = 0
        for insight in self._insights:
            verdict = yield from self._judge_insight(insight, lines)
            if verdict is None:
                unjudged += 1
                verdict = Verdict("NO_COVERAGE", 0)
            credit = _CREDIT[verdict.coverage]
            cited = citation_f1(lines[verdict.line - 1], insight.documents) if verdict.line else 0.0
            credits.append(credit)
            joint_scores.append(credit * cited)
        count = len(self._insights)
        details = {
            "coverage": sum(credits) / count,
            "insights": count,
            "unjudged": unjudged,
        }
        return Evaluation(sum(joint_scores) / count, details)

    def _judge_insight(
        self, insight: _Insight, lines: Sequence[str]
    ) -> Generator[Call, Completion, Verdict | None]:
        """Asks the judge about one insight; returns None if no reply could be used."""
        numbered = [number for number, line in enumerate(lines, 1) if line.strip()]
        bullets_json = json.dumps(
            {"bullets": [{"bullet_id": number, "text": lines[number - 1]} for number in numbered]},
            ensure_ascii=False,
            indent=1,
        )
        prompt = self.text("judge", BULLETS=bullets_json, INSIGHT=insight.text)
        limits: Limits = {"coverage": {"enum": [*_CREDIT]}, "bullet_id": {"enum": [0, *numbered]}}
        call = Call(
            module="summary judge",
            role="judge",
            messages=(ChatMessage("user", prompt),),
            max_tokens=_MAX_JUDGE_TOKENS,
        )
        return (yield from ask_in_play(call, Verdict, lambda reply: reply, TRIES[:2], limits))

    def _opening(self, documents: str) -> str:
        """Returns the prompt with some documents."""
        return self.text(
            "news" if self._news else "conv",
            TOPIC=self._topic,
            QUERY=self._query,
            DOCUMENTS=documents,
            N_DOCS=str(len(self._documents)),
            N_INSIGHTS=str(len(self._insights)),
        )

    def _document_texts(self, numbers: Sequence[int]) -> str:
        """Returns documents as the prompt shows them."""
        return "".join(f"Document {number}:\n{self._documents[number]}\n\n" for number in numbers)


class _Document(msgspec.Struct):
    """A document as the instruction has it."""

    document_index: int
    document_text: str


class _InsightRecord(msgspec.Struct):
    """An insight as the instruction has it."""

    insight: str
    insight_id: Any = None


def _documents(instruction: Instruction) -> dict[int, str]:
    """Returns the documents by number."""
    documents = list_of(instruction, "documents", _Document)
    return {document.document_index: document.document_text for document in documents}


def _insights(instruction: Instruction) -> list[_Insight]:
    """Returns the insights with the documents that have them.

    Raises:
        BadInstruction: The documents of one are not listed.
    """
    citations = value_of(instruction, "insightid2ref_citations", dict[str, list[int]])
    insights: list[_Insight] = []
    for record in list_of(instruction, "insights", _InsightRecord):
        documents = citations.get(str(record.insight_id))
        if documents is None:
            raise BadInstruction(
                f"{instruction.task_id}: `insightid2ref_citations` lists no documents for {record.insight_id!r}."
            )
        insights.append(_Insight(record.insight, frozenset(documents)))
    return insights


def task_for(
    instruction: Instruction, texts: Mapping[str, str], databases: Path | None = None
) -> Task:
    """Returns the task that an instruction names, bound to that instruction.

    Args:
        texts: The prompts by name: the files `prompts/sharded/TASK-PART.txt` without suffix, perhaps edited.
        databases: Folder with `DB_ID/*.sqlite` for database tasks; if None, each database is built from `schema_sql`.

    Raises:
        BadInstruction: A key of the task is missing or of the wrong kind.
        UsageError: A library that scores the task is not installed, or this system cannot confine the code of answers.
    """
    match instruction.task:
        case "math":
            return MathTask(instruction, texts)
        case "database":
            return DatabaseTask(instruction, texts, databases)
        case "actions":
            return ActionsTask(instruction, texts)
        case "code":
            return CodeTask(instruction, texts)
        case "data2text":
            return DataToTextTask(instruction, texts)
        case "summary":
            return SummaryTask(instruction, texts)
        case _:
            return TranslationTask(instruction, texts)
