"""Goals as in the paper, on a model with known answers: Algorithm 1, its tables, and the baseline of one model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.goals.paper import (
    FIRST_PROMPT,
    NEXT_PROMPT,
    PaperClusters,
    Prompts,
    assigned_distances,
    categorise,
    own_distances,
    pairwise_ari,
    paper_clusters,
    read_categories,
    read_merge,
)
from engine.model.embedders.vectors import Vectors, unit_rows
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text

PROMPTS = Prompts(
    parse_prompt("paper-label", prompt_text("paper-label")),
    parse_prompt("paper-merge", prompt_text("paper-merge")),
)
TEXTS = [f"1. book\n2. {word} {n}" for word in ("flight", "train", "song") for n in range(4)]
DESCRIPTIONS = {"flight": (1.0, 0.0, 0.0), "train": (0.9, 0.1, 0.0), "song": (0.0, 0.0, 1.0)}


def embed(texts: Sequence[str]) -> Vectors:
    """By the words that the text has; flights and trains are similar."""
    rows = [
        np.sum([DESCRIPTIONS[word] for word in DESCRIPTIONS if word in text] or [(0, 0, 0)], axis=0)
        for text in texts
    ]
    return unit_rows(np.array(rows, dtype=np.float32))


class Model:
    """Describes a group by its word, and merges flights with trains.

    Attributes:
        bodies: What it was asked.
        pairs: Kinds in the pairs that it was asked about.
    """

    def __init__(self, merge: str, refuse: str) -> None:
        self.merge, self.refuse = merge, refuse
        self.bodies: list[str] = []
        self.pairs: list[tuple[str, ...]] = []

    def __call__(self, prompt: Prompt, body: str) -> str:
        self.bodies.append(body)
        lists = {part.split("]")[0]: part for part in body.split("[")}
        if "GROUP" in lists:
            return f"The user books a {kinds(lists['GROUP'])[0]}."
        pair = kinds(lists["GROUP 1"] + lists["GROUP 2"])
        self.pairs.append(pair)
        return self.merge if pair == ("flight", "train") else self.refuse


def kinds(text: str) -> tuple[str, ...]:
    """Which of the three kinds a text has."""
    return tuple(word for word in DESCRIPTIONS if word in text)


def found(model: Model, k: int = 3) -> PaperClusters:
    """The clusters that the algorithm makes with a model."""
    return paper_clusters(model, PROMPTS, TEXTS, embed(TEXTS), embed, k, seed=0)


def test_merges() -> None:
    """The most similar descriptions are asked about first. The model's yes merges with its description, its no is
    final. It ends when every pair of current clusters was refused.
    """
    model = Model("Yes. Description: travel by flight or train", "No.")
    made = found(model)
    assert model.pairs == [("flight", "train"), ("flight", "train", "song")]
    assert (made.asked, made.merged, made.unread, made.undescribed) == (2, 1, 0, 0)
    assert made.descriptions == ("travel by flight or train", "The user books a song.")
    assert made.labels.tolist() == [0] * 8 + [1] * 4
    assert sorted(np.bincount(made.first)) == [4, 4, 4]


def test_every_pair_refused() -> None:
    """Without a merge each pair is asked about once, and k-means' clusters remain."""
    made = found(Model("No.", "No."))
    assert (made.asked, made.merged, len(made.descriptions)) == (3, 0, 3)


def test_free_replies() -> None:
    """A reply that says neither yes nor no counts as unread and merges nothing."""
    made = found(Model("The tasks are about travel.", "No."))
    assert (made.merged, made.unread) == (0, 1)


def test_lists_as_printed() -> None:
    """The group comes before the others, summaries keep their lines, with a blank line between them."""
    model = Model("No.", "No.")
    found(model)
    assert model.bodies[0].startswith("[GROUP]\n- 1. book\n2. ")
    assert "\n\n- 1. book" in model.bodies[0]
    assert model.bodies[0].index("[GROUP]") < model.bodies[0].index("[NOT IN GROUP]")
    assert model.bodies[0].count("- 1. book") == 4 + 8


