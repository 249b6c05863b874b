"""`workbench models`: list, add, tune, verify, remove and use. Searching and pulling are in `hub`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import folders
from engine.base.errors import Cancelled, ModelFileError, UsageError
from engine.base.text import one_line
from engine.model.catalog import DEFAULT_MODEL, RUN_ADAPTER, AdapterEntry, Catalog, ModelEntry
from engine.model.endpoints.client import REQUEST_SECONDS
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.endpoints.fleet import Prices
from engine.model.hub.pulls import Pulls, unfinished
from engine.model.memory_plan import MachineMemory, machine_memory
from engine.model.process.process import ModelProcess
from engine.model.records import WORKS, PullRow
from engine.model.service import model_files
from engine.model.service.adapter_in_use import adapter_in_use
from engine.model.service.endpoints import Endpoints, endpoint_json, endpoint_summary
from engine.model.service.model_files import (
    AdapterFacts,
    ModelFacts,
    adapter_facts,
    add_file,
    find,
    ggufs_in,
    model_facts,
)
from engine.model.service.run_setup import ModelsInUse, bundled_logs
from engine.model.stages import TuningStage
from engine.opener.egress_preview import egress_preview
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from workbench.arguments import PROJECT, above_zero, argument, from_zero, switch, takes
from workbench.command_result import EXIT_DONE, EXIT_FAILED, CommandResult
from workbench.narration import ask_first, narrate


def list_models(arguments: argparse.Namespace) -> CommandResult:
    """Lists models, adapters, endpoints and unfinished pulls."""
    catalog = open_catalog()
    endpoints = EndpointBook(folders.data_dir()).entries()
    entries: list[ModelEntry | AdapterEntry] = [*catalog.entries(), *catalog.adapters()]
    return _list_entries(catalog, entries, endpoints, Pulls(catalog.data).rows())


@takes(
    argument(
        "path",
        help="a file, a folder of them, the directory of a run, or http://HOST:PORT/v1#MODEL",
    ),
    argument("--name", help="name in the catalog (default: that of the file or model)"),
    argument("--key-env", metavar="VAR", help="environment variable with its key"),
    argument(
        "--prices",
        nargs=2,
        type=from_zero,
        metavar=("READ", "WRITTEN"),
        help="what a million tokens cost, read and written",
    ),
    argument(
        "--timeout",
        type=above_zero,
        metavar="SECONDS",
        help=f"time limit of each request to it (default: {REQUEST_SECONDS:g}), half of which may go by without a byte",
    ),
    switch("--as-is", "send it personal data too, though it is not on this machine"),
)
def add(arguments: argparse.Namespace) -> CommandResult:
    """Adds a file, those of a folder, the adapter of a training run, or an endpoint."""
    catalog = open_catalog()
    if arguments.path.startswith(("http://", "https://")):
        return _list_entries(catalog, [], [_add_endpoint(arguments)])
    path = Path(os.path.expanduser(arguments.path)).resolve()
    if path.is_dir() and not (path / RUN_ADAPTER).is_file():
        files = list(ggufs_in(path))
        if arguments.name and len(files) > 1:
            raise UsageError(f"{path} holds {len(files)} models.", "Leave --name out.")
    else:
        files = [path]
    return _list_entries(
        catalog, [add_file(catalog, file, arguments.name, narrate) for file in files]
    )


def _add_endpoint(arguments: argparse.Namespace) -> EndpointEntry:
    """Adds an endpoint and returns it."""
    if arguments.name is not None:
        open_catalog().refuse_taken(arguments.name, None)
    return EndpointBook(folders.data_dir()).add(
        arguments.path,
        arguments.name,
        key_env=arguments.key_env,
        prices=Prices(*arguments.prices) if arguments.prices else None,
        timeout=arguments.timeout,
        as_is=arguments.as_is,
    )


@takes(argument("model", nargs="?", help="name or path of a model (default: the built-in one)"))
def tune(arguments: argparse.Namespace) -> CommandResult:
    """Finds the fastest faithful format of a model on this machine."""
    catalog = open_catalog()
    return _list_entries(catalog, [_tune_model(catalog, catalog.entry(arguments.model))])


@takes(argument("model", nargs="?", help="name of a model or an adapter (default: all)"))
def verify(arguments: argparse.Namespace) -> CommandResult:
    """Computes the checksums of models and adapters again and reads their headers."""
    catalog = open_catalog()
    if arguments.model is not None:
        entries: list[ModelEntry | AdapterEntry] = [find(catalog, arguments.model)]
    else:
        entries = [*catalog.entries(), *catalog.adapters()]
    checks = []
    for entry in entries:
        try:
            checks.append(
                {"name": entry.name, "ok": True, "said": model_files.verify(catalog, entry)}
            )
        except ModelFileError as error:
            checks.append({"name": entry.name, "ok": False, "said": str(error)})
    return CommandResult(
        [f"{'ok ' if check['ok'] else 'BAD'}  {check['said']}" for check in checks],
        {"verified": checks},
        EXIT_DONE if all(check["ok"] for check in checks) else EXIT_FAILED,
    )


@takes(
    argument("model", help="name of a model, an adapter or an unfinished pull"),
    switch("--yes", "delete without asking"),
)
def remove(arguments: argparse.Namespace) -> CommandResult:
    """Deletes a pulled model or an unfinished pull; takes an added model or an endpoint out of the list."""
    catalog = open_catalog()
    name = arguments.model
    book = EndpointBook(folders.data_dir())
    if name in {entry.name for entry in book.entries()}:
        done = f"forget the endpoint {name}"
        book.forget(name)
    elif any(plan.name == name for plan in unfinished(catalog.data)):
        done = f"delete what has arrived of {name}"
        ask_first(done, arguments.yes)
        Pulls(catalog.data).give_up(name)
    else:
        entry = find(catalog, name)
        done = model_files.removal(entry)
        if entry.origin == "pulled":
            ask_first(done, arguments.yes)
        model_files.remove(catalog, entry)
    return CommandResult([f"{name} is removed."], {"removed": name, "done": done})


@takes(
    PROJECT,
    argument(
        "model",
        nargs="?",
        help="name or path of a model, or endpoints as NAME,NAME2; the built-in model resets the choice"
        " (default: only print what is in use)",
    ),
    argument(
        "--for",
        dest="works",
        action="append",
        choices=tuple(WORKS),
        help="kind of work; may be repeated (default: all)",
    ),
)
def use(arguments: argparse.Namespace) -> CommandResult:
    """Sets the model that a project uses for some kinds of work, or lists the models in use."""
    name: str | None = arguments.model
    endpoints = Endpoints(folders.data_dir(), folders.cache_dir())
    with Project.open(Path(arguments.project), read_only=name is None, upgrade=True) as project:
        in_use = ModelsInUse(project, open_catalog(), endpoints)
        if name is not None:
            in_use.use(name, arguments.works or tuple(WORKS))
        chosen, adapter = in_use.chosen(), adapter_in_use(project)
    models = {work: chosen.get(work, DEFAULT_MODEL) for work in WORKS}
    lines = [f"{work:<11} {one_line(models[work], 60):<30} {what}" for work, what in WORKS.items()]
    if adapter is not None:
        lines.append(
            f"Mode `tuned` uses the adapter {one_line(adapter, 60)} and the model it was trained on."
        )
    return CommandResult(lines, {"models": models, "adapter": adapter})


@takes(
    PROJECT,
    argument("model", help="endpoints as NAME,NAME2, or the URL of one that makes vectors"),
    switch("--yes", "allow it without asking"),
)
def allow(arguments: argparse.Namespace) -> CommandResult:
    """Shows what of a project would be sent to an endpoint beyond this machine, and allows it.

    Raises:
        UsageError: There is no such endpoint, or it is on this machine.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        preview = egress_preview(workspace, arguments.model)
        if not arguments.yes:
            narrate("\n".join(preview.lines()))
        ask_first(f"let such texts go to {', '.join(preview.addresses)}", arguments.yes)
        for url in preview.addresses:
            workspace.egress.allow(url)
    return CommandResult(preview.lines() if arguments.yes else [], asdict(preview))


