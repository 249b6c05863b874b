"""Goals as in the paper, from runs of the program: Table 4 (hold-out) and Figure 4 (runs side by side) of the whole
algorithm, and the baseline of appendix C.1, in which a model alone labels one conversation after another.

In the baseline a model gives each conversation one or more categories, of those it gave before or new ones, so that its
result depends on the order of the conversations, as the paper shows with it. As in the paper's example each line of the
list is one earlier answer, so that a line may name several categories.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from engine.base.conversation import render_log, without_surrogates
from engine.conversations.tables import conversations
from engine.goals.records import Clustering
from engine.goals.tables import clusterings, vectors
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.vectors import read_vectors
from engine.goals.views.clustering_view import Space
from engine.model.embedders.embedder import embedder_for, embedder_from_state
from engine.model.embedders.vectors import Floats, Numbers, Vectors, has_vector, unit_rows
from engine.model.prompt_files import parse_prompt
from engine.model.stages import ModelWork
from engine.opener.open_project import OpenProject
from engine.project import settings
from workbench.narration import narrate

PROMPTS = Path(__file__).parent / "prompts"
"""Folder of the two prompts of the baseline."""
ORDER_KEY = "llm_only"
"""Setting: what the baseline gave in one order of the conversations, by its number."""
_ORDER_STREAM = 0xC1
"""Number of the stream of random numbers of the orders of the baseline."""
MAX_CATEGORIES = 10
"""Categories of the baseline that are listed."""


def measured_goals(workspace: OpenProject) -> dict[str, Any] | None:
    """Returns what was measured as JSON values: the clustering of the lowest seed over all conversations, those of
    other seeds beside it, the hold-out of the clustering over fewer, and the baseline. None before any run."""
    made = [each for each in workspace.project.read(clusterings.every) if each.paper]
    if not made:
        return None
    most = max(each.conversations for each in made)
    whole = sorted((each for each in made if each.conversations == most), key=lambda c: c.seed)
    part = next((each for each in reversed(made) if each.conversations < most), None)
    runs = [_Groups.of(workspace, each) for each in whole]
    agreements = pairwise_ari([run.labels for run in runs])
    orders = _orders(workspace)
    ids = runs[0].ids
    labels_of_orders = [
        _as_clusters(categories.get(key, ()) for key in ids) for categories, _ in orders
    ]
    ari_orders = pairwise_ari(labels_of_orders)
    return {
        "conversations": most,
        "clustering": runs[0].as_json(),
        "table_4": None if part is None else _table_4(workspace, whole[0], runs[0], part),
        "figure_4": {
            "seeds": [run.as_json() for run in runs[1:]],
            "ari_seeds": agreements,
            "ari_seeds_mean": _mean(agreements),
        },
        "llm_only": {
            "orders": [_category_counts(categories) for categories, _ in orders],
            "ari_orders": ari_orders,
            "ari_orders_mean": _mean(ari_orders),
            "shortened": sum(shortened for _, shortened in orders),
        },
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """The groups of a run, largest first.

    Attributes:
        ids: Conversations of the clustering, ascending.
        labels: Index of the group of each, shape (conversations,).
        descriptions: Of each group.
        counts: Clusters before merges, and questions by their answer.
    """

    ids: Sequence[int]
    labels: Numbers
    descriptions: Sequence[str]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, workspace: OpenProject, clustering: Clustering) -> _Groups:
        """Returns the groups of a clustering after the decisions on it."""
        log = workspace.merge_queue_cache.decision_log
        state = log.state(clustering.id)
        keys = sorted(state.current, key=lambda key: -state.groups[key].size)
        ids, labels = state.group_indices(keys)
        answers = [d for d in log.active(clustering.id) if d.kind in ("merge", "apart")]
        counts = {
            "clusters_before": sum(key.startswith("c") for key in state.groups),
            "clusters": len(keys),
            "asked": len(answers),
            "merged": sum(d.kind == "merge" for d in answers),
            "unread": sum((d.evidence or {}).get("yes") is None for d in answers),
            "undescribed": sum(not state.groups[key].label for key in keys),
        }
        return cls(ids.tolist(), labels, [state.groups[key].label for key in keys], counts)

    def as_json(self) -> dict[str, Any]:
        """Returns the counts and the groups."""
        sizes = np.bincount(self.labels[self.labels >= 0], minlength=len(self.descriptions))
        return {
            **self.counts,
            "groups": [
                {"size": int(size), "description": description}
                for size, description in zip(sizes, self.descriptions, strict=True)
            ],
        }


def _table_4(
    workspace: OpenProject, whole: Clustering, groups: _Groups, part: Clustering
) -> dict[str, Any]:
    """Returns the values of Table 4: the part was clustered, described and merged without the others, which its
    embedder, fitted on the part alone, places afterwards."""
    train = _Groups.of(workspace, part)
    with workspace.project.reading() as conn:
        train_rows = Space(*read_vectors(conn, part.vector_config)).rows_of(np.asarray(train.ids))
        rows = Space(*read_vectors(conn, whole.vector_config)).rows_of(np.asarray(groups.ids))
        others = sorted(set(groups.ids).difference(train.ids))
        texts = [entry.text for entry in source_of(whole).each(conn, others)]
        config = vectors.config(conn, part.vector_config)
    embedder = (
        embedder_for(part.embedder)
        if config is None or config.state is None
        else embedder_from_state(config.embedder, config.state)
    )
    train_distances = own_distances(train_rows, train.labels)
    test_distances = assigned_distances(train_rows, train.labels, embedder.embed(texts))
    return {
        "clusters_train": len(train.descriptions),
        "train": asdict(train_distances),
        "test": asdict(test_distances),
        "without_vector": len(groups.ids) - train_distances.rows - test_distances.rows,
        "clusters_full": len(groups.descriptions),
        "full": asdict(own_distances(rows, groups.labels)),
    }


@dataclass(frozen=True, slots=True)
class Distances:
    """Mean distances of rows to the centers of their clusters; None without rows.

    Attributes:
        rows: Number of rows measured.
        euclidean: To the mean of the cluster's rows, which are of length 1.
        euclidean_error: Standard error of the mean; None with fewer than two rows.
    """

    rows: int
    euclidean: float | None
    euclidean_error: float | None = None


def own_distances(vectors: Vectors, labels: Numbers) -> Distances:
    """Returns the distances of rows, shape (n, d), to the centers of their own clusters; rows with a negative label,
    shape (n,), are left out."""
    centers = _centers(vectors, labels)
    clustered = labels >= 0
    return _mean_distances(vectors[clustered], centers[labels[clustered]])


def assigned_distances(vectors: Vectors, labels: Numbers, others: Vectors) -> Distances:
    """Returns the distances of other rows, shape (m, d), to the nearest center by cosine; rows of zeros are left out.
    Vectors and labels as for `own_distances`."""
    centers = _centers(vectors, labels)
    nonzero_rows = others[has_vector(others)]
    nearest = (nonzero_rows @ unit_rows(centers).T).argmax(axis=1)
    return _mean_distances(nonzero_rows, centers[nearest])


def pairwise_ari(runs: Sequence[Numbers]) -> list[float | None]:
    """Returns the adjusted Rand index of each pair of runs over the rows that both placed, in the order (0, 1), (0, 2),
    ...

    Args:
        runs: Cluster of each row, negative where a run does not have the row.

    Returns:
        None for a pair that has fewer than two rows in common, of which nothing can be said.
    """
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


def _centers(vectors: Vectors, labels: Numbers) -> Floats:
    """Returns the mean of the rows of each cluster, shape (clusters, d)."""
    count = int(labels.max()) + 1
    return np.stack([vectors[labels == number].mean(axis=0) for number in range(count)])


def _mean_distances(rows: Vectors, centers: Floats) -> Distances:
    """Returns the mean distances of rows to the centers at the same index, both of shape (n, d)."""
    if not len(rows):
        return Distances(0, None)
    euclidean_distances = np.linalg.norm(rows - centers, axis=1)
    return Distances(
        rows=len(rows),
        euclidean=float(euclidean_distances.mean()),
        euclidean_error=_standard_error(euclidean_distances),
    )


def _standard_error(values: Floats) -> float | None:
    """Returns the standard error of the mean of values of shape (n,); None with fewer than two values."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _category_counts(categories_by_conversation: Mapping[int, tuple[str, ...]]) -> dict[str, Any]:
    """Returns the counts of one order of the LLM-only baseline: categories, conversations with several of them or none,
    and the categories of most conversations."""
    uses = Counter(
        category for categories in categories_by_conversation.values() for category in categories
    )
    return {
        "categories": len(uses),
        "several": sum(
            1 for categories in categories_by_conversation.values() if len(categories) > 1
        ),
        "without": sum(1 for categories in categories_by_conversation.values() if not categories),
        "most_used": uses.most_common(MAX_CATEGORIES),
    }


