"""Reads and grows the response trees of a project, for commands and screens."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from engine.base.errors import NotFound, UsageError
from engine.base.line_files import new_file, write_file
from engine.completeness.tables import scores
from engine.conversations.filters import ListQuery
from engine.conversations.selection import Selection
from engine.conversations.tables import selecting
from engine.conversations.tables.conversations import names
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner
from engine.model.catalog import LoadableModel
from engine.model.interface import LoadOptions
from engine.model.service.run_setup import RunSetup
from engine.project import runs
from engine.project.records import Estimate, RunRow
from engine.trees import tables as trees
from engine.trees.endpoint_growth import refuse_trees
from engine.trees.guarantee import guarantee, parse_predicate
from engine.trees.measures import Answer, answers, subtree_mass
from engine.trees.records import (
    NodeColumns,
    OpenTree,
    PropertyBounds,
    TreeConfig,
    TreeItem,
    TreeRequest,
    TreeRow,
)
from engine.trees.reports import stored_tree_line
from engine.trees.stages import GrowOnStage, LoweredAlpha, TreeStage
from engine.trees.tree import ROOT, Tree, TreeRecord, restore

MAX_CACHED_TREES = 3
"""Trees that are kept in memory, so that the answers and properties of an open tree need no second decoding."""


class TreeService:
    """The response trees of one project: measured over the data set, walked through, grown."""

    def __init__(
        self,
        setup: RunSetup,
        runner: JobRunner,
        changed: Callable[[], None],
        goals_of: Callable[[sqlite3.Connection, Sequence[int]], Mapping[int, str]],
    ) -> None:
        """Reads nothing yet.

        Args:
            changed: Called when another configuration of trees is selected.
            goals_of: Returns the labels of the goals of conversations, by id; without those that have none.
        """
        self._setup, self._project = setup, setup.project
        self._runner, self._changed, self._goals_of = runner, changed, goals_of
        # By the row: each tree with the tokens of its recorded answer, the one used last at the end.
        self._tree_cache: OrderedDict[TreeRow, tuple[Tree, list[int]]] = OrderedDict()
        self._guard = Lock()

    # Reading

    def items(self, query: ListQuery) -> list[TreeItem]:
        """Returns the trees of the selected configuration for the matching conversations, by conversation and step."""
        with self._project.reading() as conn:
            rows = trees.measures(conn)
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
        """Quick. Returns the steps of a conversation at which there is a tree, in order."""
        return [row.step for row in self.turns(conversation_id)]

    def turns(self, conversation_id: int, config_hash: str | None = None) -> list[TreeRow]:
        """Quick. Returns the measures of a conversation's trees by step, of the selected configuration or a given
        one."""
        with self._project.reading() as conn:
            rows = trees.trees(conn, conversation_id, config_hash)
        return [row for row in rows if row.reason is None]

    def open(self, conversation_id: int, step: int, config_hash: str | None = None) -> OpenTree:
        """Returns one tree of the selected configuration or a given one; raises UsageError when there is none."""
        with self._project.reading() as conn:
            row = _row(trees.trees(conn, conversation_id, config_hash), step)
            external_ids = names(conn, [conversation_id])
        item = TreeItem(row, external_ids.get(conversation_id, ""))
        return OpenTree(item, columns(*self._tree(row)))

    def answers(self, conversation_id: int, step: int, config_hash: str) -> list[Answer]:
        """Returns the texts of a tree's leaves, most probable first; only those of kind `ended` are whole answers."""
        tree, _ = self._find(conversation_id, step, config_hash)
        return answers(tree)

    def bounds(
        self, conversation_id: int, step: int, config_hash: str, text: str
    ) -> PropertyBounds:
        """Returns bounds on the probability of a property such as `contains two years`; raises UsageError for a text
        that names no property."""
        predicate = parse_predicate(text)
        tree, _ = self._find(conversation_id, step, config_hash)
        bounds = guarantee(tree, predicate)
        return PropertyBounds(text, bounds.low, bounds.high)

    def configs(self) -> list[TreeConfig]:
        """Returns the configurations that have trees, oldest first."""
        with self._project.reading() as conn:
            return trees.configs(conn)

    def shown(self) -> str | None:
        """Quick. Returns the config hash of the selected trees; None before any was grown."""
        with self._project.reading() as conn:
            return trees.chosen(conn)

    def show(self, config_hash: str) -> None:
        """Selects the configuration whose trees are shown; raises ProjectReadOnly."""
        self._project.write(lambda conn: trees.choose(conn, config_hash))
        self._changed()

    def _find(self, conversation_id: int, step: int, config_hash: str) -> tuple[Tree, list[int]]:
        """Returns the tree at a step and the tokens of its recorded answer; raises NotFound when there is none."""
        with self._project.reading() as conn:
            row = _row(trees.trees(conn, conversation_id, config_hash), step)
        return self._tree(row)

    def _tree(self, row: TreeRow) -> tuple[Tree, list[int]]:
        """Returns a tree and the tokens of its recorded answer; kept by the row, since a tree that grows gets another
        row."""
        with self._guard:
            if row in self._tree_cache:
                self._tree_cache.move_to_end(row)
                return self._tree_cache[row]
        with self._project.reading() as conn:
            frame = trees.frame(conn, row.conversation_id, row.step, row.config_hash)
        if frame is None:
            raise NotFound("There is no tree here.", row.reason or "")
        tree_and_answer = restore(TreeRecord.from_frame(frame)), list(frame["answer"])
        with self._guard:
            self._tree_cache[row] = tree_and_answer
            while len(self._tree_cache) > MAX_CACHED_TREES:
                self._tree_cache.popitem(last=False)
        return tree_and_answer

    # Work

    def stages(self, request: TreeRequest) -> list[Stage]:
        """Returns the stages of a run: tuning if the model was never tuned on this machine, then the trees.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it cannot grow trees this way.
        """
        setup = self._setup
        model = setup.models.resolve(request.model_request)
        setup.endpoints.check(model, lambda served: refuse_trees(served, request.tree))
        stage = TreeStage(
            setup.project,
            setup.process,
            model,
            request.tree,
            request.at,
            selection=Selection(request.filter, limit=request.limit),
            nodes=request.nodes,
        )
        return [*setup.tuning_before(model), stage]

    def estimate(self, request: TreeRequest) -> Estimate:
        """Returns how many conversations a run would still grow trees for, and how long that takes: at the speed of
        earlier trees of the same configuration, None without any.

        Raises:
            UsageError: There is no such model or adapter, or it cannot grow trees this way.
        """
        stage = self.stages(request)[-1]
        assert isinstance(stage, TreeStage)
        params = stage.params
        with self._project.reading() as conn:
            selected_ids = selecting.ids(conn, ListQuery(request.filter))
            missing_count = len(
                set(selected_ids).intersection(trees.ids_without_tree(conn, stage.config_hash))
            )
            seconds_per_tree = trees.seconds(conn, params["alpha"], params["mode"], params["at"])
        model_and_adapter = [stage.fingerprints.get(key) for key in ("model", "adapter")]
        model = " + ".join(str(name) for name in model_and_adapter if name)
        return Estimate(
            missing_count,
            None,
            None,
            None if seconds_per_tree is None else seconds_per_tree * missing_count,
            model,
        )

    def start(self, request: TreeRequest) -> int:
        """Grows trees in the background; returns the job id. Raises as `estimate` does."""
        return self._runner.start(self.stages(request))

    def grow_on(self, item: TreeItem, node: int | None, alpha: float | None) -> int:
        """Starts the stage of `growing_on` in the background; returns the job id."""
        return self._runner.start([self.growing_on(item.row, node, alpha)])

    def growing_on(self, row: TreeRow, node: int | None, alpha: float | None) -> GrowOnStage:
        """Returns the stage that continues to grow a tree: below a node to a lower alpha, or everywhere to its own
        alpha.

        Raises:
            UsageError: The model that it was grown with is not in the catalog.
        """
        model = self._model_of(self._run(row))
        below = None if node is None or alpha is None else LoweredAlpha(node, alpha)
        return GrowOnStage(self._project, self._setup.process, model, row, below)

    def _model_of(self, run: RunRow) -> LoadableModel:
        """Returns the model of a recorded run, as the catalog has it or as it was before it was tuned, with the adapter
        of the run; or the endpoint of the run.

        Raises:
            UsageError: The catalog holds it no more.
        """
        context = LoadOptions(context=run.params.get("context"))
        if remote := self._setup.endpoints.book.that_gave(run.fingerprints, context):
            return remote
        adapter_hash = run.fingerprints.get("adapter_sha256")
        adapter = None if adapter_hash is None else self._setup.catalog.adapter_with(adapter_hash)
        entries = (
            [] if adapter_hash is not None and adapter is None else self._setup.catalog.entries()
        )
        for entry in entries:
            # The model may have been tuned since, which changes what it is loaded with.
            for entry_variant in (entry, replace(entry, tuning=None)):
                model = self._setup.catalog.loadable(entry_variant, adapter)
                if model.fingerprints["model_sha256"] == run.fingerprints.get("model_sha256"):
                    options = replace(model.options, context=run.params.get("context"))
                    return replace(model, options=options)
        model_and_adapter = [run.fingerprints.get(key) for key in ("model", "adapter", "endpoint")]
        words = " with the adapter ".join(str(name) for name in model_and_adapter if name)
        raise NotFound(
            f"The tree was grown with {words}, which the catalog does not hold.",
            "Add what is missing with `workbench models add`, or grow new trees.",
        )

    def _run(self, row: TreeRow) -> RunRow:
        """Returns the run that grew a tree; raises UsageError when it is not recorded."""
        with self._project.reading() as conn:
            run = runs.get(conn, row.run_id)
        if run is None:
            raise UsageError("The project has no record of the run that grew this tree.")
        return run

    def export(self, item: TreeItem, path: str) -> None:
        """Writes a tree as one JSON line to a new file; raises ProjectError as `ExportFiles.export` does."""
        target = new_file(path)
        row = item.row
        with self._project.reading() as conn:
            frame = trees.frame(conn, row.conversation_id, row.step, row.config_hash)
        write_file(iter([stored_tree_line(item.name, row, frame)]), target, "jsonl")


def _row(rows: Sequence[TreeRow], step: int) -> TreeRow:
    """Returns the row of the tree at a step; raises NotFound, with the reason why it is missing, when there is none."""
    for row in rows:
        if row.step == step and row.reason is None:
            return row
    raise NotFound("There is no tree here.", next((r.reason for r in rows if r.reason), "") or "")


def columns(tree: Tree, answer: Sequence[int]) -> NodeColumns:
    """Returns the columns of a tree, and the path of the recorded answer's tokens as far as it is in the tree."""
    nodes = tree.nodes
    recorded: list[int] = []
    node_id = ROOT
    for token in answer:
        matching = [child for child in nodes[node_id].children if nodes[child].token == token]
        if not matching:
            break
        node_id = matching[0]
        recorded.append(node_id)
    return NodeColumns(
        parent=[n.parent for n in nodes],
        token=[n.token for n in nodes],
        spelling=[b"" if n.token < 0 else tree.spelling(n.token) for n in nodes],
        log_p=[n.log_p for n in nodes],
        path=[n.path_log_p for n in nodes],
        below=subtree_mass(tree),
        kind=[n.kind for n in nodes],
        entropy=[n.entropy for n in nodes],
        recorded=recorded,
    )
