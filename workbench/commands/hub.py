"""`workbench models search` and `workbench models pull`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base import folders
from engine.base.errors import Cancelled, UsageError
from engine.base.events import JobEnded, JobProgress, JobStarted, Outcome
from engine.base.text import one_line
from engine.model.catalog_files import Manifest
from engine.model.hub.access import Hub, hub_from_environment, look_at, search
from engine.model.hub.pulls import (
    PullPlan,
    PullProgress,
    carry_out,
    free_space,
    plan_pull,
    refuse_without_room,
    unfinished,
)
from engine.model.memory_plan import machine_memory
from engine.model.records import HubRepository
from workbench.arguments import argument, number, takes
from workbench.command_result import CommandResult
from workbench.commands.models import open_catalog
from workbench.narration import Narrator, narrate

MB = 1_000_000
"""Bytes of a megabyte."""


@takes(
    argument(
        "words",
        nargs="+",
        metavar="WORD",
        help="words to search for; OWNER/NAME lists the files of a repository",
    ),
    number("--limit", "most repositories to list", 20),
)
def find(arguments: argparse.Namespace) -> CommandResult:
    """Searches the hub, or lists the files of one repository."""
    words = " ".join(arguments.words).strip()
    hub = hub_from_environment()
    if "/" in words:
        return _list_files(look_at(hub, words))
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
        plans = unfinished(catalog.data)
        if not plans:
            raise UsageError(
                "No pull is unfinished.", "Start one: `workbench models pull OWNER/NAME FILE`."
            )
    else:
        hub = hub_from_environment()
        repository = look_at(hub, arguments.repository, arguments.revision)
        if repository.gated:
            narrate(
                f"{repository.name} is gated: its owners give it only to those who accept their terms."
            )
        file = repository.file(arguments.file)
        plans = [plan_pull(catalog.data, hub, repository, file, arguments.name)]
    pulled = []
    for plan in plans:
        catalog.refuse_taken(plan.name, plan.place)
        pulled.append(_pull(plan))
    lines = [f"{entry['name']}: {entry['path']}, checksum and header are right" for entry in pulled]
    return CommandResult(lines, {"pulled": pulled})


def _pull(plan: PullPlan) -> dict[str, Any]:
    """Pulls the files of a plan with narration; returns what arrived as JSON values."""
    folders.log_to_file()
    manifest, title = plan.manifest, f"Pulling {plan.name}"
    refuse_without_room(plan)
    arrived = f", {plan.done / MB:,.0f} MB of it are on disk" if plan.done else ""
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
            f"The pull of {plan.name} is paused at {plan.done / MB:,.1f} MB.",
            "`workbench models pull` resumes it.",
        ) from None
    finally:
        narrator(JobEnded(0, "pull", title, outcome, "the file is complete and checked."))
    return _pulled_json(manifest, plan.place)


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
