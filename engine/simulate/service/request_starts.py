"""Asks a model which messages of a user begin another request than the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from engine.conversations.tables import conversations
from engine.model.chat import TRIES, Call, ChatMessage, Ending, Play, dialogue, seed_from
from engine.model.prompt_files import filled
from engine.model.structured_replies import ask_in_play
from engine.project.project import Project
from engine.simulate.records import PlayRow
from engine.simulate.request import SimulationOptions
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation

KIND = "requests"
"""The kind of these plays."""

_TOKENS = 24
"""Longest reply in tokens."""


class NewRequest(msgspec.Struct):
    """Whether a message begins another request."""

    new_request: bool


@dataclass(frozen=True, slots=True)
class RequestStartScenario:
    """One conversation whose requests are looked for.

    Attributes:
        conversation: Its id in the project.
        turns: Index, role and text of each message of user and assistant, in order.
        texts: The prompts `system` and `begins`.
    """

    conversation: int
    turns: tuple[tuple[int, str, str], ...]
    texts: Mapping[str, str]

    @property
    def key(self) -> str:
        """The name of the scenario, unique in its simulation."""
        # With a digest: the answers of a text do not hold for the one that an import puts in its place.
        return f"requests/{self.conversation}@{seed_from(*self.turns):08x}"

    @property
    def expected(self) -> float:
        """Number of replies: one for each message that is asked about."""
        return float(len(self._places_to_ask_about()))

    def _places_to_ask_about(self) -> list[int]:
        """Returns the places of the user's messages that follow an answer, without the first one: a greeting of the
        assistant comes before the first request, not between two."""
        roles = [role for _, role, _ in self.turns]
        of_user = [index for index, role in enumerate(roles) if role == "user"]
        return [index for index in of_user[1:] if "assistant" in roles[:index]]

    def play(self) -> Play:
        """Returns a new play; its result has the indices of the messages that begin a request. A message of which the
        model says nothing begins none."""
        begins: list[int] = []
        for index in self._places_to_ask_about():
            shown = [(role, text) for _, role, text in self.turns[: index + 1]]
            call = Call(
                module="begins",
                role="judge",
                messages=(
                    ChatMessage("system", self.texts["system"].strip()),
                    ChatMessage(
                        "user", filled(self.texts["begins"], {"DIALOGUE": dialogue(shown)})
                    ),
                ),
                max_tokens=_TOKENS,
                seed=seed_from(self.key, index),
            )
            if (yield from ask_in_play(call, NewRequest, lambda reply: reply.new_request, TRIES)):
                begins.append(self.turns[index][0])
        return Ending(result={"conversation": self.conversation, "starts": begins})


def asking_simulation(
    simulations: ProjectSimulations,
    project: Project,
    ids: Sequence[int],
    options: SimulationOptions,
) -> Simulation:
    """Returns the simulation that asks a model about each message of a user that follows an answer, without the first.

    Raises:
        UsageError: A model does not exist or cannot be used.
    """
    texts = simulations.texts(KIND)
    scenarios = []
    with project.reading() as conn:
        for key, messages in conversations.conversations_for(conn, ids):
            turns = tuple(
                (index, message.role, message.seen)
                for index, message in enumerate(messages)
                if not message.hidden and message.role in ("user", "assistant")
            )
            scenario = RequestStartScenario(key, turns, texts)
            if scenario.expected:
                scenarios.append(scenario)
    return simulations.simulation(
        KIND, lambda labels: scenarios, {}, {"judge": BY_SCHEMA}, options, texts
    )


def starts_by_conversation(rows: Sequence[PlayRow]) -> dict[int, list[int]]:
    """Returns the indices of the messages that begin a further request, by conversation, of plays that ended."""
    return {int(row.result["conversation"]): list(row.result["starts"]) for row in rows}
