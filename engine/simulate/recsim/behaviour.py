"""Labels a user's strategy with a model in the three schemas of RecLLMSim: three runs and a majority vote.

The labels are about the user, so the prompt has only the beginnings of the assistant's answers. They show the subject,
and a conversation of ten turns fits into the context of a small model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.model.chat import Call, ChatMessage, Completion
from engine.model.interface import Sampling
from engine.simulate.play import Ending, Play
from engine.simulate.prompt_files import filled
from engine.simulate.sharded.json_replies import ask_json, object_schema, seed_from

Label = str | int
Labels = Mapping[str, Label]
Turns = Sequence[tuple[str, str]]
"""Role and text of each message, in order."""

_GRADES: tuple[Label, ...] = (1, 2, 3, 4, 5)
_FEEDBACK: tuple[Label, ...] = ("NoFeedback", "Positive", "Negative", "Both")

SCHEMAS: Mapping[str, Mapping[str, tuple[Label, ...]]] = {
    "strategy": {
        "information_request": ("Planning", "Sequential"),
        "order": ("Depth", "Breadth", "Comprehensive"),
        "context": ("High", "Low"),
        "question": ("Broad", "Specific"),
    },
    "strategy_V2": {
        "order": ("Depth", "Breadth", "DepthBreadth", "BreadthDepth"),
        "feedback": _FEEDBACK,
    },
    "strategy_V3": {
        "question_broadness": _GRADES,
        "context_dependency": _GRADES,
        "feedback": _FEEDBACK,
    },
}
"""Schema -> label name -> possible labels. Numbers are grades; 5 is the most specific and the most dependent."""

RUNS = 3
TEMPERATURE = 0.7
"""Above 0, because three runs that must be equal have nothing to vote on."""
ANSWER_CHARS = 300
USER_CHARS = 1_200
_TOKENS = 96
LANGUAGES = {"en": "English", "zh": "Chinese"}


@dataclass(frozen=True, slots=True)
class LabellingScenario:
    """One conversation to label.

    Attributes:
        conversation: Its id in the project.
        texts: The prompts `system` and one for each schema.
        schemas: Names of the schemas to label in.
    """

    conversation: int
    turns: Turns
    language: str
    texts: Mapping[str, str]
    schemas: tuple[str, ...] = tuple(SCHEMAS)
    runs: int = RUNS
    temperature: float = TEMPERATURE
    seed: int = 0

    @property
    def key(self) -> str:
        return f"behaviour/{self.conversation}"

    @property
    def expected(self) -> float:
        return float(self.runs * len(self.schemas))

    def play(self) -> Play:
        labelled = {}
        for schema in self.schemas:
            labelled[schema] = yield from self._labelled(schema)
        return Ending(result={"conversation": self.conversation, "labels": labelled})

    def _labelled(self, schema: str) -> Generator[Call, Completion, dict[str, dict[str, Label]]]:
        """Returns the labels of each run that gave any, and of `final`, the vote, as in the data set."""
        names = SCHEMAS[schema]
        shape = object_schema(**{name: {"enum": [*labels]} for name, labels in names.items()})
        asked = filled(
            self.texts[schema],
            {
                "LANGUAGE": LANGUAGES.get(self.language, self.language),
                "DIALOGUE": dialogue(self.turns),
            },
        )
        messages = (ChatMessage("system", self.texts["system"].strip()), ChatMessage("user", asked))

        def accept(reply: Mapping[str, Any]) -> dict[str, Label] | None:
            if any(reply.get(name) not in labels for name, labels in names.items()):
                return None
            return {name: reply[name] for name in names}

        runs: dict[str, dict[str, Label]] = {}
        for run in range(1, self.runs + 1):
            call = Call(
                schema,
                "judge",
                messages,
                Sampling(),
                _TOKENS,
                seed=seed_from(self.seed, self.key, schema, run),
            )
            found = yield from ask_json(call, shape, accept, (self.temperature, 1.0))
            if found is not None:
                runs[str(run)] = found
        final = {name: vote([one[name] for one in runs.values()]) for name in names}
        return {"final": {name: one for name, one in final.items() if one is not None}, **runs}


def vote(labels: Sequence[Label]) -> Label | None:
    """Combines the labels of several runs into one; None without labels.

    Grades: the rounded mean, as in the data set, or the median when they differ by more than two, which the data set
    rejects. Words: the most frequent label; on a tie that of the earliest run.
    """
    grades = [one for one in labels if isinstance(one, int)]
    if grades and len(grades) == len(labels):
        if max(grades) - min(grades) > 2:
            return sorted(grades)[(len(grades) - 1) // 2]
        return int(sum(grades) / len(grades) + 0.5)
    counts = Counter(labels)
    return max(counts, key=lambda one: (counts[one], -labels.index(one)), default=None)


def dialogue(turns: Turns) -> str:
    """Formats the conversation for the prompt."""
    lines = []
    for role, text in turns:
        if role == "user":
            lines.append(f"USER: {cut(text, USER_CHARS)}")
        elif role == "assistant":
            lines.append(f"ASSISTANT: {cut(text, ANSWER_CHARS)}")
    return "\n\n".join(lines)


def cut(text: str, limit: int) -> str:
    """Returns the first `limit` characters of a text, followed by `[...]` if it is longer."""
    return text if len(text) <= limit else f"{text[:limit]} [...]"
