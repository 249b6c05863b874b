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

A summary is one sentence about what the user of a conversation wants; its row is its vector, of length 1. A description
is what the model says of a cluster; it takes the place of its label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.base.errors import NotYet
from engine.goals.clusters.kmeans import RESTARTS, canonical_order, closest, solve
from engine.goals.questions import EXAMPLES
from engine.model.chat import split_thinking
from engine.model.embedders.vectors import Floats, Numbers, Vectors, has_vector, unit_rows
from engine.model.prompt_files import Prompt
from engine.model.reply_forms import find_verdict

Ask = Callable[[Prompt, str], str]
"""Called with a prompt and the lists inside it; returns the model's most probable reply."""
Note = Callable[[str], None]
"""Called with what is done next; may raise to stop the work."""

_NO = re.compile(r"\b(?:no|not|separate(?:ly)?|distinct)\b|n['’]t\b", re.I)
"""What makes the first sentence of a reply a refusal."""
_YES = re.compile(
    r"\b(?:yes|(?:should|can|could|may) be (?:merged|combined)|merge|merged|merging)\b", re.I
)
"""What makes it an agreement, if nothing refuses."""
_ECHO = re.compile(r"\b(?:whether|if|suppose|determine)\b", re.I)
"""A reply that repeats the question decides nothing."""
_DECISION = re.compile(r":[\"'*_\s]*merge\b[\"'*_]*(?=\s*(?:[.!\n]|$))", re.I)
"""A decision in one word: "Verdict: merge"."""
_GROUNDS = re.compile(r"\s(?:because|since|as)\s", re.I)
"""What begins the grounds of a verdict, whose "no" decides nothing."""
_DESCRIPTION = re.compile(r"\bdescription\b[^:\n]{0,40}:\s*", re.I)
"""What stands before the description of the merged group: "New description of the group: "."""
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
"""The end of a sentence: a space after punctuation, or line ends."""
_MERGE = re.compile(r"\b(?:merg|combin)", re.I)
"""A word that says what the question is about: "merge", "merging", "combined"."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts `paper-label`, to describe a cluster, and `paper-merge`, to ask about two."""

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
        """The number of pairs that the model was asked about."""
        return len(self._pairs)

    @property
    def merged(self) -> int:
        """The number of pairs that it merged."""
        return sum(question.merge is True for question in self._pairs)

    @property
    def unread(self) -> int:
        """The number of replies that said neither yes nor no; they count as refusals."""
        return sum(question.merge is None for question in self._pairs)

    @property
    def _pairs(self) -> list[Question]:
        """The questions about two clusters."""
        return [question for question in self.questions if len(question.clusters) == 2]


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
    """Returns the clusters with their descriptions after all merges of the algorithm.

    Args:
        texts: The summaries.
        vectors: A row of length 1 for each summary, shape (texts, d).
        embed: Makes the vectors of descriptions, with the embedder of `vectors`.
        k: Number of clusters to begin with, an overestimate.
        seed: Of k-means; with the numbers of a question's clusters, of its samples.
        note: Called with what is done next.

    Raises:
        UsageError: No summary has a vector.
    """
    first = _k_means(vectors, k, seed)
    groups = [np.flatnonzero(first == n).tolist() for n in range(int(first.max()) + 1)]
    interview = _Interview(ask, texts, groups, np.flatnonzero(first >= 0).tolist(), seed, [])
    descriptions = []
    for index in range(len(groups)):
        note(f"describing cluster {index + 1} of {len(groups)}")
        descriptions.append(" ".join(interview.ask_about(prompts.label, index).split()))
    undescribed = sum(not description for description in descriptions)
    current, undescribed_merges = _merge_similar(
        interview, prompts.merge, descriptions, embed, note
    )
    order = sorted(current, key=lambda index: (-len(groups[index]), index))
    labels = np.full(len(texts), -1, dtype=np.int32)
    for number, index in enumerate(order):
        labels[groups[index]] = number
    return PaperClusters(
        first=first,
        labels=labels,
        descriptions=tuple(descriptions[index] for index in order),
        questions=tuple(interview.questions),
        undescribed=undescribed + undescribed_merges,
    )


@dataclass(frozen=True, slots=True)
class _Interview:
    """The questions to the model about clusters, and their members.

    Attributes:
        ask: Returns the model's reply.
        texts: The summaries.
        groups: Rows of each cluster, by number; each merge adds one, and none is removed.
        clustered: Rows in any cluster, ascending.
        seed: With the numbers of a question's clusters, the seed of its samples.
        questions: The questions so far, in order.
    """

    ask: Ask
    texts: Sequence[str]
    groups: list[list[int]]
    clustered: Sequence[int]
    seed: int
    questions: list[Question]

    def ask_about(self, prompt: Prompt, *clusters: int) -> str:
        """Returns the reply to a question with a sample of each cluster and of what is in none of them, drawn for this
        question."""
        rng = np.random.default_rng([self.seed, *clusters])
        asked_groups = [self.groups[number] for number in clusters]
        others = sorted(set(self.clustered).difference(*asked_groups))
        shown = tuple(
            tuple(rng.permutation(rows)[:EXAMPLES].tolist()) for rows in (*asked_groups, others)
        )
        self.questions.append(Question(clusters, shown))
        titles = ("GROUP",) if len(clusters) == 1 else ("GROUP 1", "GROUP 2")
        shown_texts = [[self.texts[row] for row in rows] for rows in shown]
        return self.ask(prompt, lists(*zip((*titles, "NOT IN GROUP"), shown_texts, strict=True)))


