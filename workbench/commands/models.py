"""`workbench models`: lists, adds, tunes, removes and chooses models, adapters and endpoints; shows what an endpoint
would be sent, and allows it; searches a hub and pulls from it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import folders
from engine.base.errors import Cancelled, UsageError
from engine.base.events import JobEnded, JobProgress, JobStarted, Outcome
from engine.base.text import one_line
from engine.model.catalog import DEFAULT_MODEL, RUN_ADAPTER, Catalog
from engine.model.catalog_files import Manifest
from engine.model.endpoints.client import REQUEST_SECONDS
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.endpoints.sender import Prices
from engine.model.hub.access import Hub, hub_from_environment, read_repository, search
from engine.model.hub.pulls import (
    PullPlan,
    PullProgress,
    carry_out,
    forget,
    free_space,
    plan_pull,
    refuse_without_room,
    unfinished_pulls,
)
from engine.model.memory_plan import machine_memory
from engine.model.process.process import ModelProcess
from engine.model.records import BUILT_IN_LIMITS, WORKS, HubRepository, ModelRow, Work
from engine.model.service import service
from engine.model.service.endpoints import Endpoints
from engine.model.service.run_setup import ModelsInUse, adapter_in_use, bundled_logs
from engine.model.service.service import add_file, find_entry, ggufs_in, list_facts, list_rows
from engine.model.stages import TuningStage
from engine.opener.model_previews import egress_preview
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from workbench.arguments import PROJECT, above_zero, argument, from_zero, number, switch, takes
from workbench.command_result import CommandResult
from workbench.narration import Narrator, ask_first, narrate

MB = 1_000_000
"""Bytes of a megabyte."""


def list_models(_arguments: argparse.Namespace) -> CommandResult:
    """Lists models, adapters, endpoints and unfinished pulls."""
    catalog = open_catalog()
    return _list_entries(
        catalog, list_rows(catalog, folders.data_dir()), unfinished_pulls(folders.data_dir())
    )


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
        return _list_named(catalog, [_add_endpoint(arguments).name])
    path = Path(os.path.expanduser(arguments.path)).resolve()
    if path.is_dir() and not (path / RUN_ADAPTER).is_file():
        files = ggufs_in(path)
        if arguments.name and len(files) > 1:
            raise UsageError(f"{path} holds {len(files)} models.", "Leave --name out.")
    else:
        files = [path]
    names = [add_file(catalog, file, arguments.name, narrate).name for file in files]
    return _list_named(catalog, names)


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
    process = ModelProcess(folders.log_dir() / "model.log")
    stage = TuningStage(process, catalog, catalog.entry(arguments.model), bundled_logs())
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
    return CommandResult([stage.summary()], {"tuning": stage.result})


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
    elif plan := next((plan for plan in unfinished_pulls(catalog.data) if plan.name == name), None):
        done = f"delete what has arrived of {name}"
        ask_first(done, arguments.yes)
        forget(plan)
    else:
        entry = find_entry(catalog, name)
        done = service.removal(entry)
        if entry.origin == "pulled":
            ask_first(done, arguments.yes)
        service.remove(catalog, entry)
    return CommandResult([f"{name} is removed."], {"removed": name, "done": done})


@takes(
    PROJECT,
    argument(
        "model",
        nargs="?",
        help="name or path of a model, or name of an endpoint; the built-in model resets the choice"
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
    descriptions: dict[str, dict[Work, str]] = {DEFAULT_MODEL: WORKS | BUILT_IN_LIMITS}
    lines = [
        f"{work:<11} {one_line(name, 60):<30} {descriptions.get(name, WORKS)[work]}"
        for work, name in models.items()
    ]
    if adapter is not None:
        lines.append(
            f"Mode `tuned` uses the adapter {one_line(adapter, 60)} and the model it was trained on."
        )
    return CommandResult(lines, {"models": models, "adapter": adapter})


@takes(
    PROJECT,
    argument("model", help="name of an endpoint, or the URL of one that makes vectors"),
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
            narrate(*preview.lines())
        ask_first(f"let such texts go to {preview.address}", arguments.yes)
        workspace.egress.allow(preview.address)
    return CommandResult(preview.lines() if arguments.yes else [], asdict(preview))


def open_catalog() -> Catalog:
    """Returns the user's model catalog."""
    return Catalog(folders.data_dir(), folders.cache_dir())


# Output