def open_catalog() -> Catalog:
    """Returns the user's model catalog."""
    return Catalog(folders.data_dir(), folders.cache_dir())


def _tune_model(catalog: Catalog, entry: ModelEntry) -> ModelEntry:
    """Compares the formats of a model with narration; returns its entry with the result."""
    process = ModelProcess(folders.log_dir() / "model.log")
    stage = TuningStage(process, catalog, entry, bundled_logs())
    try:
        for progress in stage.run(run_id=0):
            narrate(f"  {progress.note}")
    except KeyboardInterrupt:
        raise Cancelled("Tuning was cancelled; nothing was kept.") from None
    finally:
        process.close()
    for candidate in (stage.result or {})["candidates"]:
        speed = candidate["tokens_per_s"]
        agreement = candidate["agreement"]
        narrate(
            f"  {candidate['format']:<6} {'' if speed is None else f'{speed:,.0f} tokens/s':>16}"
            f"  agrees with F32 on {'?' if agreement is None else f'{agreement:.1%}'}"
            f"  {candidate['verdict']}"
        )
    return catalog.entry(entry.name)


# Output


def _list_entries(
    catalog: Catalog,
    entries: Sequence[ModelEntry | AdapterEntry],
    endpoints: Sequence[EndpointEntry] = (),
    pulls: Sequence[PullRow] = (),
) -> CommandResult:
    """Returns models, adapters, endpoints and unfinished pulls."""
    machine = machine_memory()
    models = [
        model_facts(catalog, entry, machine) for entry in entries if isinstance(entry, ModelEntry)
    ]
    adapters = [
        adapter_facts(catalog, entry) for entry in entries if isinstance(entry, AdapterEntry)
    ]
    lines = [
        _entry_line(model.entry.name, model.size, model.entry.origin, _model_summary(model))
        for model in models
    ]
    for adapter in adapters:
        note = f"adapter {one_line(adapter.note, 160)}"
        lines.append(_entry_line(adapter.entry.name, adapter.size, adapter.entry.origin, note))
    lines += [
        f"{one_line(endpoint.name, 28):<28} {'':>12}  {'endpoint':<9} {endpoint_summary(endpoint)}"
        for endpoint in endpoints
    ]
    for pull in pulls:
        arrived = f"{pull.done / 1e6:,.0f} MB have arrived; `workbench models pull` goes on"
        lines.append(_entry_line(pull.name, pull.total, "begun", arrived))
    document = {
        "models": [_model_json(catalog, entry, machine) for entry in models],
        "adapters": [_adapter_json(catalog, entry) for entry in adapters],
        "pulls": [
            {"name": p.name, "repository": p.repository, "done": p.done, "total": p.total}
            for p in pulls
        ],
        "endpoints": [endpoint_json(endpoint) for endpoint in endpoints],
    }
    return CommandResult(lines, document)


