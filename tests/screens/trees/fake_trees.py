"""The port `Trees` of a project in which no tree was grown, and the real one without a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.jobs.contract import Stage
from engine.model.catalog import Catalog
from engine.records.conversations import Estimate, TreeRow
from engine.services.trees.records import (
    AnswerRow,
    Comparison,
    ConfigRow,
    Meanings,
    OpenTree,
    PropertyBounds,
    TreeItem,
    TreeRequest,
)
from engine.services.trees.service import Like, TreeService
from engine.store.project import Project
from engine.worker.client import ModelProcess


class NoTrees:
    """There are none, and what is started is only noted."""

    def __init__(self) -> None:
        self.wished: list[tuple[TreeRequest, ListQuery]] = []

    def items(self, query: ListQuery) -> list[TreeItem]:
        return []

    def steps(self, conversation_id: int) -> list[int]:
        return []

    def turns(self, conversation_id: int, config_hash: str | None = None) -> list[TreeRow]:
        return []

    def open(self, conversation_id: int, step: int, config_hash: str | None = None) -> OpenTree:
        raise UsageError("There is no tree here.")

    def answers(self, conversation_id: int, step: int, config_hash: str) -> list[AnswerRow]:
        raise UsageError("There is no tree here.")

    def meanings(
        self, conversation_id: int, step: int, config_hash: str, threshold: float
    ) -> Meanings:
        raise UsageError("There is no tree here.")

    def compare(self, conversation_id: int, step: int, first: str, second: str) -> Comparison:
        raise UsageError("There is no tree here.")

    def bounds(
        self, conversation_id: int, step: int, config_hash: str, text: str
    ) -> PropertyBounds:
        raise UsageError("There is no tree here.")

    def configs(self, place: tuple[int, int] | None = None) -> list[ConfigRow]:
        return []

    def shown(self) -> str | None:
        return None

    def show(self, config_hash: str) -> None:
        raise UsageError("There is no such configuration.")

    def estimate(self, wish: TreeRequest, query: ListQuery) -> Estimate:
        return Estimate(812, None, None, 11_400.0, "SmolLM2-135M-Instruct")

    def start(self, wish: TreeRequest, query: ListQuery) -> int:
        self.wished.append((wish, query))
        return len(self.wished)

    def grow_on(self, item: TreeItem, node: int | None, alpha: float | None) -> int:
        raise UsageError("There is no tree here.")

    def models(self) -> list[str]:
        return ["smollm2-135m"]

    def estimate_beside(self, item: TreeItem, wish: TreeRequest) -> Estimate:
        raise UsageError("There is no tree here.")

    def grow_beside(self, item: TreeItem, wish: TreeRequest) -> int:
        raise UsageError("There is no tree here.")

    def export(self, item: TreeItem, path: str) -> None:
        raise UsageError("There is no tree here.")


def stored_trees(project: Project) -> TreeService:
    """The trees of a project file, none of which can be grown because nothing runs stages."""

    def plan(wish: TreeRequest, query: ListQuery, like: Like | None) -> list[Stage]:
        raise UsageError("No model is here.")

    def begin(stages: Sequence[Stage]) -> int:
        raise UsageError("No model is here.")

    folder = Path(project.path).parent
    process = ModelProcess(folder / "model.log")
    return TreeService(project, process, Catalog(folder, folder), plan, begin, lambda: None)
