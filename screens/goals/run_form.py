"""The form of a clustering run, with what it costs.

A clustering groups conversations by what their users wanted. Its first groups, the clusters, are too small on purpose:
pairs of them that mean the same are proposed for a merge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from engine.base import number_format
from engine.base.request_options import options_of
from engine.base.text import one_line
from engine.goals.clustering_request import ClusteringRequest
from engine.goals.records import EXPLANATION, ClusteringSummary, Decide, GoalText
from engine.project.records import Estimate
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, choices_of

TEXT_CHOICES: dict[GoalText, FormChoice] = {
    "first-user": FormChoice(
        "the first user message",
        "It states the goal in many logs. Clusters are made without a model.",
    ),
    "all-user": FormChoice(
        "all user messages",
        "For goals that users state bit by bit. Clusters are made without a model.",
    ),
    "all": FormChoice(
        "what both sides wrote",
        "For goals that the assistant names. Clusters are made without a model.",
    ),
    "summary": FormChoice(
        "the model's summary",
        "The model writes what the user wants: one reply for each conversation.",
    ),
    "remaining": FormChoice(
        "remaining tasks", "Themes of failure: of the remaining tasks that a model wrote."
    ),
    "last-exchange": FormChoice(
        "the last exchange", "Themes of failure: how conversations with a sign of trouble end."
    ),
}
"""The texts by which conversations are clustered, but for explanations."""

ALGORITHMS: dict[bool, FormChoice] = {
    False: FormChoice(
        "of this program", "Vectors and phrases of members make and name the groups; models help."
    ),
    True: FormChoice(
        "of the paper",
        "A model summarizes each conversation, describes the clusters, and answers on pairs, as in Soroka et al.",
    ),
}
"""The algorithms, by `ClusteringRequest.paper`."""

MERGE_DECIDERS: dict[Decide, FormChoice] = {
    "ask": FormChoice(
        "you, on the merge desk",
        "Every proposed merge waits for your yes or no, with its evidence.",
    ),
    "auto": FormChoice(
        "by probability",
        "Pairs that are probable enough are merged without you; all can be undone.",
    ),
    "llm": FormChoice(
        "by the model",
        "Its yes or no decides, as in Soroka et al.; you review its decisions later.",
    ),
    "none": FormChoice("no proposals", "Clusters with labels, without merges."),
}


QUESTION_CHARACTERS = 30
"""Most characters of the name of a question in a choice, which has one line of the form."""


def explanation_choice(question: str) -> FormChoice:
    """Returns the choice of what explains the answers to a question."""
    name = one_line(question, QUESTION_CHARACTERS)
    return FormChoice(
        f"why “{name}”", "Themes of failure: notes, explanations and the places that are cited."
    )


class GoalRunForm(RunForm[ClusteringRequest, Estimate]):
    """Asks for the algorithm, the text, who decides on merges, and all other options; shows how long the run takes."""

    PLACE = "goal-run"
    FORM_TITLE = "Cluster conversations by goal"
    FIRST_FIELD = "paper"
    OPTIONS = options_of(ClusteringRequest)
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(
        self,
        estimate: Callable[[ClusteringRequest], Estimate],
        shown: ClusteringSummary | None,
        questions: Sequence[str],
        *,
        paper: bool,
    ) -> None:
        """Begins with the text and the embedder of `shown`, the clustering on the screen, and with defaults elsewhere.

        Args:
            estimate: Returns the estimate of a run.
            shown: The clustering; None where none is shown.
            questions: Names of the questions that were answered, whose answers can be explained.
            paper: Whether the algorithm of the paper is proposed.
        """
        super().__init__()
        explanations = {f"{EXPLANATION}{name}": explanation_choice(name) for name in questions}
        texts = {**TEXT_CHOICES, **explanations}
        self.choices = choices_of(ClusteringRequest) | {
            "paper": ALGORITHMS,
            "text": texts,
            "decide": MERGE_DECIDERS,
        }
        self._paper = paper
        self._estimate, self._shown = estimate, None if shown is None else shown.clustering

    def compose_fields(self) -> ComposeResult:
        """Yields a line for each option."""
        shown = self._shown
        initial: dict[str, Any] = {"paper": self._paper}
        if shown is not None:
            initial |= {"text": shown.text, "embedder": one_line(shown.embedder)}
        first = ("paper", "text", "embedder", "k", "decide", "filter")
        yield from self.option_lines(ClusteringRequest, first=first, initial=initial)

    def update_lines(self) -> None:
        """Hides what the algorithm of the paper settles."""
        paper = self.chosen("paper")
        self.show_lines({"text": not paper, "labels": not paper})

    def field_help(self, field: str) -> str:
        """Returns the help of a field; of the clusters also how many the clustering on the screen has."""
        help = super().field_help(field)
        if field == "k" and self._shown is not None:
            conversations = number_format.counted(self._shown.conversations, "conversation")
            help += f" It was {self._shown.k:,} for {conversations}."
        return help

    def request(self) -> ClusteringRequest:
        """Returns the run that the fields describe.

        Raises:
            UsageError: A field cannot be understood.
        """
        return ClusteringRequest(**self.values_of(ClusteringRequest))

    def estimate(self, request: ClusteringRequest) -> Estimate:
        """Returns the estimate of the run."""
        return self._estimate(request)
