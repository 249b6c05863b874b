"""Annotates conversations of users with a model, in the fields that RecLLMSim publishes, and measures the agreement
with what came along: seven ratings, the intent of each message of the user, hallucination of each answer, and a summary
of the user's preferences.

The rubric (`rubric.txt`) has the README's words, letter for letter, for three ratings (detail, diversity, usefulness);
the README names the other four without a rubric.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from engine.base.statistics.agreement import Label, LabelAgreement, agree
from engine.base.text import CJK
from engine.conversations.tables import conversations
from engine.conversations.tables.conversations import truth_by_conversation
from engine.model.chat import (
    TRIES,
    USER_CHARS,
    Call,
    ChatMessage,
    Completion,
    Ending,
    Play,
    dialogue,
    seed_from,
    shortened,
)
from engine.model.prompt_files import filled
from engine.model.reply_forms import FieldsT, Limits
from engine.model.structured_replies import ask_in_play
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions.question_names import (
    ALLOWED_RATINGS,
    QUESTION_BY_RATING,
    RATING,
    RATING_BY_QUESTION,
)
from engine.questions.records import Answerer, MachineAnswer
from engine.questions.tables import machine_answers
from engine.results.metrics.known_outcomes import TurnRow, by_turns
from engine.simulate.records import PlayRow
from engine.simulate.request import SimulationOptions
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation

T = TypeVar("T")
"""What is made of a reply."""

KIND = "ratings"
"""The kind of these plays."""


Part = Literal["ratings", "intents", "hallucination", "preferences"]
PARTS: tuple[Part, ...] = ("ratings", "intents", "hallucination", "preferences")
"""What can be annotated."""


INTENTS = ("Planning", "Search", "Recommendation", "Search & Recommendation", "Others")
"""The intents of a message of the user, as RecLLMSim names them."""

MAX_PREFERENCES = 12
"""Most entries in the summary of the user's preferences."""

_TOKENS = 160
"""Longest reply in tokens."""

_ANSWER_CHARS = 4_000
"""Length of the answer that is judged; of earlier ones only the beginning is shown."""
_UNKNOWN = "not known"
"""Fills the place of a profile or situation that is not known."""

_LANGUAGES = {"en": "English", "zh": "Chinese"}
"""The name of each language, for the prompt."""

_LABELS_OF_MESSAGES: Mapping[str, Sequence[Label]] = {
    "user_intents": INTENTS,
    "hallucination": ("false", "true"),
}
"""Annotations of single messages: their field in truth and in results, with their values."""


@dataclass(frozen=True, slots=True)
class RatingScenario:
    """One conversation to annotate.

    Attributes:
        conversation: Its id in the project.
        turns: Role and text of each message, in order.
        profile, situation: What the user was told to play; empty where it is not known.
        texts: The prompts `system`, `rubric` and one for each part.
        temperature: Of the first attempt; a second one has 0.5, a third one 1.
    """

    conversation: int
    turns: Sequence[tuple[str, str]]
    language: str
    profile: str
    situation: str
    texts: Mapping[str, str]
    parts: tuple[Part, ...] = PARTS
    temperature: float = TRIES[0]
    seed: int = 0

    @property
    def key(self) -> str:
        """The name of the scenario, unique in its simulation."""
        return f"ratings/{self.conversation}"

    @property
    def expected(self) -> float:
        """Number of replies: one a conversation for ratings and preferences, one a message for the others."""
        sides = [role for role, _ in self.turns]
        each = {"intents": sides.count("user"), "hallucination": sides.count("assistant")}
        return float(sum(each.get(part, 1) for part in self.parts))

    def play(self) -> Play:
        """Returns a new play; what the model could not say is null, or missing among the ratings."""
        result: dict[str, Any] = {"conversation": self.conversation, "labels": {}}
        if "ratings" in self.parts:
            ratings = yield from self._ask_model(
                "ratings", self.turns, Ratings, msgspec.to_builtins, limits=_GRADES
            )
            result["labels"] = {RATING: {"final": ratings or {}}}
        if "intents" in self.parts:
            result["user_intents"] = yield from self._ask_of_each(
                "user", "intent", Intent, lambda reply: reply.intent, {"intent": {"enum": INTENTS}}
            )
        if "hallucination" in self.parts:
            judged = yield from self._ask_of_each(
                "assistant", "hallucination", Hallucination, lambda reply: reply
            )
            result["hallucination"] = [verdict and verdict.hallucination for verdict in judged]
            result["hallucination_memo"] = [verdict and verdict.memo.strip() for verdict in judged]
        if "preferences" in self.parts:
            listed = yield from self._ask_model(
                "preferences", self.turns, Preferences, _preferences
            )
            result["preference_summary"] = listed
        return Ending(result=result)

    def _ask_of_each(
        self,
        side: str,
        prompt: str,
        form: type[FieldsT],
        use: Callable[[FieldsT], T],
        limits: Limits = MappingProxyType({}),
    ) -> Generator[Call, Completion, list[T | None]]:
        """Returns what the model says of each message of a side; it sees the conversation up to that message."""
        answers: list[T | None] = []
        for index, (role, _) in enumerate(self.turns):
            if role == side:
                visible = self.turns[: index + 1]
                answers.append(
                    (yield from self._ask_model(prompt, visible, form, use, index, limits))
                )
        return answers

    def _ask_model(
        self,
        prompt: str,
        turns: Sequence[tuple[str, str]],
        form: type[FieldsT],
        use: Callable[[FieldsT], T],
        index: int = 0,
        limits: Limits = MappingProxyType({}),
    ) -> Generator[Call, Completion, T | None]:
        """Asks the model about a conversation so far; returns what `use` makes of its reply, or None.

        Args:
            prompt: Name of the prompt.
            form, use, limits: See `ask_in_play`.
            index: Index of the message that is asked about, which gives each call a seed of its own.
        """
        *earlier, (role, last) = turns
        limit = USER_CHARS if role == "user" else _ANSWER_CHARS
        visible = f"{dialogue(earlier)}\n\n{role.upper()}: {shortened(last, limit)}".strip()
        question = filled(
            self.texts[prompt],
            {
                "LANGUAGE": _LANGUAGES[self.language],
                "DIALOGUE": visible,
                "PROFILE": self.profile or _UNKNOWN,
                "SITUATION": self.situation or _UNKNOWN,
                "RUBRIC": self.texts["rubric"].strip(),
            },
        )
        call = Call(
            module=prompt,
            role="judge",
            messages=(
                ChatMessage("system", self.texts["system"].strip()),
                ChatMessage("user", question),
            ),
            max_tokens=_TOKENS,
            seed=seed_from(self.seed, self.key, prompt, index),
        )
        temperatures = (self.temperature, *TRIES[1:])
        return (yield from ask_in_play(call, form, use, temperatures, limits))


