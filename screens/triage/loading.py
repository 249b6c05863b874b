"""Reads the queue and the counts of the verdicts; to be called on another thread."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from engine.conversations.filters import Filter, ListQuery
from engine.opener.open_project import OpenProject
from engine.questions.records.triage import QueueOrder, TriagePage
from screens.triage.formatting import TriageStatus


@dataclass(frozen=True, slots=True)
class LoadedQueue:
    """The first page of the queue, the state of all verdicts, and whether anything in the project is scored."""

    page: TriagePage
    status: TriageStatus
    scored: bool


def load_queue(
    services: OpenProject, order: QueueOrder, wanted: Filter, only: Collection[int] | None = None
) -> LoadedQueue:
    """Reads the queue in an order, of what a filter matches, and where `only` is given, of these conversations; in the
    order `list` also of what the list's filter matches."""
    if order == "informative":
        services.example_probes.prepare()
    query = ListQuery(wanted)
    if order == "list":
        listed = services.saved.view()[0]
        query = replace(listed, filter=Filter((*listed.filter.terms, *wanted.terms)))
    page = services.triage.queue(order, query, only)
    scored = page.total > 0 or services.conversations.counts().scored > 0
    return LoadedQueue(page, load_status(services), scored)


def load_status(services: OpenProject) -> TriageStatus:
    """Counts the verdicts and compares them with the model, with those given again blind, and with their probe."""
    model, itself = services.calibration.agreements()
    probes = services.example_probes
    return TriageStatus(
        services.triage.tally(),
        model,
        itself,
        probes.success_in_force(),
        probes.change(),
        services.triage.annotator,
    )


def load_blind(services: OpenProject, count: int) -> tuple[TriageStatus, list[int], list[int]]:
    """The status, and ids of at most `count` conversations to judge blind: again, and after other people."""
    triage = services.triage
    return load_status(services), triage.to_repeat(count), triage.to_judge_second(count)
