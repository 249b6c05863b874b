"""Annotates conversations of users with a model as RecLLMSim's are, and measures the agreement with what came along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.base.statistics.labels import agree
from engine.completeness.turns import TurnRow, by_turns
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.tables import conversations, selecting
from engine.conversations.tables.truth import truth_by_conversation
from engine.model.chat import Role
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions.rating_scales import RATING, RATINGS, TAGS_OF_PEOPLE
from engine.results.metrics.learners import is_signs
from engine.simulate.profiles.labelling import MODEL, PEOPLE, PUBLISHED, AgreementRow
from engine.simulate.records import PlayRow
from engine.simulate.recsim.behaviour import Label
from engine.simulate.recsim.rating import INTENTS, Part, RatingScenario
from engine.simulate.service.request import SimulationOptions
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.sharded.json_replies import TRIES

KIND = "ratings"
_PARTS_AS_LABELS: Mapping[str, Sequence[Label]] = {
    "user_intents": INTENTS,
    "hallucination": ("false", "true"),
}
"""Annotations of single messages: their field in truth and in results, with their values."""


def rating_simulation(
    simulations: ProjectSimulations,
    project: Project,
    wanted: Filter,
    parts: Sequence[Part],
    options: SimulationOptions,
) -> Simulation:
    """Returns the simulation that annotates the matching conversations in which a user speaks.

    The model is told the profile and the situation of the user where they are known, although they are truth: without
    them nobody can say how well the user was played. No other metric reads what comes of it.

    Raises:
        UsageError: A model does not exist or cannot be used.
    """
    texts = simulations.texts(KIND)
    temperature = TRIES[0] if options.temperature is None else options.temperature
    found: list[RatingScenario] = []
    with project.reading() as conn, snapshot(conn):
        ids = selecting.ids(conn, ListQuery(wanted))
        told = dict(truth_by_conversation(conn))
        for key, messages in conversations.conversations_for(conn, ids):
            turns = tuple(
                (one.role, one.seen)
                for one in messages
                if not one.hidden and one.role in ("user", "assistant")
            )
            asked = [text for role, text in turns if role == "user"]
            if not asked:
                continue
            truth = told.get(key, {})
            found.append(
                RatingScenario(
                    key,
                    turns,
                    "zh" if is_signs(asked) else "en",
                    str(truth.get("preference") or truth.get("profile") or ""),
                    str(truth.get("goal_text") or ""),
                    texts,
                    tuple(parts),
                    temperature,
                    options.seed,
                )
            )
            if len(found) == options.limit:
                break

    def scenarios(labels: Mapping[Role, str]) -> list[RatingScenario]:
        return found

    params = {"parts": list(parts), "temperature": temperature, "seed": options.seed}
    return simulations.simulation(KIND, scenarios, params, {"judge": BY_SCHEMA}, options, texts)


def rated_by_turns(rows: Sequence[PlayRow], turns: Mapping[int, int]) -> list[TurnRow]:
    """The means of the model's ratings by number of turns, as in the data set's README.

    Args:
        turns: Number of the user's messages by conversation.
    """
    return by_turns((turns[_conversation(row)], {RATING: _ratings(row)}) for row in rows)


def rating_agreement(
    rows: Sequence[PlayRow],
    truths: Mapping[int, Mapping[str, Any]],
    tags: Mapping[int, Sequence[str]],
) -> list[AgreementRow]:
    """Measures the agreement of the model with published annotations, and of its ratings with people's.

    Intervals of intents and of hallucination resample messages, not conversations, so they are too narrow.

    Args:
        truths: Truth of the annotated conversations by id.
        tags: Their tags by id; people's ratings are tags such as `people.Diversity.2`.
    """
    found: list[AgreementRow] = []
    for name, values in RATINGS.items():
        grades = [one for one in values if isinstance(one, int)]
        published: list[tuple[Label, Label]] = []
        people: list[tuple[Label, Label]] = []
        for row in rows:
            ours, key = _ratings(row).get(name), _conversation(row)
            theirs = _of(truths.get(key, {}).get(RATING), name)
            if ours is None:
                continue
            if theirs in values:
                published.append((ours, theirs))
            given = [one for one in grades if f"{TAGS_OF_PEOPLE}.{name}.{one}" in tags.get(key, ())]
            if len(given) == 1:
                people.append((ours, given[0]))
        for other, pairs in ((PUBLISHED, published), (PEOPLE, people)):
            if pairs:
                found.append(_agreement(RATING, name, other, pairs, grades))
    for name, allowed in _PARTS_AS_LABELS.items():
        said: list[tuple[Label, Label]] = [
            (str(one), str(other))
            for row in rows
            for one, other in zip(
                _words(row.result.get(name)),
                _words(truths.get(_conversation(row), {}).get(name)),
                strict=False,
            )
            if one in allowed and other in allowed
        ]
        if said:
            found.append(_agreement(name, name, PUBLISHED, said))
    return found


def _agreement(
    schema: str,
    name: str,
    other: str,
    pairs: Sequence[tuple[Label, Label]],
    grades: Sequence[int] = (),
) -> AgreementRow:
    ours, theirs = [one for one, _ in pairs], [one for _, one in pairs]
    return AgreementRow(schema, name, MODEL, other, agree(ours, theirs, grades))


def _conversation(row: PlayRow) -> int:
    return int(row.result["conversation"])


def _ratings(row: PlayRow) -> Mapping[str, int]:
    found: Mapping[str, int] = row.result["labels"].get(RATING, {}).get("final", {})
    return found


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _words(value: Any) -> Iterable[str]:
    """Labels of messages as text; truth values as `true` and `false`."""
    listed = value if isinstance(value, list) else []
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in listed]
