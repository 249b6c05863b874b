"""Labels the strategies of users with a model, and measures the agreement with imported labels."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.statistics.labels import LabelAgreement, agree, shared
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.tables import conversations, selecting
from engine.model.chat import Role
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions.rating_scales import RATING, RATINGS
from engine.questions.tables import verdicts
from engine.results.metrics.learners import is_signs
from engine.simulate.records import PlayRow
from engine.simulate.recsim.behaviour import RUNS, SCHEMAS, TEMPERATURE, Label, LabellingScenario
from engine.simulate.service.request import SimulationOptions
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation

KIND = "behaviour"
MODEL, PUBLISHED, PEOPLE = "model", "published", "people"
_PUBLISHED = {"strategy": "strategy", "strategy_V2": "strategy_V2", "strategy_V3": "strategy_V3"}
_PEOPLE = {
    "strategy": "strategy_human",
    "strategy_V2": "strategy_human_V2",
    "strategy_V3": "strategy_human_V3",
}
_FINAL_V3 = "user_strategy"
"""Field of truth that holds the published majority label of the third schema."""

LABELS: Mapping[str, Mapping[str, tuple[Label, ...]]] = {**SCHEMAS, RATING: RATINGS}
"""Schema -> label name -> possible labels, the ratings included."""

Given = Mapping[int, Label]
"""Conversation id -> label."""


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """Agreement of two labellers on one label.

    Attributes:
        one, other: `model`, `published` or `people`.
    """

    schema: str
    label: str
    one: str
    other: str
    found: LabelAgreement


@dataclass(frozen=True, slots=True)
class LabelRow:
    """Counts of the labels that the model gave.

    Attributes:
        labelled: Number of conversations with a label, out of `asked`.
        counts: Number of conversations by label, in the order of the schema.
        unanimous: Share of the conversations with all runs in which all runs agree; None without such conversations.
    """

    schema: str
    label: str
    asked: int
    labelled: int
    counts: Mapping[str, int]
    unanimous: float | None


def labelling_scenarios(
    project: Project,
    wanted: Filter,
    texts: Mapping[str, str],
    schemas: Sequence[str],
    options: SimulationOptions,
) -> list[LabellingScenario]:
    """Returns a scenario for each matching conversation that has a user message."""
    found: list[LabellingScenario] = []
    warmth = TEMPERATURE if options.temperature is None else options.temperature
    with project.reading() as conn, snapshot(conn):
        ids = selecting.ids(conn, ListQuery(wanted))
        for key, messages in conversations.conversations_for(conn, ids):
            turns = tuple((one.role, one.seen) for one in messages if not one.hidden)
            user_texts = [text for role, text in turns if role == "user"]
            if not user_texts:
                continue
            language = "zh" if is_signs(user_texts) else "en"
            found.append(
                LabellingScenario(
                    key, turns, language, texts, tuple(schemas), RUNS, warmth, options.seed
                )
            )
            if len(found) == options.limit:
                break
    return found


def behaviour_simulation(
    simulations: ProjectSimulations,
    project: Project,
    wanted: Filter,
    schemas: Sequence[str],
    options: SimulationOptions,
) -> Simulation:
    """Returns the simulation that labels the users of the matching conversations.

    Raises:
        UsageError: A model does not exist or cannot be used.
    """
    texts = simulations.texts(KIND)
    found = labelling_scenarios(project, wanted, texts, schemas, options)

    def scenarios(labels: Mapping[Role, str]) -> list[LabellingScenario]:
        return found

    warmth = TEMPERATURE if options.temperature is None else options.temperature
    params = {"schemas": list(schemas), "runs": RUNS, "temperature": warmth, "seed": options.seed}
    return simulations.simulation(KIND, scenarios, params, {"judge": BY_SCHEMA}, options, texts)


def tag_of(schema: str, name: str, label: Label) -> str:
    """The tag of a label, `strategy_V2.order.Depth`."""
    return f"{schema}.{name}.{label}"


def tag_labels(
    project: Project, rows: Sequence[PlayRow], schemas: Sequence[str], annotator: str
) -> int:
    """Tags conversations with the labels that the model gave them, and takes the tags of other labels of the same
    name away; returns how many tags were given.

    Args:
        annotator: Stored as who gave the tags.
    """
    given: dict[str, list[int]] = {}
    others: dict[str, list[int]] = {}
    for row in rows:
        for schema in schemas:
            for name, final in row.result["labels"][schema]["final"].items():
                for label in LABELS[schema][name]:
                    which = given if label == final else others
                    tag = tag_of(schema, name, label)
                    which.setdefault(tag, []).append(int(row.result["conversation"]))

    def work(conn: sqlite3.Connection) -> int:
        for tag, ids in others.items():
            verdicts.untag(conn, ids, tag, annotator)
        return sum(verdicts.tag(conn, ids, tag, annotator) for tag, ids in given.items())

    return project.write(work)


def label_rows(rows: Sequence[PlayRow], schemas: Sequence[str]) -> list[LabelRow]:
    """Counts how often the model gave each label."""
    return [
        _label_row([row.result["labels"][schema] for row in rows], schema, name)
        for schema in schemas
        for name in LABELS[schema]
    ]


def _label_row(labelled: Sequence[Mapping[str, Any]], schema: str, name: str) -> LabelRow:
    finals = [one["final"][name] for one in labelled if name in one["final"]]
    runs = [[run[name] for key, run in one.items() if key != "final"] for one in labelled]
    whole = [one for one in runs if len(one) == RUNS]
    return LabelRow(
        schema,
        name,
        len(labelled),
        len(finals),
        {str(label): finals.count(label) for label in LABELS[schema][name]},
        sum(len(set(one)) == 1 for one in whole) / len(whole) if whole else None,
    )


def agreement_rows(
    rows: Sequence[PlayRow], truths: Mapping[int, Mapping[str, Any]], schemas: Sequence[str]
) -> list[AgreementRow]:
    """Measures the agreement of the model, the published labels and people's labels with each other.

    Args:
        truths: Truth of the labelled conversations by id.
    """
    found: list[AgreementRow] = []
    for schema in schemas:
        for name, labels in SCHEMAS[schema].items():
            by: dict[str, Given] = {
                MODEL: {
                    int(row.result["conversation"]): row.result["labels"][schema]["final"][name]
                    for row in rows
                    if name in row.result["labels"][schema]["final"]
                },
                PUBLISHED: _given(truths, _published(schema), name, labels),
                PEOPLE: _given(truths, (_PEOPLE[schema],), name, labels),
            }
            grades = tuple(one for one in labels if isinstance(one, int))
            for one, other in ((MODEL, PUBLISHED), (MODEL, PEOPLE), (PUBLISHED, PEOPLE)):
                ours, theirs = shared(by[one], by[other])
                if ours:
                    found.append(
                        AgreementRow(schema, name, one, other, agree(ours, theirs, grades))
                    )
    return found


def _published(schema: str) -> tuple[str, ...]:
    return (_PUBLISHED[schema], _FINAL_V3) if schema == "strategy_V3" else (_PUBLISHED[schema],)


def _given(
    truths: Mapping[int, Mapping[str, Any]],
    fields: Sequence[str],
    name: str,
    labels: Sequence[Label],
) -> Given:
    """Returns the label by conversation from the first field that has one; skips values that the schema does not
    have."""
    found: dict[int, Label] = {}
    for key, truth in truths.items():
        for field in fields:
            value = truth.get(field)
            final = value.get("final", value) if isinstance(value, Mapping) else None
            if isinstance(final, Mapping) and final.get(name) in labels:
                found[key] = final[name]
                break
    return found
