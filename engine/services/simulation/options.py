"""Options of all kinds of simulations."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.chat import Role
from engine.stages.playing import PARALLEL


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of all kinds of simulations.

    Attributes:
        model: Name or path of the model, or endpoints as `NAME,NAME2`; None is the one that the project uses
            for simulations.
        user_model, judge_model: The same for those who play the user and who judge; None is `model`.
        context: Longest conversation in tokens; None takes the model's own, at most 8,192.
        runs: How often each scenario is played.
        seed: Of all that is random.
        temperature: Of the replies that are not constrained; None leaves it to the kind.
        parallel: Plays that are on at once.
        limit: The first so many scenarios.
    """

    model: str | None = None
    user_model: str | None = None
    judge_model: str | None = None
    context: int | None = None
    runs: int = 1
    seed: int = 0
    temperature: float | None = None
    parallel: int = PARALLEL
    limit: int | None = None

    def model_of(self, role: Role) -> str | None:
        """Which model plays a role."""
        chosen = {"user": self.user_model, "judge": self.judge_model, "assistant": None}[role]
        return chosen or self.model
