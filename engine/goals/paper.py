"""Goals as Soroka et al. find them ("Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions"): Algorithm 1
(section 4.1, appendix B.1) with the paper's prompts and free replies, what is measured of it (Table 4, Figure 4), and
the LLM-only baseline of appendix C.1.

k-means places every summary. A model describes each cluster from ten random members and ten random others, the group
first. Then the most similar pair of descriptions is asked about, once and in one order, until every pair of current
clusters was refused; the model's word decides. Each question draws its samples anew.

The paper does not print how replies are read. Here a reply that says neither yes nor no is counted as unread and taken
as a refusal, and a merge without a description keeps that of the larger cluster.

In the baseline a model gives each conversation one or more categories, of those it gave before or new ones, so that its
result depends on the order of the conversations, as the paper shows with it. As in the paper's example each line of the
list is one earlier answer, so that a line may name several categories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.base.errors import NotYet
from engine.goals.clusters.kmeans import RESTARTS, canonical_order, closest, solve
from engine.goals.questions import EXAMPLES
from engine.model.embedders.vectors import Floats, Numbers, Vectors, has_vector, unit_rows
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


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the model.

    Attributes:
        clusters: Numbers of the one cluster to describe, or of the two to merge. Those of k-means come first, then each
            merge adds one.
        shown: Rows of the summaries in each list of the question: of the clusters, then of others.
        merge: Whether the model merged the two; None if its reply does not say, and for a description.
    """

    clusters: tuple[int, ...]
    shown: tuple[tuple[int, ...], ...]
    merge: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PaperClusters:
    """Result of the algorithm.

    Attributes:
        first: Cluster of each row as k-means made it; -1 for a row of zeros, which has no vector.
        labels: Cluster of each row after merging, 0 .. `len(descriptions)` - 1, the largest first; -1 as above.
        descriptions: Of the clusters after merging.
        questions: What the model was asked, in order.
        undescribed: Clusters and merges whose reply had no description.
    """

    first: Numbers
    labels: Numbers
    descriptions: tuple[str, ...]
    questions: tuple[Question, ...]
    undescribed: int

    @property
    def asked(self) -> int:
        """Pairs that the model was asked about."""
        return len(self._pairs)

    @property
    def merged(self) -> int:
        """Pairs that it merged."""
        return sum(one.merge is True for one in self._pairs)

    @property
    def unread(self) -> int:
        """Replies that said neither yes nor no; they count as refusals."""
        return sum(one.merge is None for one in self._pairs)

    @property
    def _pairs(self) -> list[Question]:
        return [one for one in self.questions if len(one.clusters) == 2]


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
        seed: Of k-means; with the numbers of a question's clusters, of its samples.

    Raises:
        UsageError: No summary has a vector.
    """
    first = _k_means(vectors, k, seed)
    groups = [np.flatnonzero(first == n).tolist() for n in range(int(first.max()) + 1)]
    placed = np.flatnonzero(first >= 0).tolist()
    questions: list[Question] = []
    undescribed = 0

    def ask_about(prompt: Prompt, *clusters: int) -> str:
        """Asks with a sample of each cluster and of what is in none of them, drawn for this question."""
        rng = np.random.default_rng([seed, *clusters])
        inside = [groups[number] for number in clusters]
        others = sorted(set(placed).difference(*inside))
        shown = tuple(
            tuple(rng.permutation(rows)[:EXAMPLES].tolist()) for rows in (*inside, others)
        )
        questions.append(Question(clusters, shown))
        names = ("GROUP",) if len(clusters) == 1 else ("GROUP 1", "GROUP 2")
        told = [[texts[row] for row in rows] for rows in shown]
        return ask(prompt, lists(*zip((*names, "NOT IN GROUP"), told, strict=True)))

    names = []
    count = len(groups)
    for at in range(count):
        note(f"describing cluster {at + 1} of {count}")
        names.append(" ".join(ask_about(prompts.label, at).split()))
        undescribed += not names[-1]
    rows = embed(names)
    current = set(range(len(groups)))
    refused: set[tuple[int, int]] = set()
    while pair := _most_similar(rows, current, refused):
        a, b = pair
        note(f"question {len(questions) - count + 1}: {len(current)} clusters of {count}")
        says, description = read_merge(ask_about(prompts.merge, a, b))
        questions[-1] = replace(questions[-1], merge=says)
        if not says:
            refused.add(pair)
            continue
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
    return PaperClusters(first, labels, described, tuple(questions), undescribed)


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


# Table 4 and Figure 4


@dataclass(frozen=True, slots=True)
class Distances:
    """Mean distances of rows to the centers of their clusters; None without rows.

    Attributes:
        rows: Number of rows measured.
        cosine: One minus the cosine with the center.
        euclidean: To the mean of the cluster's rows, which are of length 1.
        cosine_error, euclidean_error: Standard errors of the two means; None with fewer than two rows.
    """

    rows: int
    cosine: float | None
    euclidean: float | None
    cosine_error: float | None = None
    euclidean_error: float | None = None


def own_distances(vectors: Vectors, labels: Numbers) -> Distances:
    """Distances of rows to the centers of their own clusters; rows with a negative label are left out."""
    centres = _centres(vectors, labels)
    inside = labels >= 0
    return _measured(vectors[inside], centres[labels[inside]])


def assigned_distances(vectors: Vectors, labels: Numbers, others: Vectors) -> Distances:
    """Distances of other rows to the nearest center by cosine; rows of zeros are left out."""
    centres = _centres(vectors, labels)
    live = others[has_vector(others)]
    nearest = (live @ unit_rows(centres).T).argmax(axis=1)
    return _measured(live, centres[nearest])


def pairwise_ari(runs: Sequence[Numbers]) -> list[float | None]:
    """Adjusted Rand index of each pair of runs over the rows that both placed, in the order (0, 1), (0, 2), ...

    Args:
        runs: Cluster of each row, negative where a run does not have the row.

    Returns:
        None for a pair that has fewer than two rows in common, of which nothing can be said.
    """
    from sklearn.metrics import adjusted_rand_score

    found: list[float | None] = []
    for at, one in enumerate(runs):
        for other in runs[at + 1 :]:
            both = (one >= 0) & (other >= 0)
            enough = np.count_nonzero(both) > 1
            found.append(float(adjusted_rand_score(one[both], other[both])) if enough else None)
    return found


def _centres(vectors: Vectors, labels: Numbers) -> Floats:
    count = int(labels.max()) + 1
    return np.stack([vectors[labels == number].mean(axis=0) for number in range(count)])


def _measured(rows: Vectors, centres: Floats) -> Distances:
    if not len(rows):
        return Distances(0, None, None)
    angles = 1 - np.einsum("ij,ij->i", rows, unit_rows(centres))
    lengths = np.linalg.norm(rows - centres, axis=1)
    return Distances(
        len(rows), float(angles.mean()), float(lengths.mean()), _error(angles), _error(lengths)
    )


def _error(values: Floats) -> float | None:
    """The standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


