"""What can be done with models: list, choose, check, tune and remove them, find and pull them from the hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from engine.base import folders, number_format
from engine.base.errors import UsageError
from engine.jobs.runner import JobRunner
from engine.model.catalog import DEFAULT_MODEL, AdapterEntry, Catalog
from engine.model.catalog_files import PULLED
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.hub.access import Hub, hub_from_environment
from engine.model.hub.pulls import Pulls, free_space, plan_pull
from engine.model.hub.repositories import look_at, recommended_sets, search
from engine.model.memory_plan import MachineMemory, machine_memory
from engine.model.records import (
    WORKS,
    Fact,
    HubModel,
    HubPage,
    ModelRow,
    PullRow,
    RecommendedSet,
    Work,
)
from engine.model.service import model_files
from engine.model.service.endpoints import endpoint_summary, work_lines
from engine.model.service.model_files import (
    ModelFacts,
    adapter_facts,
    add_file,
    find,
    ggufs_in,
    model_facts,
)
from engine.model.service.run_setup import RunSetup


class ModelService:
    """Models, endpoints and adapters of this machine, and their use in one project.

    `pulls` and `pause` return at once. All other methods read files or ask the hub, so call them from a thread. Methods
    that take the name of a model or a pull raise UsageError when there is none of that name.
    """

    def __init__(
        self,
        setup: RunSetup,
        runner: JobRunner,
        changed: Callable[[], None],
    ) -> None:
        """Reads nothing yet.

        Args:
            changed: Called when the catalog or the project's choice of models changed.
        """
        self._catalog, self._in_use, self._setup = setup.catalog, setup.models, setup
        self._folder = Path(os.path.realpath(setup.project.path)).parent
        self._runner, self._changed = runner, changed
        self._pulls = Pulls(self._catalog.data, changed)

    def close(self) -> None:
        """Pauses the pulls that are active."""
        self._pulls.close()

    # On disk

    def rows(self) -> list[ModelRow]:
        """Returns models, the built-in one first, then endpoints, then adapters."""
        machine = machine_memory()
        models = [
            self._model_row(model_facts(self._catalog, entry, machine))
            for entry in self._catalog.entries()
        ]
        endpoints = [
            ModelRow(entry.name, "endpoint", "endpoint", entry.url, note=endpoint_summary(entry))
            for entry in self._endpoints()
        ]
        adapters = [self._adapter_row(entry) for entry in self._catalog.adapters()]
        rows = [replace(row, works=self._works(row.name)) for row in [*models, *endpoints]]
        return [*rows, *adapters]

    def facts(self, name: str) -> list[Fact]:
        """Returns all facts about a model, an endpoint or an adapter, for example path, checksum, memory and tuning."""
        works = ", ".join(WORKS[work] for work in self._works(name))
        used = [Fact("used for", works)] if works else []
        endpoint = self._endpoint(name)
        if endpoint is not None:
            return [*used, *_endpoint_details(endpoint)]
        entry = find(self._catalog, name)
        file = Fact("file", self._shown(entry.path))
        if isinstance(entry, AdapterEntry):
            return [file, *_adapter_details(self._catalog, entry)]
        machine = machine_memory()
        details = _model_details(self._catalog, model_facts(self._catalog, entry, machine), machine)
        return [*used, file, *details]

    def use(self, name: str, works: Sequence[Work]) -> None:
        """Stores a model as the project's choice for these kinds of work, used when a run names none.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        self._in_use.use(name, works)
        self._changed()

    def _works(self, name: str) -> tuple[Work, ...]:
        """Returns the kinds of work that a model, or an endpoint alone or with others, is used for."""
        chosen = self._in_use.chosen()
        used = {work: chosen.get(work, DEFAULT_MODEL).split(",") for work in WORKS}
        return tuple(work for work in WORKS if name in map(str.strip, used[work]))

    def verify(self, name: str) -> str:
        """Computes the checksums of a model's files again and reads their headers; returns a sentence with the result.

        Raises:
            ModelFileError: A file is damaged or gone.
        """
        if self._endpoint(name) is not None:
            raise UsageError(f"{name} is an endpoint; it has no file here.")
        return model_files.verify(self._catalog, find(self._catalog, name))

    def removal(self, name: str) -> str:
        """Returns a sentence on what `remove` would do.

        Raises:
            UsageError: It cannot be removed.
        """
        if self._endpoint(name) is not None:
            return f"forget the endpoint {name}"
        return model_files.removal(find(self._catalog, name))

    def remove(self, name: str) -> None:
        """Deletes a pulled model; removes an added model or an endpoint from the list only."""
        if self._endpoint(name) is not None:
            EndpointBook(self._catalog.data).forget(name)
        else:
            model_files.remove(self._catalog, find(self._catalog, name))
        self._changed()

    def add(self, path: str) -> list[str]:
        """Loads a GGUF file once and adds it, or all in a folder, and returns their names.

        Raises:
            ModelFileError: A file is not a sound GGUF file.
        """
        files = ggufs_in(Path(os.path.expanduser(path)).resolve())
        names = [add_file(self._catalog, file, None, lambda line: None).name for file in files]
        self._changed()
        return names

    def tune(self, name: str) -> int:
        """Starts measuring which format of a model is fastest on this machine; returns the job id."""
        return self._runner.start([self._setup.tuning_of(self._catalog.entry(name))])

    def _endpoints(self) -> list[EndpointEntry]:
        """Returns the endpoints of this machine."""
        # Reads the list again, because commands may add endpoints while a project is open.
        return EndpointBook(self._catalog.data).entries()

    def _endpoint(self, name: str) -> EndpointEntry | None:
        """Returns the endpoint with this name; None if there is none."""
        return next((entry for entry in self._endpoints() if entry.name == name), None)

    def _model_row(self, facts: ModelFacts) -> ModelRow:
        """Returns the row of a model in the list."""
        footprint = facts.footprint
        manifest, folder = facts.manifest, facts.entry.path.parent
        return ModelRow(
            name=facts.entry.name,
            kind="model",
            origin=facts.entry.origin,
            source=manifest.repository if manifest else self._shown(folder),
            size=facts.size,
            memory=footprint.need.total if footprint else None,
            fits=footprint.fits if footprint else None,
            runs_as=facts.runs_as,
            tokens_per_s=facts.tokens_per_s,
            license=facts.license,
            note="" if facts.header is None else facts.header.text("general.name"),
            problem=facts.problem,
        )

    def _adapter_row(self, entry: AdapterEntry) -> ModelRow:
        """Returns the row of an adapter in the list."""
        facts = adapter_facts(self._catalog, entry)
        return ModelRow(
            name=entry.name,
            kind="adapter",
            origin=entry.origin,
            source=self._shown(entry.path.parent),
            size=facts.size,
            note=facts.note,
            problem="" if facts.size is not None else "its file is gone",
        )

    def _shown(self, path: Path) -> str:
        """Returns a path as it is shown, relative to the folder of the project where that is shorter."""
        return folders.shown_path(path, self._folder)

    # The hub

    def hub(self) -> str:
        """Returns the name of the hub for pulls and searches.

        Raises:
            WorkbenchError: The network is forbidden.
        """
        return hub_from_environment().host

    def recommended(self) -> list[RecommendedSet]:
        """Returns the recommended models, those for the smallest machines first."""
        return recommended_sets(machine_memory().larger)

    def search(self, text: str) -> list[HubModel]:
        """Returns the repositories of the hub that have GGUF files and match the text."""
        return search(hub_from_environment(), text)

    def look_at(self, repository: str) -> HubPage:
        """Returns the models of a repository of the hub."""
        hub = hub_from_environment()
        return HubPage(
            look_at(hub, repository),
            page=f"{hub.url}/{repository}",
            room=free_space(self._catalog.data / PULLED),
            memory=machine_memory().together,
        )

    # Pulls

    def pulls(self) -> list[PullRow]:
        """Returns all pulls by name: those of this session, and unfinished ones of earlier sessions."""
        return self._pulls.rows()

    def pull(self, repository: str, file: str) -> str:
        """Starts a pull in the background and returns the name that the model will have."""
        hub = hub_from_environment()
        page = look_at(hub, repository)
        plan = plan_pull(self._catalog.data, hub, page, page.file(file))
        self._catalog.refuse_taken(plan.name, plan.first)
        self._pulls.begin(hub, plan)
        return plan.name

    def resume(self, name: str) -> None:
        """Resumes a pull that was paused or failed."""
        plan = self._pulls.plan(name)
        self._pulls.begin(hub_of(plan.manifest.hub), plan)

    def pause(self, name: str) -> None:
        """Stops a pull; its partial files are kept."""
        self._pulls.pause(name)

    def give_up(self, name: str) -> None:
        """Deletes the partial files of a pull that is not active."""
        self._pulls.give_up(name)
        self._changed()


