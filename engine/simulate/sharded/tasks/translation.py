"""Translation from German to English (WMT): the document comes in chunks, and each reply translates all of it so far;
scored by BLEU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Evaluating, Evaluation, Extraction, without_judge
from engine.simulate.sharded.tasks.base import TaskText
from engine.simulate.sharded.tasks.bleu import bleu, require_bleu


class TranslationTask(TaskText):
    """Keys: `document_de`, `document_en`."""

    extraction: Extraction = "full_response"
    always_attempts = True

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        require_bleu()
        self._german = instruction.text("document_de")
        self._english = instruction.text("document_en")

    def full_prompt(self) -> str:
        return self.text("full", GERMAN_TEXT=self._german)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        chunks = "".join(
            f"Document Chunk {number}:\n{shard.text}\n\n" for number, shard in enumerate(shards, 1)
        )
        return self.text("full", GERMAN_TEXT=self.text("chunks", CHUNKS=chunks))

    def user_turn(self, shards: Sequence[Shard], at: int) -> str | None:
        part = "first" if at == 0 else "next"
        return self.text(part, NUMBER=str(at + 1), CHUNK=shards[at].text)

    def evaluate(self, answer: str) -> Evaluating:
        return without_judge(Evaluation(bleu(answer, [self._english])))
