"""Descriptions of tables (ToTTo): one sentence about the highlighted cells, scored by BLEU against references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import Evaluating, Evaluation, Extraction, without_judge
from engine.simulate.sharded.tasks.base import TaskText, listed, mapped
from engine.simulate.sharded.tasks.bleu import bleu, require_bleu


class DataToTextTask(TaskText):
    """Keys: `table_highlighted_html`, `fewshot_descriptions`, `metadata`, `references`.

    No model plays the user: each shard is sent verbatim, the table too.
    """

    extraction: Extraction = "full_response"

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        require_bleu()
        self._table = instruction.text("table_highlighted_html")
        self._examples = instruction.text("fewshot_descriptions")
        self._context = "".join(
            f"{name}: {value}\n" for name, value in mapped(instruction, "metadata").items()
        )
        self._references = listed(instruction, "references")
        if not all(isinstance(one, str) for one in self._references):
            raise BadInstruction(f"{instruction.task_id}: `references` must be texts.")

    def full_prompt(self) -> str:
        return self.text(
            "full",
            TABLE_HTML=self._table,
            FEWSHOT_DESCRIPTIONS=self._examples,
            CONTEXT=self._context,
        )

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        hints = "".join(f"Hint {shard.shard_id}:\n{shard.text}\n\n" for shard in shards)
        return self.text("full", TABLE_HTML="", FEWSHOT_DESCRIPTIONS="", CONTEXT=hints)

    def user_turn(self, shards: Sequence[Shard], at: int) -> str | None:
        return shards[at].text

    def evaluate(self, answer: str) -> Evaluating:
        return without_judge(Evaluation(bleu(answer, self._references)))