def _as_clusters(labels: Iterable[tuple[str, ...]]) -> Numbers:
    """Returns the cluster of each conversation, shape (conversations,): those with the same set of categories are one
    cluster. A conversation without a category has -1."""
    numbers: dict[frozenset[str], int] = {}
    return np.array(
        [
            numbers.setdefault(frozenset(categories), len(numbers)) if categories else -1
            for categories in labels
        ],
        dtype=np.int32,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Returns the mean of the values that are there; None without any."""
    values_present = [value for value in values if value is not None]
    return mean(values_present) if values_present else None


# The LLM-only baseline


def label_one_by_one(workspace: OpenProject, model_name: str | None, orders: int) -> None:
    """Lets a model label the conversations of the clustering that is shown one after another, in so many shuffled
    orders; an order that was finished is not asked about again."""
    with workspace.project.reading() as conn:
        shown = clusterings.stored_clustering(conn, clusterings.goals_clustering_id(conn))
        ids = clusterings.membership(conn, shown.id)[0].tolist()
        pieces = {
            key: [piece.text for piece in render_log(messages)]
            for key, messages in conversations.conversations_for(conn, ids)
        }
    stages = workspace.goal_stages()
    work = ModelWork(stages.setup.process, stages.model_of_run(model_name))
    prompts = {
        path.stem: parse_prompt(path.stem, path.read_text("utf-8")) for path in PROMPTS.iterdir()
    }
    work.load()
    for number in range(orders):
        with workspace.project.reading() as conn:
            if settings.get(conn, f"{ORDER_KEY}:{number}") is not None:
                continue
        narrate(f"One after another, order {number + 1}")
        order = np.random.default_rng([number, _ORDER_STREAM]).permutation(len(ids)).tolist()
        shortened = 0

        def ask(name: str, log: Sequence[str]) -> str:
            """Returns the reply to a log, whose first piece (the earlier answers) is never left out."""
            nonlocal shortened
            [reply] = work.replies([(log, 1)], prompts[name], lambda count, note: None)
            shortened += reply.note is not None
            return without_surrogates(reply.text)

        answers = categorize(ask, [pieces[ids[index]] for index in order])
        values = {
            "categories": {
                str(ids[index]): list(answer) for index, answer in zip(order, answers, strict=True)
            },
            "shortened": shortened,
        }
        workspace.project.write(partial(settings.put, key=f"{ORDER_KEY}:{number}", value=values))


def _orders(workspace: OpenProject) -> list[tuple[dict[int, tuple[str, ...]], int]]:
    """Returns, for each order, the categories of each conversation by id, and how many logs were shortened."""
    orders: list[tuple[dict[int, tuple[str, ...]], int]] = []
    with workspace.project.reading() as conn:
        while (values := settings.get(conn, f"{ORDER_KEY}:{len(orders)}")) is not None:
            categories = {int(key): tuple(answer) for key, answer in values["categories"].items()}
            orders.append((categories, values["shortened"]))
    return orders


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


AskCategories = Callable[[str, Sequence[str]], str]
"""Called with the name of a prompt and the pieces that follow it, the first of which is never left out; returns the
reply."""


def categorize(ask: AskCategories, logs: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
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
        reply = ask(
            "paper-categories" if earlier_answers else "paper-first-category", (heading, *log)
        )
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