def _entry_line(name: str, size: int | None, origin: str, detail: str) -> str:
    """Returns a model or adapter as a line; its size is that on disk in bytes, None where the file is gone."""
    shown = f"{'gone':>12}" if size is None else f"{size / 1e6:>9,.0f} MB"
    if size is not None and size < 10_000_000:
        shown = f"{size / 1e6:>9,.1f} MB"
    return f"{one_line(name, 28):<28} {shown}  {origin:<9} {detail}"


def _model_summary(model: ModelFacts) -> str:
    """Returns what a model takes, how fast it is and where it is from; else what is wrong with it."""
    if model.problem:
        return one_line(model.problem, 300)
    parts = []
    if model.footprint is not None:
        parts.append(f"takes {model.footprint.need.total / 1e9:.1f} GB of memory")
        if model.footprint.fits is False:
            parts[-1] += ", MORE THAN THERE IS"
        if model.footprint.plan is not None:
            parts.append(
                f"{model.footprint.plan.layers} of {model.footprint.plan.of} layers on the GPU"
            )
    tuning = model.entry.tuning
    if tuning is None:
        parts.append("not tuned")
    else:
        parts.append(
            f"runs as {tuning['chosen']}, {tuning['tokens_per_s']:,.0f} tokens/s,"
            f" {tuning['gain']:.1f} x as shipped"
        )
    if model.license:
        parts.append(f"license {one_line(model.license, 30)}")
    if model.manifest is not None:
        parts.append(f"of {model.manifest.repository}")
    return ", ".join(parts)


def _file_json(
    catalog: Catalog, entry: ModelEntry | AdapterEntry, size: int | None
) -> dict[str, Any]:
    """Returns the facts about the file of a model or an adapter as JSON values; a file that is gone has no size."""
    return {
        "name": entry.name,
        "origin": entry.origin,
        "path": str(entry.path),
        "bytes": size or 0,
        "sha256": None if size is None else catalog.sha256(entry.path),
    }


def _model_json(catalog: Catalog, model: ModelFacts, machine: MachineMemory) -> dict[str, Any]:
    """Returns the facts about a model as JSON values."""
    entry, manifest, footprint = model.entry, model.manifest, model.footprint
    plan = footprint.plan if footprint else None
    return {
        **_file_json(catalog, entry, model.size),
        "tuning": entry.tuning,
        "license": model.license or None,
        "repository": manifest.repository if manifest else None,
        "revision": manifest.revision if manifest else None,
        "pulled_at": manifest.pulled_at if manifest else None,
        "memory": None
        if footprint is None
        else {
            "weights": footprint.need.weights,
            "cache": footprint.need.cache,
            "compute": footprint.need.compute,
            "context": footprint.need.context,
            "fits": footprint.fits,
        },
        "gpu": None
        if plan is None
        else {
            "device": machine.gpu,
            "layers": plan.layers,
            "of": plan.of,
            "bytes": plan.used,
            "free": plan.free,
        },
        "problem": model.problem or None,
    }


def _adapter_json(catalog: Catalog, adapter: AdapterFacts) -> dict[str, Any]:
    """Returns the facts about an adapter as JSON values."""
    entry = adapter.entry
    return {
        **_file_json(catalog, entry, adapter.size),
        "model": adapter.base,
        "base_name": entry.made_of.base_name,
        "base_fingerprint": entry.made_of.base_fingerprint,
        "recipe": entry.made_of.recipe,
        "auroc": entry.auroc,
    }