# The LLM-only baseline


AskCategories = Callable[[str, Sequence[str]], str]
"""Called with the name of a prompt and the pieces that follow it, the first of which is always kept; returns the
reply."""


FIRST, NEXT = "paper-first-category", "paper-categories"


_BETWEEN = re.compile(r"\n|,|;|\s\|\s")


_EDGES = " \t\"'“”‘’*`#-–—:.[]()"


_LOG = re.compile(r"\bTURN \d")
"""A small model goes on with the log instead of answering; from there on its reply is no answer."""


_NUMBER = re.compile(r"^\d{1,2}[.)]\s+")


LONGEST = 10
"""Words above which a part of a reply is no category: five are asked for, and a model that rambles writes sentences."""


def categorise(ask: AskCategories, logs: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yields the categories of each log in turn; none where the reply names none.

    A category that differs from an earlier one only in case, spacing or punctuation is that one.

    Args:
        logs: Pieces of each log.
    """
    known: dict[str, str] = {}
    lines: dict[str, None] = {}
    for log in logs:
        listed = "".join(f"- {line}\n" for line in lines)
        head = f"{listed}[USER INPUT LOG]\n"
        reply = ask(NEXT if lines else FIRST, (head, *log))
        found = {known.setdefault(_key(one), one): None for one in read_categories(reply)}
        if found:
            lines[", ".join(found)] = None
        yield tuple(found)


def read_categories(reply: str) -> list[str]:
    """The categories that a reply names, as they are written; none where it names none."""
    answer = _LOG.split(reply, maxsplit=1)[0]
    parts = (_NUMBER.sub("", part.strip(_EDGES)).strip(_EDGES) for part in _BETWEEN.split(answer))
    return [part for part in parts if _key(part) and len(part.split()) <= LONGEST]


def _key(category: str) -> str:
    return "".join(filter(str.isalnum, category.casefold()))