def test_each_question_has_its_own_samples() -> None:
    """Ten of each group and ten others are drawn anew for each question, the same in a second run; what was drawn is
    noted with the question."""
    texts = [f"{word} {n}" for word in DESCRIPTIONS for n in range(40)]
    first, second = (Model("No.", "No.") for _ in range(2))
    made = paper_clusters(first, PROMPTS, texts, embed(texts), embed, 3, seed=0)
    assert first.bodies == paper_bodies(second, texts)
    assert [one.clusters for one in made.questions[:3]] == [(0,), (1,), (2,)]
    assert {one.clusters for one in made.questions[3:]} == {(0, 1), (0, 2), (1, 2)}
    of_cluster: dict[int, list[tuple[int, ...]]] = {}
    for question, body in zip(made.questions, first.bodies, strict=True):
        assert [text[2:] for text in body.split("\n") if text.startswith("- ")] == [
            texts[row] for part in question.shown for row in part
        ]
        for cluster, part in zip(question.clusters, question.shown, strict=False):
            of_cluster.setdefault(cluster, []).append(part)
            assert {int(made.first[row]) for row in part} == {cluster}
            assert len(set(part)) == 10
    assert all(len(set(parts)) == 3 for parts in of_cluster.values())


def paper_bodies(model: Model, texts: Sequence[str]) -> list[str]:
    """What the algorithm asks a model about these texts."""
    paper_clusters(model, PROMPTS, texts, embed(texts), embed, 3, seed=0)
    return model.bodies


def test_everybody_is_placed() -> None:
    """A cluster of one conversation stays one; only a row without a vector has no cluster."""
    texts = [*TEXTS, "song flight", "nothing"]
    made = paper_clusters(Model("No.", "No."), PROMPTS, texts, embed(texts), embed, 4, seed=0)
    assert np.bincount(made.first[:-1]).min() == 1
    assert made.first[-1] == made.labels[-1] == -1


def test_fewer_texts_than_clusters() -> None:
    """A cluster that stays empty is left out: it is neither described nor asked about."""
    texts = ["flight"] * 3 + ["song"] * 3
    model = Model("No.", "No.")
    made = paper_clusters(model, PROMPTS, texts, embed(texts), embed, 4, seed=0)
    assert made.labels.tolist() == [0] * 3 + [1] * 3
    assert (len(model.bodies), made.asked) == (3, 1)


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("Yes\n\nThe user books trips.", (True, "The user books trips.")),
        ("**Yes**, merge. Description: The user books trips.", (True, "The user books trips.")),
        ("The two groups should be merged. Book trips.", (True, "Book trips.")),
        ("The two groups should not be merged, they differ.", (False, "")),
        ("No, keep them separate.", (False, "")),
        ("I can't merge these groups.", (False, "")),
        ("The user's high-level intent is to book a hotel.", (None, "")),
        ("Merge: Yes\n\nDescription: Book trips.", (True, "Book trips.")),
        ("It is unclear whether they should be merged.", (None, "")),
        ("The task is to determine whether the two groups should be merged.", (None, "")),
        ("", (None, "")),
    ],
)
def test_verdicts(reply: str, read: tuple[bool | None, str]) -> None:
    """Plain yes and no are read in the words that models use; anything else is unread."""
    assert read_merge(reply) == read


YES_REPLIES = (
    "Yes", "**Yes**", "Yes, both groups want a taxi.", "Answer: yes", "The answer is Yes.",
    "yes - they are the same", "<think>No? They look alike.</think> Yes", "**Answer:** Yes",
    "Merge: Yes\n\nDescription: Users book taxis.", "I think yes, they should be merged.",
    "The two groups can be combined into one.", "Based on the samples, yes.",
    "Both groups describe the same task. Yes, merge them.", "Final answer: **Yes**", "Verdict: merge",
    "I would merge these groups, because there is no difference.", "We recommend merging the groups.",
    "Decision: Merge.",
)  # fmt: skip
"""Replies of capable models that agree."""