def _list_named(catalog: Catalog, names: Sequence[str]) -> CommandResult:
    """Returns the models, adapters and endpoints of these names."""
    rows = list_rows(catalog, folders.data_dir())
    return _list_entries(catalog, [row for row in rows if row.name in names])


def _list_entries(
    catalog: Catalog, rows: Sequence[ModelRow], pulls: Sequence[PullPlan] = ()
) -> CommandResult:
    """Returns models, adapters, endpoints and unfinished pulls."""
    lines = [_row_line(row) for row in rows]
    for pull in pulls:
        arrived = f"{pull.bytes_on_disk / MB:,.0f} MB have arrived; `workbench models pull` goes on"
        lines.append(_entry_line(pull.name, pull.size, "begun", arrived))
    models = []
    for row in rows:
        facts = list_facts(catalog, row.name, folders.data_dir())
        models.append(
            {**asdict(row), "facts": [{"name": name, "value": value} for name, value in facts]}
        )
        del models[-1]["works"]  # which are of a project
    document = {
        "models": models,
        "pulls": [
            {
                "name": pull.name,
                "repository": pull.manifest.repository,
                "done": pull.bytes_on_disk,
                "total": pull.size,
            }
            for pull in pulls
        ],
    }
    return CommandResult(lines, document)


def _row_line(row: ModelRow) -> str:
    """Returns a model, an adapter or an endpoint as a line: of a model what it takes, how fast it is and where it is
    from, and what is wrong with it."""
    if row.kind == "endpoint":
        return f"{one_line(row.name, 28):<28} {'':>12}  {row.origin:<9} {row.note}"
    if row.kind == "adapter":
        return _entry_line(row.name, row.size, row.origin, f"adapter {one_line(row.note, 160)}")
    if row.problem:
        return _entry_line(row.name, row.size, row.origin, one_line(row.problem, 300))
    parts = []
    if row.memory is not None:
        more = "" if row.fits is not False else ", MORE THAN THERE IS"
        parts.append(f"takes {row.memory / 1e9:.1f} GB of memory{more}")
    parts.append(f"runs as {row.runs_as}" if row.runs_as else "not tuned")
    if row.tokens_per_s is not None:
        parts.append(f"{row.tokens_per_s:,.0f} tokens/s")
    if row.license:
        parts.append(f"license {one_line(row.license, 30)}")
    if row.origin == "pulled":
        parts.append(f"of {row.source}")
    return _entry_line(row.name, row.size, row.origin, ", ".join(parts))


def _entry_line(name: str, size: int | None, origin: str, detail: str) -> str:
    """Returns a model or adapter as a line; its size is that on disk in bytes, None where the file is gone."""
    decimals = 1 if size is not None and size < 10 * MB else 0
    shown = f"{'gone':>12}" if size is None else f"{size / MB:>9,.{decimals}f} MB"
    return f"{one_line(name, 28):<28} {shown}  {origin:<9} {detail}"


@takes(
    argument(
        "words",
        nargs="+",
        metavar="WORD",
        help="words to search for; OWNER/NAME lists the files of a repository",
    ),
    number("--limit", "most repositories to list", 20),
)
def search_hub(arguments: argparse.Namespace) -> CommandResult:
    """Searches the hub, or lists the files of one repository."""
    words = " ".join(arguments.words).strip()
    hub = hub_from_environment()
    if "/" in words:
        return _list_files(read_repository(hub, words))
    repositories = search(hub, words, arguments.limit)
    lines = []
    for repository in repositories:
        gated = "gated, " if repository.gated else ""
        license_name = one_line(repository.license, 24) or "unknown"
        lines.append(
            f"{one_line(repository.name, 60):<60} {repository.downloads:>11,} downloads  {gated}"
            f"license {license_name}, {repository.changed}"
        )
    hint = f"{len(repositories)} found on {hub.host}; `workbench models search OWNER/NAME` lists files."
    return CommandResult(
        lines, {"found": [asdict(repository) for repository in repositories]}, hints=[hint]
    )