def _merge_similar(
    interview: _Interview,
    prompt: Prompt,
    descriptions: list[str],
    embed: Callable[[Sequence[str]], Vectors],
    note: Note,
) -> tuple[set[int], int]:
    """Asks about the most similar pair of current clusters, and merges it if the model says so, until every pair was
    refused. Merged clusters are added to the groups of the interview, and their descriptions to `descriptions`.

    Returns:
        The numbers of the clusters that are left, and the number of merges whose reply had no description.
    """
    groups, questions = interview.groups, interview.questions
    first_count = len(groups)
    undescribed = 0
    rows = embed(descriptions)
    current = set(range(first_count))
    refused: set[tuple[int, int]] = set()
    while pair := _most_similar_pair(rows, current, refused):
        a, b = pair
        note(
            f"question {len(questions) - first_count + 1}: {len(current)} clusters of {first_count}"
        )
        verdict, description = read_merge(interview.ask_about(prompt, a, b))
        questions[-1] = replace(questions[-1], merge=verdict)
        if not verdict:
            refused.add(pair)
            continue
        undescribed += not description
        larger = a if len(groups[a]) >= len(groups[b]) else b
        descriptions.append(description or descriptions[larger])
        groups.append(sorted(groups[a] + groups[b]))
        rows = np.concatenate([rows, embed(descriptions[-1:])])
        current = current - {a, b} | {len(groups) - 1}
    return current, undescribed


def lists(*named: tuple[str, Sequence[str]]) -> str:
    """Returns lists of summaries as the paper prints them: `[NAME]`, then `- summary` with a blank line between
    summaries."""
    return "\n\n".join(
        f"[{name}]\n" + "\n\n".join(f"- {text.strip()}" for text in texts) for name, texts in named
    )


def read_merge(reply: str) -> tuple[bool | None, str]:
    """Reads a free reply to the merge question.

    Returns:
        Whether the groups are to be merged, None if the reply does not say; and the description, empty without one.
    """
    _, text = split_thinking(reply.strip())
    answer, *described = _DESCRIPTION.split(text, maxsplit=1)
    said = find_verdict(answer) or _DECISION.search(answer)
    first_sentence, *following = _SENTENCE.split(text[said.end() :] if said else text, maxsplit=1)
    claim, *_ = _GROUNDS.split(first_sentence, maxsplit=1)
    verdict: bool | None = None
    if said:
        verdict = said.lastgroup is None or said[said.lastgroup].casefold() == "yes"
    # Without a verdict in one word the first sentence decides, unless it only repeats the question.
    elif _MERGE.search(claim) and not _ECHO.search(claim):
        if _NO.search(claim):
            verdict = False
        elif _YES.search(claim):
            verdict = True
    if not verdict:
        return verdict, ""
    # What follows "description:", or else what follows the sentence of the verdict.
    return True, " ".join("".join(described or following).split())


def _k_means(vectors: Vectors, k: int, seed: int) -> Numbers:
    """Returns the cluster of each row, shape (n,), -1 for a row of zeros; raises NotYet if there is no other row. All
    others are placed, clusters of one row included."""
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise NotYet("No conversation has a vector.", "Look at the texts that were embedded.")
    order = canonical_order(vectors, rows, seed)
    solution = solve(
        vectors, order, min(k, len(rows)), seed, restarts=RESTARTS, note=lambda done, total: None
    )
    nearest_centres, _ = closest(vectors[rows], solution.centres)
    # Numbered anew, so that no number is left out where a center has no row.
    _, numbers = np.unique(nearest_centres, return_inverse=True)
    labels = np.full(len(vectors), -1, dtype=np.int32)
    labels[rows] = numbers
    return labels