_GRADES: Limits = {name: {"enum": grades} for name, grades in ALLOWED_RATINGS.items()}
"""The grades of the seven ratings."""

Ratings = msgspec.defstruct(
    "Ratings", [(question, int) for question in RATING_BY_QUESTION], rename=RATING_BY_QUESTION
)
"""The seven ratings."""


class Intent(msgspec.Struct):
    """The intent of a message of the user."""

    intent: str


class Hallucination(msgspec.Struct):
    """The judgment of an answer of the assistant: whether it is made up, and why."""

    hallucination: bool
    memo: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Preferences(msgspec.Struct):
    """The user's preferences."""

    preferences: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=60)]],
        msgspec.Meta(max_length=MAX_PREFERENCES),
    ]


def _preferences(reply: Preferences) -> list[str]:
    """Returns the preferences, each once."""
    return list(dict.fromkeys(text.strip() for text in reply.preferences if text.strip()))


def rating_simulation(
    simulations: ProjectSimulations,
    project: Project,
    ids: Sequence[int],
    parts: Sequence[Part],
    options: SimulationOptions,
) -> Simulation:
    """Returns the simulation that annotates those of the conversations in which a user speaks.

    The model is told the profile and the situation of the user where they are known, although they are truth: without
    them nobody can say how well the user was played. No other metric reads what comes of it.

    Raises:
        UsageError: A model does not exist or cannot be used.
    """
    texts = simulations.texts(KIND)
    temperature = TRIES[0] if options.temperature is None else options.temperature
    annotated: list[RatingScenario] = []
    with project.reading() as conn, snapshot(conn):
        truths = dict(truth_by_conversation(conn))
        for key, messages in conversations.conversations_for(conn, ids):
            turns = tuple(
                (message.role, message.seen)
                for message in messages
                if not message.hidden and message.role in ("user", "assistant")
            )
            of_user = [text for role, text in turns if role == "user"]
            if not of_user:
                continue
            truth = truths.get(key, {})
            annotated.append(
                RatingScenario(
                    conversation=key,
                    turns=turns,
                    language="zh" if _is_chinese(of_user) else "en",
                    profile=str(truth.get("preference") or truth.get("profile") or ""),
                    situation=str(truth.get("goal_text") or ""),
                    texts=texts,
                    parts=tuple(parts),
                    temperature=temperature,
                    seed=options.seed,
                )
            )
            if len(annotated) == options.limit:
                break

    params = {"parts": list(parts), "temperature": temperature, "seed": options.seed}
    return simulations.simulation(
        KIND, lambda labels: annotated, params, {"judge": BY_SCHEMA}, options, texts
    )


def _is_chinese(texts: Sequence[str]) -> bool:
    """Whether most letters of the texts belong to a script without spaces between words."""
    # The beginnings of the first messages suffice.
    sample = "".join(text[:1_000] for text in texts[:200])
    return len(re.findall(f"[{CJK}]", sample)) > len(re.findall("[A-Za-z]", sample))


@dataclass(frozen=True, slots=True)
class LabelRow:
    """Counts of the labels that the model gave in one rating.

    Attributes:
        schema: Always `rating`.
        label: Name of the rating.
        asked: Number of conversations that the model was asked about.
        labelled: Number of those with a label.
        counts: Number of conversations by label, in the order of the grades.
    """

    schema: str
    label: str
    asked: int
    labelled: int
    counts: Mapping[str, int]


