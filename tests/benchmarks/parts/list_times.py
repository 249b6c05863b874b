"""Measures the list of one project: `python -m tests.benchmarks.parts.list_times PROJECT` prints JSON.

It has its own process, so that the measured memory is that of the queries of a screen alone.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.opener.open_project import hand_in_field_queries
from engine.project.project import Project
from tests.benchmarks.parts.list_project import COMMON_WORD, RARE_WORD, SOURCES, TAG

SCREEN, PAGE, PAGES = 60, 200, 100
FILTERS = (
    *("state:incomplete", "state:unscored", "turns>5", "p<.3", f"source:{SOURCES[1]}"),
    *("date>=2025-06", "date:2024-03,2025-03", "succeeded:none", f"tag:{TAG}", "name:77"),
    *("length:100..500", "-state:complete turns>3 p>.2 date:2024 succeeded:none"),
)
SEARCHES = {
    "rare": RARE_WORD,
    "rare phrase": f'"{RARE_WORD}"',
    "common": COMMON_WORD,
    "one letter": "z",
    "every conversation": "case",
}


def measure(path: Path) -> dict[str, Any]:
    """Times what screens ask of the store, as they ask it; milliseconds.

    Returns:
        `open_ms`, `page_ms_p95` over pages at random places in import order and in order of the score, the
        dictionaries `sort`, `filter`, `search` and `counts` with a time for each kind, and `rss_mb`, the most memory
        that the process ever had, in 10^6 bytes.
    """
    hand_in_field_queries()
    began = time.perf_counter()
    with Project.open(path) as project:
        store = ConversationService(project)
        ids = store.ids(ListQuery())
        store.rows(ids[:SCREEN])
        found: dict[str, Any] = {"open_ms": 1000 * (time.perf_counter() - began)}

        rng = random.Random(1)
        pages = []
        for order in (ids, store.ids(ListQuery(sort="p"))):
            for _ in range(PAGES // 2):
                at = rng.randrange(max(1, len(order) - PAGE))
                pages.append(_ms(lambda: store.rows(order[at : at + PAGE])))  # noqa: B023 - called now
        found["page_ms_p95"] = statistics.quantiles(pages, n=20)[-1]

        def listing(query: ListQuery) -> float:
            return _ms(lambda: store.ids(query))

        found["sort"] = {
            f"{key} {'down' if down else 'up'}": listing(ListQuery(sort=key, descending=down))
            for key in get_args(SortKey)
            for down in (False, True)
        }
        found["filter"] = {text: listing(ListQuery(parse_filter(text))) for text in FILTERS}
        found["search"] = {
            kind: listing(ListQuery(parse_filter(text))) for kind, text in SEARCHES.items()
        }
        some = ListQuery(parse_filter("state:incomplete"))
        found["counts"] = {
            "project": _ms(store.counts),
            "filter": _ms(lambda: store.counts(some)),
            "histogram": _ms(lambda: store.histogram(None, 20)),
            "histogram of filter": _ms(lambda: store.histogram(some, 20)),
            "tags": _ms(store.tags),
            "dates": _ms(store.dates),
        }
    found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return found


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