def hub_of(url: str) -> Hub:
    """Returns the hub at which a pull was started, with the token only if it is the current hub."""
    today = hub_from_environment()
    return today if today.url == url else Hub(url)


def _model_details(catalog: Catalog, facts: ModelFacts, machine: MachineMemory) -> list[Fact]:
    """Returns what is known of a model, in the order in which it is shown."""
    if facts.problem:
        return [Fact("problem", facts.problem)]
    facts_shown: list[Fact] = []
    manifest, header = facts.manifest, facts.header
    if manifest is not None:
        facts_shown += [
            Fact("from", f"{manifest.repository} on {manifest.hub}"),
            Fact("commit", manifest.revision),
            Fact("pulled", manifest.pulled_at),
        ]
    facts_shown += [
        Fact("license", facts.license or "unknown"),
        Fact("SHA-256", catalog.sha256(facts.entry.path)),
        Fact("size", number_format.size(facts.size)),
    ]
    if header is not None:
        arch = header.text("general.architecture")
        trained = header.number(f"{arch}.context_length")
        facts_shown += [
            Fact("model", f"{header.text('general.name')} ({arch})"),
            Fact("context", f"trained for {trained or 0:,} tokens"),
        ]
    facts_shown += _memory_details(facts, machine)
    tuning = facts.entry.tuning
    if tuning is None:
        facts_shown.append(Fact("tuning", "never tuned on this machine"))
    else:
        facts_shown.append(
            Fact(
                "tuning",
                f"runs as {tuning['chosen']} at {tuning['tokens_per_s']:,.0f} tokens/s,"
                f" {tuning['gain']:.1f} times as fast as the file",
            )
        )
    return facts_shown


