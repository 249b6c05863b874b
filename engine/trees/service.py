"""Reads and grows the response trees of a project, for commands and screens."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from engine.base.errors import NotFound, UsageError
from engine.completeness.tables import scores
from engine.conversations.filters import ListQuery
from engine.conversations.selection import Selection
from engine.conversations.tables import selecting
from engine.conversations.tables.conversations import names
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import LoadableModel
from engine.model.service.run_setup import RunSetup
from engine.project.records import Estimate
from engine.trees import tables as tree_tables
from engine.trees.guarantee import guarantee, parse_predicate
from engine.trees.measures import Answer, answers, subtree_mass
from engine.trees.records import (
    NodeColumns,
    OpenTree,
    PropertyBounds,
    TreeItem,
    TreeRequest,
    TreeRow,
)
from engine.trees.stages import TreeStage
from engine.trees.tree import Tree, restore


class TreeService:
    """Lists, opens and grows the response trees of one project."""

    def __init__(
        self,
        setup: RunSetup,
        runner: JobRunner,
        goals_of: Callable[[sqlite3.Connection, Sequence[int]], Mapping[int, str]],
    ) -> None:
        """Reads nothing yet.

        Args:
            goals_of: Returns the labels of the goals of conversations, by id; without those that have none.
        """
        self._setup = setup
        self._project = setup.project
        self._runner = runner
        self._goals_of = goals_of

    # Reading

    def items(self, query: ListQuery) -> list[TreeItem]:
        """Returns the rows of the trees of the matching conversations under the configuration that is shown, by
        conversation and step, also rows with a reason in place of a tree."""
        with self._project.reading() as conn:
            rows = tree_tables.rows(conn)
            if query.filter:
                matching_ids = frozenset(selecting.ids(conn, query))
                rows = [row for row in rows if row.conversation_id in matching_ids]
            ids = sorted({row.conversation_id for row in rows})
            external_ids, states = names(conn, ids), scores.states(conn, ids)
            goals = self._goals_of(conn, ids)
        return [
            TreeItem(
                row,
                external_ids[row.conversation_id],
                states[row.conversation_id],
                goals.get(row.conversation_id, ""),
            )
            for row in rows
        ]

    def steps(self, conversation_id: int) -> list[int]:
        """Returns the steps of a conversation at which a tree is shown, in order; reads no nodes of trees."""
        rows = self._project.read(tree_tables.trees, conversation_id)
        return [row.step for row in rows if row.reason is None]

    def open(self, conversation_id: int, step: int) -> OpenTree:
        """Returns one of the trees that are shown; raises NotFound when there is none."""
        with self._project.reading() as conn:
            row = _row(tree_tables.trees(conn, conversation_id), step)
            external_ids = names(conn, [conversation_id])
        item = TreeItem(row, external_ids.get(conversation_id, ""))
        return OpenTree(item, node_columns(*self._restore(row)))

    def answers(self, conversation_id: int, step: int, config_hash: str) -> list[Answer]:
        """Returns the texts of a tree's leaves, most probable first; only those of kind `ended` are whole answers.

        Raises:
            NotFound: There is no such tree.
        """
        tree, _ = self._find(conversation_id, step, config_hash)
        return answers(tree)

    def bounds(
        self, conversation_id: int, step: int, config_hash: str, text: str
    ) -> PropertyBounds:
        """Returns bounds on the probability of a property of the response to which a tree belongs.

        Args:
            text: The property, such as `contains two years`; see `parse_predicate`.

        Raises:
            NotFound: There is no such tree.
            UsageError: The text names no property.
        """
        predicate = parse_predicate(text)
        tree, _ = self._find(conversation_id, step, config_hash)
        bounds = guarantee(tree, predicate)
        return PropertyBounds(text, bounds.low, bounds.high)

    def _find(self, conversation_id: int, step: int, config_hash: str) -> tuple[Tree, list[int]]:
        """Returns the tree at a step and the tokens of its recorded answer; raises NotFound when there is none."""
        row = _row(self._project.read(tree_tables.trees, conversation_id, config_hash), step)
        return self._restore(row)

    def _restore(self, row: TreeRow) -> tuple[Tree, list[int]]:
        """Returns a tree and the tokens of its recorded answer.

        Raises:
            NotFound: No tree was grown there.
        """
        frame = self._project.read(
            tree_tables.frame, row.conversation_id, row.step, row.config_hash
        )
        if frame is None:
            raise NotFound("There is no tree here.", row.reason or "")
        return restore(frame), list(frame["answer"])

    # Work

    def model(self, request: TreeRequest) -> LoadableModel:
        """Returns the model that grows trees.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it is an endpoint.
        """
        model = self._setup.models.resolve(request.model_request)
        if model.endpoint:
            raise UsageError(
                f"Response trees grow with a model of this machine, not over {model.label}.",
                "Name one with --model.",
            )
        return model

    def stages(self, request: TreeRequest) -> list[Stage]:
        """Returns the stages of a run: tuning if the model was never tuned on this machine, then the trees.

        Raises:
            WorkbenchError: As `model` does.
        """
        model = self.model(request)
        return [*self._setup.tuning_before(model), self._stage(request, model)]

    def _stage(self, request: TreeRequest, model: LoadableModel) -> TreeStage:
        """Returns the stage that grows the trees of a request with a model."""
        return TreeStage(
            self._project,
            self._setup.process,
            model,
            request.tree,
            request.at,
            selection=Selection(request.filter, limit=request.limit),
            nodes=request.nodes,
        )

    def estimate(self, request: TreeRequest) -> Estimate:
        """Returns how many conversations a run would still grow trees for, and how long that takes at the speed
        of earlier trees of the same configuration; None as the time without any.

        Raises:
            WorkbenchError: As `model` does.
        """
        stage = self._stage(request, self.model(request))
        with self._project.reading() as conn:
            selected_ids = Selection(request.filter, limit=request.limit).ids(conn)
            missing_count = len(
                set(selected_ids).intersection(
                    tree_tables.ids_without_tree(conn, stage.config_hash)
                )
            )
            mean_seconds = tree_tables.seconds(conn, stage.config_hash)
        model_and_adapter = [stage.fingerprints.get(key) for key in ("model", "adapter")]
        model = " + ".join(str(name) for name in model_and_adapter if name)
        return Estimate(
            items=missing_count,
            tokens=None,
            tokens_per_second=None,
            seconds=None if mean_seconds is None else mean_seconds * missing_count,
            model=model,
        )

    def start(self, request: TreeRequest) -> int:
        """Grows trees in the background; returns the job id. Raises as `estimate` does."""
        return self._runner.start(self.stages(request))


def _row(rows: Sequence[TreeRow], step: int) -> TreeRow:
    """Returns the row of the tree at a step; raises NotFound with the reason why there is none."""
    for row in rows:
        if row.step == step and row.reason is None:
            return row
    reasons = (row.reason for row in rows if row.reason)
    raise NotFound("There is no tree here.", next(reasons, ""))


def node_columns(tree: Tree, answer: Sequence[int]) -> NodeColumns:
    """Returns the columns of a tree, and the path of the recorded answer's tokens as far as it is in the tree."""
    nodes = tree.nodes
    return NodeColumns(
        parent=[node.parent for node in nodes],
        spelling=[b"" if node.token < 0 else tree.spelling(node.token) for node in nodes],
        path=[node.path_log_p for node in nodes],
        below=subtree_mass(tree),
        kind=[node.kind for node in nodes],
        entropy=[node.entropy for node in nodes],
        recorded=tree.path_of(answer),
    )
