"""How probable a property is over the answers of many conversations, by their response trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.base.number_format import counted, figure_range
from engine.base.statistics.bounded import mean_limits
from engine.trees.guarantee import PROVES_NOTHING, ProbabilityBounds

TOO_WIDE = (
    "The bounds are too wide to be useful: no complete answer decides the property."
    " Try a lower --alpha."
)
"""Said of bounds that prove nothing (`PROVES_NOTHING`)."""


@dataclass(frozen=True, slots=True)
class OverConversations:
    """Bounds on the probability that an answer has a property, over conversations.

    Attributes:
        text: The property, such as `contains yes`.
        trees: Name and bounds of each conversation: of its first tree.
        sample: Bounds on the mean over these conversations: nothing is uncertain but what the trees leave out.
        population: 95% limits of the mean over the conversations that these are a random sample of.
    """

    text: str
    trees: Sequence[tuple[str, ProbabilityBounds]]
    sample: ProbabilityBounds
    population: ProbabilityBounds

    @classmethod
    def of(cls, text: str, trees: Sequence[tuple[str, ProbabilityBounds]]) -> OverConversations:
        """Computes them from the bounds of each conversation, of which there is at least one."""
        lows, highs = [one.low for _, one in trees], [one.high for _, one in trees]
        exactly = ProbabilityBounds(sum(lows) / len(lows), sum(highs) / len(highs))
        return cls(text, trees, exactly, ProbabilityBounds(*mean_limits(lows, highs)))

    @property
    def lines(self) -> list[str]:
        """The bounds as text."""
        sample, population = self.sample, self.population
        likely = sum(one.low > 0.5 for _, one in self.trees)
        unlikely = sum(one.high < 0.5 for _, one in self.trees)
        lines = [
            f"P({self.text}) over the first answers of {counted(len(self.trees), 'conversation')}",
            f"  of these conversations      {figure_range(sample.low, sample.high)}, exact bounds",
            f"  of conversations like them  {figure_range(population.low, population.high)}, with 95% confidence,"
            " if these are a random sample of them",
            f"  by conversation             {likely:,} above .5, {unlikely:,} below,"
            f" {len(self.trees) - likely - unlikely:,} undecided",
        ]
        if sample.high - sample.low >= PROVES_NOTHING:
            lines.append(f"  {TOO_WIDE}")
        return lines

    def as_json(self) -> dict[str, Any]:
        """The bounds as JSON values."""
        return {
            "text": self.text,
            "n": len(self.trees),
            "sample": asdict(self.sample),
            "population": asdict(self.population),
            "conversations": [{"id": name, **asdict(one)} for name, one in self.trees],
        }