def _memory_details(facts: ModelFacts, machine: MachineMemory) -> list[Fact]:
    """Returns what memory a model needs, and how much of it goes on the GPU; [] if it is not known."""
    footprint = facts.footprint
    if footprint is None:
        return []
    need, plan = footprint.need, footprint.plan
    memory = Fact(
        "memory",
        f"{need.total / 1e9:.2f} GB for logs of {need.context:,} tokens: weights {need.weights / 1e9:.2f},"
        f" cache {need.cache / 1e9:.2f}, work {need.compute / 1e9:.2f}",
    )
    if plan is None:
        return [memory]
    gpu = Fact(
        "GPU",
        f"{plan.layers} of {plan.of} layers, {plan.used / 1e9:.1f} of {plan.free / 1e9:.1f} GB that are"
        f" free on {machine.gpu}",
    )
    return [memory, gpu]


def _adapter_details(catalog: Catalog, entry: AdapterEntry) -> list[Fact]:
    """Returns what is known of an adapter, in the order in which it is shown."""
    facts = adapter_facts(catalog, entry)
    if facts.size is None:
        return [Fact("problem", "its file is gone"), Fact("adapter", facts.note)]
    return [
        Fact("adapter", facts.note),
        Fact("SHA-256", catalog.sha256(entry.path)),
        Fact("size", number_format.size(facts.size)),
        *([Fact("data", entry.made_of.data_fingerprint)] if entry.made_of.data_fingerprint else []),
    ]


def _endpoint_details(entry: EndpointEntry) -> list[Fact]:
    """Returns what is known of an endpoint, in the order in which it is shown."""
    key = f"from the variable {entry.key_env}" if entry.key_env else "none"
    facts_shown = [Fact("address", entry.url), Fact("server", entry.can.server), Fact("key", key)]
    if entry.prices is not None:
        read, written = entry.prices.read, entry.prices.written
        facts_shown.append(
            Fact("prices", f"{read:g} read, {written:g} written, for a million tokens")
        )
    if entry.timeout is not None:
        facts_shown.append(
            Fact("time limit", f"{number_format.duration(entry.timeout)} for a request")
        )
    return facts_shown + [Fact("work", line) for line in work_lines(entry.can)]