@takes(
    argument(
        "repository",
        nargs="?",
        metavar="OWNER/NAME",
        help="repository of the model (default: resume all unfinished pulls)",
    ),
    argument("file", nargs="?", help="its GGUF file, or a part of the file name, such as Q4_K_M"),
    argument("--revision", metavar="R", help="branch, tag or commit (default: the newest)"),
    argument("--name", help="name in the catalog (default: that of the file)"),
)
def pull(arguments: argparse.Namespace) -> CommandResult:
    """Pulls a model, or resumes one or all unfinished pulls."""
    catalog = open_catalog()
    if arguments.repository is None:
        plans = unfinished_pulls(catalog.data)
        if not plans:
            raise UsageError(
                "No pull is unfinished.", "Start one: `workbench models pull OWNER/NAME FILE`."
            )
    else:
        hub = hub_from_environment()
        repository = read_repository(hub, arguments.repository, arguments.revision)
        if repository.gated:
            narrate(
                f"{repository.name} is gated: its owners give it only to those who accept their terms."
            )
        file = repository.find_file(arguments.file)
        plans = [plan_pull(catalog.data, hub, repository, file, arguments.name)]
    pulled = []
    for plan in plans:
        catalog.refuse_taken(plan.name, plan.model_path)
        pulled.append(_pull(plan))
    lines = [f"{entry['name']}: {entry['path']}, checksum and header are right" for entry in pulled]
    return CommandResult(lines, {"pulled": pulled})


def _pull(plan: PullPlan) -> dict[str, Any]:
    """Pulls the files of a plan with narration; returns what arrived as JSON values.

    Raises:
        Cancelled: A person stopped the pull.
    """
    folders.log_to_file()
    manifest, title = plan.manifest, f"Pulling {plan.name}"
    refuse_without_room(plan)
    arrived = f", {plan.bytes_on_disk / MB:,.0f} MB of it are on disk" if plan.bytes_on_disk else ""
    narrate(
        f"{manifest.file.path} of {manifest.repository} at {manifest.revision[:8]},"
        f" {plan.size / MB:,.0f} MB{arrived}; license {manifest.license or 'unknown'};"
        f" {free_space(plan.folder) / 1e9:,.1f} GB are free in {plan.folder}."
    )
    narrator, redirects = Narrator(), set[str]()

    def report(progress: PullProgress) -> None:
        """Narrates how far the pull is, and once where the hub redirects it."""
        if progress.redirect and progress.redirect not in redirects:
            redirects.add(progress.redirect)
            narrate(f"  {manifest.hub} redirects the download: it comes {progress.redirect}")
        narrator(
            JobProgress(
                job_id=0,
                stage="pull",
                title=title,
                done=progress.done // MB,
                total=plan.size // MB,
                unit="MB",
                rate=progress.rate,
                eta_seconds=progress.seconds_left,
                note="checksum" if progress.checking else "",
            )
        )

    narrator(JobStarted(0, "pull", title))
    outcome: Outcome = "failed"
    try:
        manifest = carry_out(_hub_of(manifest.hub), plan, report)
        outcome = "done"
    except KeyboardInterrupt:
        raise Cancelled(
            f"The pull of {plan.name} is paused at {plan.bytes_on_disk / MB:,.1f} MB.",
            "`workbench models pull` resumes it.",
        ) from None
    finally:
        narrator(JobEnded(0, "pull", title, outcome, "the file is complete and checked."))
    return _pulled_json(manifest, plan.model_path)


def _hub_of(url: str) -> Hub:
    """Returns the hub at which a pull was started, with the token only if it is the current hub."""
    today = hub_from_environment()
    return today if today.url == url else Hub(url)


def _pulled_json(manifest: Manifest, path: Path) -> dict[str, Any]:
    """Returns what arrived as JSON values."""
    return {
        "name": manifest.name,
        "path": str(path),
        "bytes": manifest.file.size,
        "sha256": manifest.file.sha256,
        "hub": manifest.hub,
        "repository": manifest.repository,
        "revision": manifest.revision,
        "license": manifest.license or None,
        "pulled_at": manifest.pulled_at,
    }


def _list_files(repository: HubRepository) -> CommandResult:
    """Returns the files of one repository."""
    memory = machine_memory().together
    lines = []
    for file in repository.files:
        large = memory is not None and file.size > memory
        lines.append(
            f"{file.path:<64} {file.size / MB:>9,.0f} MB"
            f"{'  larger than the memory of this machine' if large else ''}"
        )
    gated = "gated, " if repository.gated else ""
    license = repository.license or "unknown"
    hints = [f"{repository.name} at {repository.revision[:8]}, {gated}license {license}."]
    if repository.left_out:
        hints.append(
            f"{repository.left_out} more files cannot be pulled: an unusual name, no checksum, or a part of a model."
        )
    document = {
        "repository": repository.name,
        "revision": repository.revision,
        "license": repository.license or None,
        "gated": repository.gated,
        "files": [{"name": file.path, "bytes": file.size} for file in repository.files],
    }
    return CommandResult(lines, document, hints=hints)
