"""Response trees in a report: their distributions (Figure 6 of Soroka et al.), leaves against the best log-probability
(Figure 12) and both against the length (Figure 13), and the conversations in which the model was least sure (C.2.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from engine.base.number_format import counted
from engine.base.text import one_line
from engine.conversations.filters import Filter, ListQuery
from engine.opener.workspace import Services
from engine.results.comparison.measured import Floats, Measured
from engine.results.report.document import Block, Columns, Paragraph, Plot, Table
from engine.trees.records import TreeItem

TO_READ = 8
BINS = 14
MOST_DOTS = 2_000
MOST_SOURCES = 12
LEAST_FOR_TENTH = 20
"""Conversations with trees below which a top tenth says nothing."""
PERCENTILE = 90.0
"""Conversations above it in leaves and in the negated best log-probability are named, as in C.2.2 of the paper."""


def tree_blocks(services: Services, wanted: Filter, found: Measured) -> Iterator[Block]:
    """How sure the model was, from the trees of the conversations in `found`, which match `wanted`."""
    known = found.part(~np.isnan(found.entropy))
    if not len(known.ids):
        yield Paragraph(
            "No response trees. `workbench run trees PROJECT` grows them, which takes a model minutes.",
            True,
        )
        return
    yield Paragraph(
        f"{counted(len(known.ids), 'conversation')} with a response tree: median"
        f" {np.median(known.leaves):.0f} leaves, mean entropy {known.entropy.mean():.2f} bits."
    )
    trees = [item for item in services.trees.items(ListQuery(wanted)) if item.row.reason is None]
    best = [item for item in trees if item.row.max_log_prob is not None]
    yield from _distributions(trees, best)
    yield _by_source(services, trees)
    if best:
        yield scatter(best)
        lengths = dict(zip(known.ids.tolist(), known.characters.tolist(), strict=True))
        yield from against_length(best, lengths)
    yield from _least_sure(services, known, best)


def _distributions(trees: Sequence[TreeItem], best: Sequence[TreeItem]) -> Iterator[Block]:
    leaves = [item.row.leaves for item in trees]
    whole = np.unique(np.linspace(min(leaves), max(leaves) + 1, BINS + 1).round())
    yield _histogram("number of leaves", leaves, whole, "{:.0f}")
    if best:
        values = [item.row.max_log_prob or 0.0 for item in best]
        edges = np.histogram_bin_edges(values, BINS)
        yield _histogram("log-probability of the best leaf", values, edges, "{:.1f}")


def _histogram(by: str, values: Sequence[float], edges: Floats, form: str) -> Columns:
    """Trees by a figure; each column is labelled with the lower end of its range."""
    counts, _ = np.histogram(values, edges)
    return Columns(
        f"Trees by the {by} (Figure 6 of Soroka et al.)",
        tuple((form.format(edge), int(count)) for edge, count in zip(edges, counts, strict=False)),
        of="trees",
    )


def _by_source(services: Services, trees: Sequence[TreeItem]) -> Table:
    """A row for each source, the most trees first: median, and quartiles in brackets."""
    ids = services.conversations.by_value("source")
    source_of = {key: source for source, keys in ids.items() for key in keys}
    places: dict[str, list[TreeItem]] = defaultdict(list)
    for item in trees:
        places[source_of[item.row.conversation_id]].append(item)
    listed = sorted(places.items(), key=lambda one: -len(one[1]))
    rows = [
        (
            one_line(source, 50),
            f"{len(items):,}",
            _quartiles([item.row.leaves for item in items], "{:.0f}"),
            _quartiles([item.row.max_log_prob for item in items], "{:.2f}"),
            _quartiles([item.row.covered for item in items], "{:.2f}"),
            _quartiles([(item.row.entropy_low + item.row.entropy_high) / 2 for item in items], "{:.2f}"),
        )
        for source, items in listed[:MOST_SOURCES]
    ]  # fmt: skip
    return Table(
        "Trees by source: median (quartiles)",
        ("source", "trees", "leaves", "best log-probability", "covered probability", "entropy in bits"),
        tuple(rows),
        frozenset((1, 2, 3, 4, 5)),
    )  # fmt: skip


def _quartiles(values: Sequence[float | None], form: str) -> str:
    known = [one for one in values if one is not None]
    if not known:
        return "–"
    low, middle, high = (form.format(one) for one in np.percentile(known, (25, 50, 75)))
    return f"{middle} ({low} to {high})"


def scatter(best: Sequence[TreeItem], of: str = "") -> Plot:
    """Figure 12 of trees that have a best leaf; `of` names the data set that they are of."""
    return _dots(
        "Leaves against the log-probability of the best leaf (Figure 12 of Soroka et al.)",
        of,
        "log-probability of the best leaf",
        "leaves",
        "unsure ones are at the upper left",
        [(item.row.max_log_prob or 0.0, float(item.row.leaves)) for item in best],
    )


def against_length(
    best: Sequence[TreeItem], lengths: Mapping[int, float], of: str = ""
) -> Iterator[Plot]:
    """Figure 13: both figures of trees that have a best leaf against the length of their conversation.

    Args:
        lengths: Characters of conversations by id.
        of: Name of the data set.
    """
    along = [float(lengths[item.row.conversation_id]) for item in best]
    for up, values in (
        ("leaves", [float(item.row.leaves) for item in best]),
        ("log-probability of the best leaf", [item.row.max_log_prob or 0.0 for item in best]),
    ):
        yield _dots(
            f"{up[0].upper()}{up[1:]} against the length of the conversation (Figure 13 of Soroka et al.)",
            of,
            "characters",
            up,
            "Table 3 has the correlation",
            list(zip(along, values, strict=True)),
        )


def _dots(
    title: str, of: str, across: str, up: str, seen: str, places: Sequence[tuple[float, float]]
) -> Plot:
    every = max(1, -(-len(places) // MOST_DOTS))
    dots = tuple(places[::every])
    shown = f"{counted(len(dots), 'tree')}" + (f", one in {every}" if every > 1 else "")
    return Plot(f"{of}: {title}" if of else title, across, up, f"{shown}; {seen}.", dots=dots)


def _least_sure(services: Services, known: Measured, best: Sequence[TreeItem]) -> Iterator[Block]:
    """The least sure conversations, and which of them are above both 90th percentiles."""
    several = len(known.ids) >= LEAST_FOR_TENTH and bool(best)
    log_probs: dict[int, float] = {}
    for item in best:
        key = item.row.conversation_id
        log_probs[key] = min(log_probs.get(key, 0.0), item.row.max_log_prob or 0.0)
    worst = np.array([-log_probs.get(int(key), np.nan) for key in known.ids])
    bounds = (np.inf, np.inf)
    if several:
        bounds = (
            float(np.percentile(known.leaves, PERCENTILE)),
            float(np.nanpercentile(worst, PERCENTILE)),
        )
    both = (known.leaves >= bounds[0]) & (worst >= bounds[1])
    order = np.lexsort((-known.entropy, ~both))[:TO_READ]
    rows = {row.id: row for row in services.conversations.rows(known.ids[order].tolist())}
    cells = []
    for at in order:
        key = int(known.ids[at])
        if key in rows:
            goal = int(known.goal[at])
            cells.append(
                (
                    rows[key].external_id,
                    f"{known.entropy[at]:.2f}",
                    f"{known.leaves[at]:.0f}",
                    "–" if np.isnan(worst[at]) else f"{-worst[at]:.2f}",
                    "yes" if both[at] else "",
                    rows[key].state,
                    one_line(known.goals[goal], 60) if goal >= 0 else "",
                    one_line(rows[key].opening, 90),
                )
            )
    yield Table(
        "The conversations in which the model was least sure",
        ("conversation", "entropy in bits", "leaves", "best log-probability", "top tenth of both",
         "state", "goal", "begins with"),
        tuple(cells),
        frozenset((1, 2, 3)),
    )  # fmt: skip
    if not several:
        return
    yield Paragraph(
        f"{counted(int(both.sum()), 'conversation')} in the top tenth of both, as in C.2.2 of Soroka et al.: at least"
        f" {bounds[0]:.0f} leaves, and a best log-probability of {-bounds[1]:.2f} or less."
    )
