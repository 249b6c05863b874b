"""Runs that grow response trees: a request becomes stages, with the model that it names."""

from __future__ import annotations

from dataclasses import replace

from engine.base.errors import NotFound
from engine.conversations.selection import Selection
from engine.jobs.contract import Stage
from engine.model.catalog import RunnableModel
from engine.model.interface import LoadOptions
from engine.model.service.run_setup import RunSetup
from engine.project.records import RunRow
from engine.trees.endpoint_growth import refuse_trees
from engine.trees.service.records import (
    TreeRequest,
)
from engine.trees.stages.growing import TreeStage


class TreeRuns:
    """Makes the runs of one project that grow trees."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup

    def stages(self, request: TreeRequest) -> list[Stage]:
        """The stages of a run: tuning if the model was never tuned on this machine, then the trees.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it cannot grow trees this way.
        """
        setup = self._setup
        model = setup.models.resolve(request.model_request)
        setup.endpoints.check(model.model, lambda served: refuse_trees(served, request.tree))
        trees = TreeStage(
            setup.project,
            setup.process,
            model,
            request.tree,
            request.at,
            selection=Selection(request.filter, limit=request.limit),
            nodes=request.nodes,
            only=request.only,
        )
        return [*setup.tuning.before(model), trees]

    def model_names(self) -> list[str]:
        """Names of the models that can grow a tree, the one that the project uses for trees first."""
        names = [entry.name for entry in self._setup.catalog.entries()]
        names += [entry.name for entry in self._setup.endpoints.book.entries()]
        first = self._setup.models.for_work(None, "trees")
        return sorted(names, key=lambda name: name != first)

    def model_of(self, run: RunRow) -> RunnableModel:
        """The model of a recorded run, as the catalogue has it or as it was before it was tuned, with the adapter of
        the run; or the endpoints of the run.

        Raises:
            UsageError: The catalogue holds it no more.
        """
        context = LoadOptions(context=run.params.get("context"))
        if remote := self._setup.endpoints.book.that_gave(run.fingerprints, context):
            return remote
        wanted = run.fingerprints.get("adapter_sha256")
        adapter = None if wanted is None else self._setup.catalog.adapter_with(wanted)
        found = [] if wanted is not None and adapter is None else self._setup.catalog.entries()
        for entry in found:
            for known in (entry, replace(entry, tuning=None)):
                model = self._setup.catalog.runnable(known, adapter)
                if model.fingerprints["model_sha256"] == run.fingerprints.get("model_sha256"):
                    options = replace(model.options, context=run.params.get("context"))
                    return replace(model, options=options)
        named = [run.fingerprints.get(key) for key in ("model", "adapter")]
        named += run.fingerprints.get("endpoints", [])
        words = " with the adapter ".join(str(name) for name in named if name)
        raise NotFound(
            f"The tree was grown with {words}, which the catalog does not hold.",
            "Add what is missing with `workbench models add`, or grow new trees.",
        )