def _most_similar_pair(
    rows: Vectors, current: set[int], refused: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """Returns the pair of current clusters with the most similar descriptions that was not refused; None if there is
    none. `rows` are the vectors of all descriptions so far, shape (clusters, d)."""
    keys = sorted(current)
    units = unit_rows(rows[keys])
    cosines = units @ units.T
    # Of equal cosines the pair with the lowest numbers comes first, hence the least of negative cosines.
    pairs = [
        (-float(cosines[i, j]), (a, b))
        for i, a in enumerate(keys)
        for j, b in enumerate(keys)
        if a < b and (a, b) not in refused
    ]
    if not pairs:
        return None
    _, most_similar = min(pairs)
    return most_similar


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
    """Returns the distances of rows, shape (n, d), to the centers of their own clusters; rows with a negative label,
    shape (n,), are left out."""
    centres = _centres(vectors, labels)
    clustered = labels >= 0
    return _mean_distances(vectors[clustered], centres[labels[clustered]])


def assigned_distances(vectors: Vectors, labels: Numbers, others: Vectors) -> Distances:
    """Returns the distances of other rows, shape (m, d), to the nearest center by cosine; rows of zeros are left out.
    Vectors and labels as for `own_distances`."""
    centres = _centres(vectors, labels)
    nonzero_rows = others[has_vector(others)]
    nearest = (nonzero_rows @ unit_rows(centres).T).argmax(axis=1)
    return _mean_distances(nonzero_rows, centres[nearest])


def pairwise_ari(runs: Sequence[Numbers]) -> list[float | None]:
    """Returns the adjusted Rand index of each pair of runs over the rows that both placed, in the order (0, 1), (0, 2),
    ...

    Args:
        runs: Cluster of each row, negative where a run does not have the row.

    Returns:
        None for a pair that has fewer than two rows in common, of which nothing can be said.
    """
    from sklearn.metrics import adjusted_rand_score

    indices: list[float | None] = []
    for number, run in enumerate(runs):
        for other_run in runs[number + 1 :]:
            placed_by_both = (run >= 0) & (other_run >= 0)
            comparable = np.count_nonzero(placed_by_both) > 1
            indices.append(
                float(adjusted_rand_score(run[placed_by_both], other_run[placed_by_both]))
                if comparable
                else None
            )
    return indices


def _centres(vectors: Vectors, labels: Numbers) -> Floats:
    """Returns the mean of the rows of each cluster, shape (clusters, d)."""
    count = int(labels.max()) + 1
    return np.stack([vectors[labels == number].mean(axis=0) for number in range(count)])


def _mean_distances(rows: Vectors, centres: Floats) -> Distances:
    """Returns the mean distances of rows to the centers at the same index, both of shape (n, d)."""
    if not len(rows):
        return Distances(0, None, None)
    cosine_distances = 1 - np.einsum("ij,ij->i", rows, unit_rows(centres))
    euclidean_distances = np.linalg.norm(rows - centres, axis=1)
    return Distances(
        rows=len(rows),
        cosine=float(cosine_distances.mean()),
        euclidean=float(euclidean_distances.mean()),
        cosine_error=_standard_error(cosine_distances),
        euclidean_error=_standard_error(euclidean_distances),
    )


def _standard_error(values: Floats) -> float | None:
    """Returns the standard error of the mean of values of shape (n,); None with fewer than two values."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


# The LLM-only baseline


AskCategories = Callable[[str, Sequence[str]], str]
"""Called with the name of a prompt and the pieces that follow it, the first of which is always kept; returns the
reply."""


FIRST_PROMPT, NEXT_PROMPT = "paper-first-category", "paper-categories"
"""Names of the prompts for the first conversation and for all later ones."""


_SEPARATOR = re.compile(r"\n|,|;|\s\|\s")
"""What separates the categories of a reply."""


_EDGE_PUNCTUATION = " \t\"'“”‘’*`#-–—:.[]()"
"""Characters that are stripped from both ends of a category."""


_LOG_LINE = re.compile(r"\bTURN \d")
"""A small model goes on with the log instead of answering; from there on its reply is no answer."""


_LIST_NUMBER = re.compile(r"^\d{1,2}[.)]\s+")
"""The number of a list item, which is no part of the category."""


MAX_CATEGORY_WORDS = 10
"""Words above which a part of a reply is no category: five are asked for, and a model that rambles writes sentences."""


def categorise(ask: AskCategories, logs: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yields the categories of each log in turn; none where the reply names none.

    A category that differs from an earlier one only in case, spacing or punctuation is that one.

    Args:
        logs: Pieces of each log.
    """
    category_by_key: dict[str, str] = {}
    earlier_answers: dict[str, None] = {}  # an ordered set
    for log in logs:
        answer_list = "".join(f"- {answer}\n" for answer in earlier_answers)
        heading = f"{answer_list}[USER INPUT LOG]\n"
        reply = ask(NEXT_PROMPT if earlier_answers else FIRST_PROMPT, (heading, *log))
        categories = {
            category_by_key.setdefault(_letters(category), category): None
            for category in read_categories(reply)
        }
        if categories:
            earlier_answers[", ".join(categories)] = None
        yield tuple(categories)


def read_categories(reply: str) -> list[str]:
    """Returns the categories that a reply names, as they are written; none where it names none."""
    answer, *_ = _LOG_LINE.split(reply, maxsplit=1)
    parts = (
        _LIST_NUMBER.sub("", part.strip(_EDGE_PUNCTUATION)).strip(_EDGE_PUNCTUATION)
        for part in _SEPARATOR.split(answer)
    )
    return [part for part in parts if _letters(part) and len(part.split()) <= MAX_CATEGORY_WORDS]


def _letters(category: str) -> str:
    """Returns the letters and digits of a category, by which it is compared."""
    return "".join(filter(str.isalnum, category.casefold()))