NO_REPLIES = (
    "No", "**No**", "The answer is no.", "Answer: No", "**Merge:** No", "I wouldn't merge them.",
    "Based on the samples, no.", "They should not be merged.", "They differ. No.",
    "<think>Yes? No.</think> No, one is about taxis.", "We recommend not merging the groups.",
)  # fmt: skip
"""Replies that refuse."""


@pytest.mark.parametrize(
    ("reply", "merged"),
    [*((reply, True) for reply in YES_REPLIES), *((reply, False) for reply in NO_REPLIES)],
)
def test_plausible_replies(reply: str, merged: bool) -> None:
    """A plausible yes is read as yes and a plausible no as no, wherever the word stands."""
    assert read_merge(reply)[0] is merged


ROWS = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
LABELS = np.array([0, 0, 1], dtype=np.int32)


def test_own() -> None:
    """Two rows at right angles lie half a diagonal from their mean; a row alone is its own centre."""
    found = own_distances(ROWS, LABELS)
    assert found.rows == 3
    assert found.euclidean == pytest.approx(2 * np.sqrt(0.5) / 3)
    assert found.cosine == pytest.approx(2 * (1 - np.sqrt(0.5)) / 3)
    assert found.euclidean_error == pytest.approx(np.std([0.5**0.5, 0.5**0.5, 0], ddof=1) / 3**0.5)


def test_assigned() -> None:
    """A new row goes to the nearest centre; a row of zeros is not counted."""
    others = np.array([[0, 1], [-1, 0], [0, 0]], dtype=np.float32)
    found = assigned_distances(ROWS, LABELS, others)
    assert found.rows == 2
    assert found.euclidean == pytest.approx(np.sqrt(0.5) / 2)
    assert assigned_distances(ROWS, LABELS, others[2:]).cosine is None


def test_agreement() -> None:
    """Names of clusters do not matter; rows that one run does not have are left out; one row says nothing."""
    one, same, other = (
        np.array(labels, dtype=np.int32) for labels in ([0, 0, 1, 1], [1, 1, 0, -1], [0, 1, 0, 1])
    )
    first, second, _ = pairwise_ari([one, same, other])
    assert first == 1.0
    assert second == pytest.approx(-0.5)
    assert pairwise_ari([one, np.array([-1, -1, -1, 0], dtype=np.int32)]) == [None]


def test_the_two_prompts() -> None:
    """The first sample is asked for a category; later ones are offered each earlier answer on a line, may have several,
    and an answer in another spelling is the earlier category.
    """
    replies = iter(["Book a Flight", "- book a flight\n- Check weather", "Book a flight.", "..."])
    asked: list[tuple[str, str]] = []

    def ask(name: str, pieces: Sequence[str]) -> str:
        asked.append((name, "".join(pieces)))
        return next(replies)

    found = list(categorise(ask, [["log 1"], ["log ", "2"], ["log 3"], ["log 4"]]))
    flight, weather = "Book a Flight", "Check weather"
    assert found == [(flight,), (flight, weather), (flight,), ()]
    assert asked[0] == (FIRST_PROMPT, "[USER INPUT LOG]\nlog 1")
    assert asked[1] == (NEXT_PROMPT, f"- {flight}\n[USER INPUT LOG]\nlog 2")
    assert asked[3] == (NEXT_PROMPT, f"- {flight}\n- {flight}, {weather}\n[USER INPUT LOG]\nlog 4")


def test_no_category() -> None:
    """A model that goes on with the log, or writes a long sentence, names no category."""
    assert read_categories("TURN 3, STEP 5, user chat:\nThanks") == []
    assert read_categories("I would say that the user wants to know what the weather is like") == []
    assert read_categories("1. Check weather\n2. **Book a flight**") == [
        "Check weather",
        "Book a flight",
    ]
