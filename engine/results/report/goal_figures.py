"""Figures 3 to 5 and Table 4 of Soroka et al. in a report: the largest goals, the stability of the clusters, and how
near conversations are to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from engine.base.number_format import counted
from engine.base.text import one_line
from engine.goals.clusters.validation import DISSOLVED, STABLE
from engine.goals.tables.measurements import Measurements
from engine.results.report.document import Bars, Block, Paragraph, Table

LARGEST = 10
"""Goals of a run that are listed, as in the paper."""
MOST_CLUSTERS = 20
MOST_RUNS = 4


def largest_goals(sizes: Sequence[tuple[str, int]], total: int) -> Bars:
    """The ten largest goals.

    Args:
        sizes: Label and number of conversations of each goal, the largest first.
        total: Number of all conversations.
    """
    return Bars(
        "The ten largest goals (Figures 3 and 5 of Soroka et al.): share of the conversations",
        tuple(
            (label, size / total, f"{size:,} ({size / total:.0%})")
            for label, size in sizes[:LARGEST]
        ),
    )


def clustering_figures(found: Measurements) -> Iterator[Block]:
    """Stability and distances of a clustering, as far as they were measured."""
    yield from _stability(found)
    if found.paper_goals is not None:
        yield from side_by_side(found.paper_goals)
    yield from _distances(found)


def _stability(found: Measurements) -> Iterator[Block]:
    runs = found.agreements
    if not runs:
        yield Paragraph(
            "How stable the clusters are was not measured. `workbench run stability PROJECT` measures it."
        )
        return
    rows = []
    for kind, name in (
        ("seed", "other seeds"),
        ("bootstrap", "conversations drawn with replacement"),
    ):
        if aris := [ari for of, ari in runs if of == kind]:
            figures = (mean(aris), min(aris), max(aris))
            rows.append((name, f"{len(aris)}", *(f"{one:.2f}" for one in figures)))
    yield Table(
        "The clustering against others by k-means: adjusted Rand index (compare Figure 4 of Soroka et al.)",
        ("clustered again with", "times", "mean", "least", "greatest"),
        tuple(rows),
        frozenset((1, 2, 3, 4)),
    )
    known = sorted(
        ((one, found.jaccard[one.number]) for one in found.clusters if one.number in found.jaccard),
        key=lambda one: one[1],
    )
    yield Bars(
        "Clusters before merges, the least stable first: mean Jaccard similarity over bootstraps",
        tuple(
            (one_line(cluster.name, 60), value, f"{value:.2f} {_stable(value)}".strip())
            for cluster, value in known[:MOST_CLUSTERS]
        ),
    )
    if len(known) > MOST_CLUSTERS:
        yield Paragraph(f"{counted(len(known) - MOST_CLUSTERS, 'more stable cluster')} not listed.")
    yield Paragraph(
        f"From {STABLE} on a cluster is called stable, up to {DISSOLVED} dissolved (Hennig 2007)."
    )


def _stable(value: float) -> str:
    return "stable" if value >= STABLE else "dissolved" if value <= DISSOLVED else ""


def side_by_side(paper: Mapping[str, Any]) -> Iterator[Block]:
    """The largest groups of several runs of the paper's algorithm side by side."""
    figure = paper["figure_4"]
    runs = [("this run", paper["clustering"])]
    for name, title in (("seeds", "seed"), ("bootstraps", "bootstrap")):
        runs += [(f"{title} {nth}", one) for nth, one in enumerate(figure[name], 1)]
    columns = [
        [f"{group['description']} ({group['size']:,})" for group in _largest(run)]
        for _, run in runs[:MOST_RUNS]
    ]
    depth = max(map(len, columns))
    yield Table(
        "Runs of the algorithm of Soroka et al. side by side (Figure 4): the largest groups with their sizes",
        ("", *(title for title, _ in runs[:MOST_RUNS])),
        tuple(
            (f"{at + 1}", *(one_line(one[at], 90) if at < len(one) else "" for one in columns))
            for at in range(depth)
        ),
    )
    means = [
        f"{value:.2f} over {counted(len(figure[name]), what)}"
        for name, what in (("seeds", "other seed"), ("bootstraps", "bootstrap"))
        if (value := figure[f"ari_{name}_mean"]) is not None
    ]
    orders = paper["llm_only"]["ari_orders_mean"]
    if orders is not None:
        means.append(f"{orders:.2f} between orders of the data where a model labels one by one")
    if means:
        yield Paragraph(f"Mean adjusted Rand index: {'; '.join(means)}.")


def _largest(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return sorted(run["groups"], key=lambda group: -int(group["size"]))[:LARGEST]


def _distances(found: Measurements) -> Iterator[Block]:
    """Table 4: mean distances to the centre of the own cluster, of a training part, of the rest and of all."""
    rows = []
    table = None if found.paper_goals is None else found.paper_goals["table_4"]
    held_out, clusters = found.hold_out, found.clusters
    if table is not None:
        rows += [
            ("whole algorithm, training part", f"{table['clusters_train']:,}", *_far(table["train"])),
            ("whole algorithm, held out", "", *_far(table["test"])),
            ("whole algorithm, all", f"{table['clusters_full']:,}", *_far(table["full"])),
        ]  # fmt: skip
    if held_out is not None:
        inside = sum(one.size for one in clusters)
        spread = sum(one.size * one.spread for one in clusters) / inside if inside else 0.0
        rows += [
            ("k-means, training part", f"{held_out['clusters']:,}", f"{held_out['train']:,}",
             f"{held_out['cosine_train']:.3f}", f"{held_out['euclidean_train']:.3f}"),
            ("k-means, held out", "", f"{held_out['test']:,}", f"{held_out['cosine_test']:.3f}",
             f"{held_out['euclidean_test']:.3f}"),
            ("k-means, all", f"{len(clusters):,}", f"{inside:,}", f"{spread:.3f}", ""),
        ]  # fmt: skip
    if not rows:
        yield Paragraph(
            "How near held-out conversations are to the clusters (Table 4 of Soroka et al.) was not measured."
            " `workbench run assign PROJECT --holdout .5` measures it."
        )
        return
    yield Table(
        "Mean distance to the center of the cluster (Table 4 of Soroka et al.)",
        ("conversations", "clusters", "number", "cosine distance", "Euclidean distance"),
        tuple(rows),
        frozenset((1, 2, 3, 4)),
    )


def _far(found: Mapping[str, Any]) -> tuple[str, str, str]:
    cosine, euclidean = (
        "" if found[name] is None else f"{found[name]:.3f}" for name in ("cosine", "euclidean")
    )
    return f"{found['rows']:,}", cosine, euclidean
