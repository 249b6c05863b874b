"""Labels of how users ask, given by a model, and their agreement with imported labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.filters import Filter, ListQuery
from engine.model.chat import Role
from engine.records.simulation import PlayRow
from engine.services.simulation.options import SimulationOptions
from engine.services.simulation.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.recsim.behaviour import RUNS, SCHEMAS, TEMPERATURE, Label, Reading
from engine.store import conversations
from engine.store.project import Project
from engine.store.sql import snapshot
from engine.validate.learners import is_signs
from engine.validate.statistics.labels import LabelAgreement, agree, shared

KIND = "behaviour"
MODEL, PUBLISHED, PEOPLE = "model", "published", "people"
_PUBLISHED = {"strategy": "strategy", "strategy_V2": "strategy_V2", "strategy_V3": "strategy_V3"}
_PEOPLE = {
    "strategy": "strategy_human",
    "strategy_V2": "strategy_human_V2",
    "strategy_V3": "strategy_human_V3",
}
_FINAL_V3 = "user_strategy"
"""The truth that holds the published vote of the third schema by itself."""

Given = Mapping[int, Label]
"""A label by conversation."""


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """Two labellers on one label.

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
    """The labels that the model gave all conversations.

    Attributes:
        labelled: Conversations with a label, of `asked`.
        counts: By label, in the order of the schema.
        unanimous: Share of those with all runs in which all said the same; None where there are none.
    """

    schema: str
    label: str
    asked: int
    labelled: int
    counts: Mapping[str, int]
    unanimous: float | None


def readings(
    project: Project,
    wanted: Filter,
    texts: Mapping[str, str],
    schemas: Sequence[str],
    options: SimulationOptions,
) -> list[Reading]:
    """The conversations to label: those that match and in which a user speaks."""
    found: list[Reading] = []
    warmth = TEMPERATURE if options.temperature is None else options.temperature
    with project.reading() as conn, snapshot(conn):
        ids = conversations.ids(conn, ListQuery(wanted))
        for key, messages in conversations.conversations_for(conn, ids):
            turns = tuple((one.role, one.seen) for one in messages if not one.hidden)
            said = [text for role, text in turns if role == "user"]
            if not said:
                continue
            language = "zh" if is_signs(said) else "en"
            found.append(
                Reading(key, turns, language, texts, tuple(schemas), RUNS, warmth, options.seed)
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
    """What labels the users of a project.

    Raises:
        UsageError: A model cannot be had.
    """
    texts = simulations.texts(KIND)
    found = readings(project, wanted, texts, schemas, options)

    def scenarios(labels: Mapping[Role, str]) -> list[Reading]:
        return found

    warmth = TEMPERATURE if options.temperature is None else options.temperature
    params = {"schemas": list(schemas), "runs": RUNS, "temperature": warmth, "seed": options.seed}
    return simulations.simulation(KIND, scenarios, params, {"judge": BY_SCHEMA}, options, texts)


def label_rows(rows: Sequence[PlayRow], schemas: Sequence[str]) -> list[LabelRow]:
    """How often each label was given."""
    return [
        _label_row([row.result["labels"][schema] for row in rows], schema, name)
        for schema in schemas
        for name in SCHEMAS[schema]
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
        {str(label): finals.count(label) for label in SCHEMAS[schema][name]},
        sum(len(set(one)) == 1 for one in whole) / len(whole) if whole else None,
    )


def agreement_rows(
    rows: Sequence[PlayRow], truths: Mapping[int, Mapping[str, Any]], schemas: Sequence[str]
) -> list[AgreementRow]:
    """The model against the published labels and against people's, and these against each other.

    Args:
        truths: By conversation; of those that were labelled.
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
    """The label by conversation, out of the first field that has one; what is no label of the schema is none."""
    found: dict[int, Label] = {}
    for key, truth in truths.items():
        for field in fields:
            said = truth.get(field)
            final = said.get("final", said) if isinstance(said, Mapping) else None
            if isinstance(final, Mapping) and final.get(name) in labels:
                found[key] = final[name]
                break
    return found