def label_rows(rows: Sequence[PlayRow]) -> list[LabelRow]:
    """Returns how often the model gave each grade of each rating."""
    labels: list[LabelRow] = []
    for name, values in ALLOWED_RATINGS.items():
        grades = [_ratings_of(row)[name] for row in rows if name in _ratings_of(row)]
        counts = {str(value): grades.count(value) for value in values}
        labels.append(LabelRow(RATING, name, len(rows), len(grades), counts))
    return labels


def answer_ratings(project: Project, rows: Sequence[PlayRow], config_hash: str, model: str) -> int:
    """Stores the ratings as answers of a model to a question for each, such as `diversity`, and returns their number.

    Args:
        config_hash: Of the setting that they were made in.
    """

    def work(conn: sqlite3.Connection) -> int:
        count = 0
        for question, name in RATING_BY_QUESTION.items():
            rated = [
                (row.run_id, MachineAnswer(_conversation(row), str(_ratings_of(row)[name])))
                for row in rows
                if name in _ratings_of(row)
            ]
            answerer = Answerer(f"{config_hash}/{question}", question, "model", model)
            machine_answers.register(conn, answerer)
            for run_id, answer in rated:
                machine_answers.put(conn, answerer.config_hash, run_id, [answer])
            count += len(rated)
        return count

    return project.write(work)


def truths_of(project: Project, ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
    """Returns the truth that these conversations came with, by their keys; those without any are left out."""
    with project.reading() as conn:
        return {key: truth for key, truth in truth_by_conversation(conn) if key in ids}


def rated_by_turns(rows: Sequence[PlayRow], turns: Mapping[int, int]) -> list[TurnRow]:
    """Returns the means of the model's ratings by number of turns, as in the data set's README.

    Args:
        turns: Number of the user's messages by conversation.
    """
    return by_turns((turns[_conversation(row)], {RATING: _ratings_of(row)}) for row in rows)


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """Agreement of the model with another labeler on one label.

    Attributes:
        one: Always `model`.
        other: `published` or `people`.
    """

    schema: str
    label: str
    one: str
    other: str
    found: LabelAgreement


def rating_agreement(
    rows: Sequence[PlayRow],
    truths: Mapping[int, Mapping[str, Any]],
    answers_of_people: Mapping[int, Mapping[str, str]],
) -> list[AgreementRow]:
    """Returns the agreement of the model with published annotations, and of its ratings with people's.

    Intervals of intents and of hallucination resample messages, not conversations, so they are too narrow.

    Args:
        truths: Truth of the annotated conversations by id.
        answers_of_people: What people answered by id, by the name of the question, such as `diversity`.
    """
    agreements: list[AgreementRow] = []
    for name, grades in ALLOWED_RATINGS.items():
        published: list[tuple[Label, Label]] = []
        people: list[tuple[Label, Label]] = []
        for row in rows:
            label_of_model, key = _ratings_of(row).get(name), _conversation(row)
            if label_of_model is None:
                continue
            ratings = truths.get(key, {}).get(RATING)
            label_of_other = ratings.get(name) if isinstance(ratings, Mapping) else None
            if label_of_other in grades:
                published.append((label_of_model, label_of_other))
            grade = answers_of_people.get(key, {}).get(QUESTION_BY_RATING[name])
            if grade is not None and grade.isdecimal() and int(grade) in grades:
                people.append((label_of_model, int(grade)))
        for other, pairs in (("published", published), ("people", people)):
            if pairs:
                agreements.append(_agreement(RATING, name, other, pairs, grades))
    for name, allowed in _LABELS_OF_MESSAGES.items():
        labels: list[tuple[Label, Label]] = [
            (label_of_model, label_of_other)
            for row in rows
            for label_of_model, label_of_other in zip(
                _words(row.result.get(name)),
                _words(truths.get(_conversation(row), {}).get(name)),
                strict=False,
            )
            if label_of_model in allowed and label_of_other in allowed
        ]
        if labels:
            agreements.append(_agreement(name, name, "published", labels))
    return agreements


def _agreement(
    schema: str,
    name: str,
    other: str,
    pairs: Sequence[tuple[Label, Label]],
    grades: Sequence[int] = (),
) -> AgreementRow:
    """Returns how well the labels of the model agree with those of another labeler."""
    labels_of_model, labels_of_other = zip(*pairs, strict=True)
    return AgreementRow(
        schema, name, "model", other, agree(labels_of_model, labels_of_other, grades)
    )


def _conversation(row: PlayRow) -> int:
    """Returns the id of the conversation that a play annotated."""
    return int(row.result["conversation"])


def _ratings_of(row: PlayRow) -> Mapping[str, int]:
    """Returns the ratings of a play by name; empty where the model could not say any."""
    ratings: Mapping[str, int] = row.result["labels"].get(RATING, {}).get("final", {})
    return ratings


def _words(value: Any) -> Iterable[str]:
    """Returns the labels of messages as text; truth values as `true` and `false`."""
    labels = value if isinstance(value, list) else []
    return [str(label).lower() if isinstance(label, bool) else str(label) for label in labels]
