"""Algorithm 1 of Soroka et al., "Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions" (section 4.1,
appendix B.1), with the paper's prompts and free replies.

k-means places every summary. A model describes each cluster from ten members and ten random others, the group first.
Then the most similar pair of descriptions is asked about, once and in one order, until every pair of current clusters
was refused; the model's word decides.

The paper does not print how replies are read. Here a reply that says neither yes nor no is counted as unread and taken
as a refusal, and a merge without a description keeps that of the larger cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import NotYet
from engine.goals.clusters.kmeans import RESTARTS, canonical_order, closest, solve
from engine.goals.embedders.vectors import Numbers, Vectors, has_vector, unit_rows
from engine.goals.questions.questions import EXAMPLES, choose
from engine.model.prompt_files import Prompt

Ask = Callable[[Prompt, str], str]
"""Called with a prompt and the lists inside it; returns the model's most probable reply."""
Note = Callable[[str], None]
"""Called with what is done next; may raise to stop the work."""

_NO = re.compile(r"\b(?:no|not|separate(?:ly)?|distinct)\b|n['’]t\b", re.I)
_YES = re.compile(r"\b(?:yes|(?:should|can|could|may) be (?:merged|combined)|merged? )\b", re.I)
_ECHO = re.compile(r"\b(?:whether|if|suppose|determine)\b", re.I)
"""A reply that repeats the question decides nothing."""
_FIRST_WORD = re.compile(r"\W*(yes|no)\b", re.I)
_DESCRIPTION = re.compile(r"\bdescription\b[^:\n]{0,40}:\s*", re.I)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts `paper-label` and `paper-merge`."""

    label: Prompt
    merge: Prompt


@dataclass(frozen=True, slots=True, eq=False)
class PaperClusters:
    """Result of the algorithm.

    Attributes:
        first: Cluster of each row as k-means made it; -1 for a row of zeros, which has no vector.
        labels: Cluster of each row after merging, 0 .. `len(descriptions)` - 1, the largest first; -1 as above.
        descriptions: Of the clusters after merging.
        asked: Pairs that the model was asked about.
        merged: Pairs that it merged.
        unread: Replies that said neither yes nor no; they count as refusals.
        undescribed: Clusters and merges whose reply had no description.
    """

    first: Numbers
    labels: Numbers
    descriptions: tuple[str, ...]
    asked: int
    merged: int
    unread: int
    undescribed: int


def paper_clusters(
    ask: Ask,
    prompts: Prompts,
    texts: Sequence[str],
    vectors: Vectors,
    embed: Callable[[Sequence[str]], Vectors],
    k: int,
    seed: int,
    note: Note = lambda what: None,
) -> PaperClusters:
    """Clusters, describes and merges.

    Args:
        texts: The summaries.
        vectors: A row of length 1 for each summary, shape (texts, d).
        embed: Makes the vectors of descriptions, with the embedder of `vectors`.
        k: Number of clusters to begin with, an overestimate.
        seed: Of k-means and of every sample.

    Raises:
        UsageError: No summary has a vector.
    """
    first = _k_means(vectors, k, seed)
    groups = [np.flatnonzero(first == n).tolist() for n in range(int(first.max()) + 1)]
    placed = np.flatnonzero(first >= 0).tolist()
    asked = merged = unread = undescribed = 0

    def sample(rows: Sequence[int]) -> list[str]:
        return [texts[row] for row in choose(rows, EXAMPLES, seed)]

    def outside(*inside: Sequence[int]) -> list[str]:
        return sample(sorted(set(placed).difference(*inside)))

    names = []
    for at, group in enumerate(groups):
        note(f"describing cluster {at + 1} of {len(groups)}")
        body = lists(("GROUP", sample(group)), ("NOT IN GROUP", outside(group)))
        names.append(" ".join(ask(prompts.label, body).split()))
        undescribed += not names[-1]
    rows = embed(names)
    current = set(range(len(groups)))
    refused: set[tuple[int, int]] = set()
    while pair := _most_similar(rows, current, refused):
        a, b = pair
        asked += 1
        note(f"question {asked}: {len(current)} clusters, {merged} merged")
        body = lists(
            ("GROUP 1", sample(groups[a])),
            ("GROUP 2", sample(groups[b])),
            ("NOT IN GROUP", outside(groups[a], groups[b])),
        )
        says, description = read_merge(ask(prompts.merge, body))
        unread += says is None
        if not says:
            refused.add(pair)
            continue
        merged += 1
        undescribed += not description
        larger = a if len(groups[a]) >= len(groups[b]) else b
        names.append(description or names[larger])
        groups.append(sorted(groups[a] + groups[b]))
        rows = np.concatenate([rows, embed(names[-1:])])
        current = current - {a, b} | {len(groups) - 1}
    order = sorted(current, key=lambda at: (-len(groups[at]), at))
    labels = np.full(len(texts), -1, dtype=np.int32)
    for number, at in enumerate(order):
        labels[groups[at]] = number
    described = tuple(names[at] for at in order)
    return PaperClusters(first, labels, described, asked, merged, unread, undescribed)


def lists(*named: tuple[str, Sequence[str]]) -> str:
    """Lists of summaries as the paper prints them: `[NAME]`, then `- summary` with a blank line between summaries."""
    return "\n\n".join(
        f"[{name}]\n" + "\n\n".join(f"- {text.strip()}" for text in texts) for name, texts in named
    )


def read_merge(reply: str) -> tuple[bool | None, str]:
    """Reads a free reply to the merge question.

    Returns:
        Whether the groups are to be merged, None if the reply does not say; and the description, empty without one.
    """
    text = reply.strip()
    first = _FIRST_WORD.match(text)
    opening, *rest = _SENTENCE.split(text, maxsplit=1)
    verdict: bool | None = None
    if first:
        verdict = first[1].casefold() == "yes"
    elif re.search(r"\bmerge", opening, re.I) and not _ECHO.search(opening):
        verdict = False if _NO.search(opening) else bool(_YES.search(opening)) or None
    if not verdict:
        return verdict, ""
    named = _DESCRIPTION.split(text, maxsplit=1)
    found = named[1] if len(named) > 1 else "".join(rest)
    return True, " ".join(found.split())


def _k_means(vectors: Vectors, k: int, seed: int) -> Numbers:
    """Cluster of each row, -1 for a row of zeros. All others are placed, clusters of one row included."""
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise NotYet("No conversation has a vector.", "Look at the texts that were embedded.")
    order = canonical_order(vectors, rows, seed)
    found = solve(
        vectors, order, min(k, len(rows)), seed, restarts=RESTARTS, note=lambda done, total: None
    )
    near = closest(vectors[rows], found.centres)[0]
    labels = np.full(len(vectors), -1, dtype=np.int32)
    labels[rows] = np.unique(near, return_inverse=True)[1]
    return labels


def _most_similar(
    rows: Vectors, current: set[int], refused: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """The pair of current clusters with the most similar descriptions that was not refused; None if there is none."""
    keys = sorted(current)
    units = unit_rows(rows[keys])
    cosines = units @ units.T
    pairs = [
        (-float(cosines[i, j]), (a, b))
        for i, a in enumerate(keys)
        for j, b in enumerate(keys)
        if a < b and (a, b) not in refused
    ]
    return min(pairs)[1] if pairs else None
