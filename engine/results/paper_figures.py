"""The figures and tables of Soroka et al. that show goals and response trees, as blocks of a document.

Numbers of figures and tables are those of the paper. The *adjusted Rand index* says how far two clusterings agree, the
*Jaccard similarity* how far two clusters do (shared conversations out of all of either); both are 1 where they are
equal. A *best leaf* is the most probable answer of a response tree.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np
import numpy.typing as npt

from engine.base.arrays import Floats
from engine.base.number_format import counted
from engine.base.report_table import ReportTable, text_table
from engine.base.text import one_line
from engine.goals.clusters.validation import DISSOLVED, STABLE
from engine.goals.tables.measurements import Measurements
from engine.results.comparison.measured import Measured
from engine.results.document import Bar, Bars, Block, Columns, Paragraph, Plot
from engine.trees.records import TreeItem

MAX_CLUSTERS = 20
"""Most clusters whose stability is shown, the least stable first."""

MAX_CLUSTER_CHARS = 60
"""Most characters of the name of a cluster."""

MAX_SOURCE_CHARS = 50
"""Most characters of the name of a source."""

HISTOGRAM_COLUMNS = 14
"""Columns of a histogram."""

MAX_DOTS = 2_000
"""Most dots of a picture; of more trees, one in as many as needed is drawn."""

MAX_SOURCES = 12
"""Most sources that are listed."""

MIN_FOR_TOP_TENTH = 20
"""Conversations with trees below which a top tenth says nothing."""

PERCENTILE = 90.0
"""Percentile, 0 to 100, from which on a conversation is in the top tenth of leaves, and of the negated best
log-probability, as in C.2.2 of the paper."""


# Goals


def clustering_figures(measurements: Measurements) -> Iterator[Block]:
    """Yields how stable a clustering is, as far as it was measured."""
    yield from _stability(measurements)


def _stability(measurements: Measurements) -> Iterator[Block]:
    """Yields how well the clustering agrees with others, and how stable each cluster is."""
    agreements = measurements.agreements
    if not agreements:
        yield Paragraph(
            "How stable the clusters are was not measured. `workbench run stability PROJECT` measures it."
        )
        return
    rows = []
    for kind, name in (
        ("seed", "other seeds"),
        ("bootstrap", "conversations drawn with replacement"),
    ):
        if aris := [ari for kind_of_run, ari in agreements if kind_of_run == kind]:
            figures = (mean(aris), min(aris), max(aris))
            rows.append((name, f"{len(aris)}", *(f"{value:.2f}" for value in figures)))
    yield text_table(
        "The clustering against others by k-means: adjusted Rand index (compare Figure 4 of Soroka et al.)",
        ("clustered again with", "times", "mean", "least", "greatest"),
        tuple(rows),
        figures=range(1, 5),
    )
    measured_clusters = sorted(
        (
            (cluster, measurements.jaccard[cluster.number])
            for cluster in measurements.clusters
            if cluster.number in measurements.jaccard
        ),
        key=lambda cluster_and_jaccard: cluster_and_jaccard[1],
    )
    yield Bars(
        "Clusters before merges, the least stable first: mean Jaccard similarity over bootstraps",
        tuple(
            Bar(
                one_line(cluster.name, MAX_CLUSTER_CHARS),
                jaccard,
                f"{jaccard:.2f} {_stability_word(jaccard)}".strip(),
            )
            for cluster, jaccard in measured_clusters[:MAX_CLUSTERS]
        ),
    )
    if len(measured_clusters) > MAX_CLUSTERS:
        yield Paragraph(
            f"{counted(len(measured_clusters) - MAX_CLUSTERS, 'more stable cluster')} not listed."
        )
    yield Paragraph(
        f"From {STABLE} on a cluster is called stable, up to {DISSOLVED} dissolved (Hennig 2007)."
    )


def _stability_word(jaccard: float) -> str:
    """Returns how stable a cluster of this mean Jaccard similarity is called, in a word or none."""
    if jaccard >= STABLE:
        return "stable"
    return "dissolved" if jaccard <= DISSOLVED else ""


# Response trees


def tree_figures(
    measured: Measured, trees: Sequence[TreeItem], sources: Mapping[str, Sequence[int]]
) -> Iterator[Block]:
    """Yields distributions of response trees (Figure 6), their figures by source, leaves against the best
    log-probability (Figure 12) and both against the length (Figure 13).

    Args:
        measured: The conversations that have trees, at least one.
        trees: All trees of these conversations.
        sources: Ids of conversations by source.
    """
    yield Paragraph(
        f"{counted(len(measured.ids), 'conversation')} with a response tree: median"
        f" {np.median(measured.leaves):.0f} leaves, mean entropy {measured.entropy.mean():.2f} bits."
    )
    with_leaf = with_best_leaf(trees)
    yield from _distributions(trees, with_leaf)
    yield _by_source(trees, sources)
    if with_leaf:
        yield leaves_against_log_prob(with_leaf)
        lengths = dict(zip(measured.ids.tolist(), measured.characters.tolist(), strict=True))
        yield from against_length(with_leaf, lengths)


def with_best_leaf(trees: Sequence[TreeItem]) -> list[TreeItem]:
    """Returns the trees of which the log-probability of the best leaf is known."""
    return [item for item in trees if item.row.max_log_prob is not None]


def _best_log_prob(item: TreeItem) -> float:
    """Returns the log-probability of the best leaf of a tree that has one."""
    # Never 0.0 for lack of a leaf, since only trees of `with_best_leaf` come here; the type does not say so.
    return item.row.max_log_prob or 0.0


def _distributions(trees: Sequence[TreeItem], with_leaf: Sequence[TreeItem]) -> Iterator[Block]:
    """Yields histograms of leaves, of all trees, and of the best log-probability, of those that have a best leaf."""
    leaves = [item.row.leaves for item in trees]
    # Whole edges, each once: with fewer numbers of leaves than columns, narrower columns would stay empty.
    edges = np.unique(np.linspace(min(leaves), max(leaves) + 1, HISTOGRAM_COLUMNS + 1).round())
    yield _histogram("number of leaves", leaves, edges, "{:.0f}")
    if with_leaf:
        values = [_best_log_prob(item) for item in with_leaf]
        edges = np.histogram_bin_edges(values, HISTOGRAM_COLUMNS)
        yield _histogram("log-probability of the best leaf", values, edges, "{:.1f}")


def _histogram(figure_name: str, values: Sequence[float], edges: Floats, form: str) -> Columns:
    """Returns trees by a figure; each column is labeled with the lower end of its range.

    Args:
        figure_name: Name of the figure.
        values: The figure of each tree.
        edges: Ends of the ranges, ascending, shape (columns + 1,).
        form: Format of an edge.
    """
    # The last edge is only the upper end of the last column.
    counts, _ = np.histogram(values, edges)
    return Columns(
        f"Trees by the {figure_name} (Figure 6 of Soroka et al.)",
        tuple((form.format(edge), int(count)) for edge, count in zip(edges, counts, strict=False)),
        of="trees",
    )


def _by_source(trees: Sequence[TreeItem], sources: Mapping[str, Sequence[int]]) -> ReportTable:
    """Returns a row for each source, the most trees first: median, and quartiles in brackets."""
    source_of = {key: source for source, keys in sources.items() for key in keys}
    trees_by_source: dict[str, list[TreeItem]] = defaultdict(list)
    for item in trees:
        trees_by_source[source_of[item.row.conversation_id]].append(item)
    listed = sorted(trees_by_source.items(), key=lambda source_and_trees: -len(source_and_trees[1]))
    rows = [
        (
            one_line(source, MAX_SOURCE_CHARS),
            f"{len(items):,}",
            _quartiles([item.row.leaves for item in items], "{:.0f}"),
            _quartiles([item.row.max_log_prob for item in items], "{:.2f}"),
            _quartiles([item.row.covered for item in items], "{:.2f}"),
            _quartiles([item.row.entropy for item in items], "{:.2f}"),
        )
        for source, items in listed[:MAX_SOURCES]
    ]  # fmt: skip
    return text_table(
        "Trees by source: median (quartiles)",
        ("source", "trees", "leaves", "best log-probability", "covered probability", "entropy in bits"),
        tuple(rows),
        figures=range(1, 6),
    )  # fmt: skip


def _quartiles(values: Sequence[float | None], form: str) -> str:
    """Returns the median with the quartiles in brackets, each in a format; a dash where nothing is known."""
    known_values = [value for value in values if value is not None]
    if not known_values:
        return "–"
    low, middle, high = (form.format(bound) for bound in np.percentile(known_values, (25, 50, 75)))
    return f"{middle} ({low} to {high})"


def leaves_against_log_prob(with_leaf: Sequence[TreeItem], data_set: str = "") -> Plot:
    """Returns Figure 12 of trees that have a best leaf; `data_set` is the name of theirs, empty for the project."""
    return _dots(
        "Leaves against the log-probability of the best leaf (Figure 12 of Soroka et al.)",
        data_set,
        x_title="log-probability of the best leaf",
        y_title="leaves",
        hint="unsure ones are at the upper left",
        points=[(_best_log_prob(item), float(item.row.leaves)) for item in with_leaf],
    )


def against_length(
    with_leaf: Sequence[TreeItem], lengths: Mapping[int, float], data_set: str = ""
) -> Iterator[Plot]:
    """Yields Figure 13: both figures of trees that have a best leaf against the length of their conversation.

    Args:
        lengths: Characters of conversations by id.
        data_set: Name of the data set; empty for the project.
    """
    chars = [float(lengths[item.row.conversation_id]) for item in with_leaf]
    for figure_name, values in (
        ("leaves", [float(item.row.leaves) for item in with_leaf]),
        ("log-probability of the best leaf", [_best_log_prob(item) for item in with_leaf]),
    ):
        capitalized = f"{figure_name[:1].upper()}{figure_name[1:]}"
        yield _dots(
            f"{capitalized} against the length of the conversation (Figure 13 of Soroka et al.)",
            data_set,
            x_title="characters",
            y_title=figure_name,
            hint="Table 3 has the correlation",
            points=list(zip(chars, values, strict=True)),
        )


def _dots(
    title: str,
    data_set: str,
    *,
    x_title: str,
    y_title: str,
    hint: str,
    points: Sequence[tuple[float, float]],
) -> Plot:
    """Returns a picture of trees as dots.

    Args:
        data_set: Name of the data set; empty for the project.
        x_title, y_title: Titles of the horizontal and the vertical axis.
        hint: How the picture is to be read, a few words.
        points: Both figures of each tree.
    """
    interval = max(1, math.ceil(len(points) / MAX_DOTS))
    dots = tuple(points[::interval])
    description = f"{counted(len(dots), 'tree')}" + (f", one in {interval}" if interval > 1 else "")
    return Plot(
        f"{data_set}: {title}" if data_set else title,
        x_title,
        y_title,
        f"{description}; {hint}.",
        dots=dots,
    )


@dataclass(frozen=True, slots=True)
class TopTenth:
    """Which conversations are in the top tenth of leaves and of the negated best log-probability, as in C.2.2.

    Attributes:
        log_probs: The lowest log-probability of a best leaf among the trees of each conversation, NaN where no tree has
            a best leaf, shape (conversations,). The lowest, so that one unsure tree is enough.
        both: Whether each is in both top tenths, shape (conversations,).
        leaves, log_prob: Least number of leaves, and greatest log-probability, of the top tenth; None where there are
            fewer than `MIN_FOR_TOP_TENTH` conversations, of which none is in a top tenth, or no tree has a best leaf.
    """

    log_probs: Floats
    both: npt.NDArray[np.bool_]
    leaves: float | None = None
    log_prob: float | None = None


def top_tenth(measured: Measured, trees: Sequence[TreeItem]) -> TopTenth:
    """Returns the top tenth of conversations that all have trees; `trees` are those that have a best leaf."""
    lowest: dict[int, float] = {}  # by conversation; log-probabilities are at most 0
    for item in trees:
        key = item.row.conversation_id
        lowest[key] = min(lowest.get(key, 0.0), _best_log_prob(item))
    log_probs = np.array([lowest.get(int(key), np.nan) for key in measured.ids])
    if len(measured.ids) < MIN_FOR_TOP_TENTH or not trees:
        return TopTenth(log_probs, np.zeros(len(measured.ids), dtype=bool))
    leaves = float(np.percentile(measured.leaves, PERCENTILE))
    negated = float(np.nanpercentile(-log_probs, PERCENTILE))
    both = (measured.leaves >= leaves) & (-log_probs >= negated)
    return TopTenth(log_probs, both, leaves, -negated)
