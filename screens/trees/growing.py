"""Asks how a tree is to grow further, or with what a second one is to be grown, and starts the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.base.text import one_line
from engine.trees.records import (
    OpenTree,
    TreeConfig,
    TreeRequest,
)
from screens.shell.dialogs import TextDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.trees.comparison_dialog import ComparisonDialog
from screens.trees.growth_line import GrowthLine
from screens.trees.layout import Segment
from screens.trees.run_form import alpha_from

LOWER = 4.0
"""The lower alpha that is proposed for growing further is the present one divided by this."""


class TreeGrower:
    """Starts the jobs that grow the trees of a screen, one at a time; its `GrowthLine` follows them."""

    def __init__(self, screen: WorkbenchScreen[Any]) -> None:
        self._screen = screen
        self._trees = screen.services.trees
        self._alphas: dict[tuple[str, int, int], float] = {}
        """The alphas to which nodes were grown, by configuration, step and node."""
        self._configs_before: frozenset[str] | None = None
        """The configurations that had a tree here before one was grown for a comparison."""

    def grow_below(self, opened: OpenTree, segment: Segment) -> None:
        """Asks for a lower alpha and grows on below a segment."""
        if not self._may_grow():
            return
        row, node = opened.item.row, segment.nodes[0]
        key = (row.config_hash, row.step, node)
        now = self._alphas.get(key, row.alpha)

        def chosen(text: str | None) -> None:
            if text is None:
                return
            alpha = alpha_from(text, row.alpha)
            if alpha is None:
                self._notify(f"Alpha is above 0 and at most {row.alpha:g}.")
                return
            self._alphas[key] = alpha
            self._start(lambda: self._trees.grow_on(opened.item, node, alpha))

        title = f"Grow on below “{one_line(segment.text, 30)}” to alpha"
        self._screen.app.push_screen(TextDialog(title, value=f"{now / LOWER:.4g}"), chosen)

    def grow_unread(self, opened: OpenTree) -> None:
        """Grows on the nodes that were not read because a budget was used up or a job was stopped."""
        if not self._may_grow():
            return
        if not opened.item.row.unexpanded:
            self._notify("Everything above alpha has been read; g lowers alpha here.")
            return
        self._start(lambda: self._trees.grow_on(opened.item, None, None))

    def grow_another(self, place: tuple[int, int], opened: OpenTree) -> None:
        """Asks with which model, adapter and alpha to grow a second tree at a place, and shows the cost first."""
        if not self._may_grow():
            return
        trees, item = self._trees, opened.item

        def chosen(request: TreeRequest | None) -> None:
            if request is None:
                return

            def start() -> int:
                self._configs_before = frozenset(c.config_hash for c in trees.configs(place))
                return trees.start(request)

            self._start(start, "trees", "nothing is kept of a tree that is not whole")

        self._screen.app.push_screen(ComparisonDialog(trees, item), chosen)

    def show_grown(self, place: tuple[int, int], show: Callable[[str], None]) -> None:
        """After a job: shows the tree that was grown for a comparison, if it was for one.

        Args:
            show: Gets the configuration of the tree.
        """
        known, self._configs_before = self._configs_before, None
        if known is None:
            return

        def arrived(found: list[TreeConfig]) -> None:
            for config in found:
                if config.config_hash not in known:
                    show(config.config_hash)

        self._screen.in_background(
            lambda: self._trees.configs(place), arrived, group="configurations"
        )

    def _may_grow(self) -> bool:
        growing = self._screen.query_one(GrowthLine).is_growing
        if growing:
            self._notify("A tree is growing; escape stops it.")
        return not growing and self._screen.may_write()

    def _start(
        self, start: Callable[[], int], last: str = "grow", kept: str = "what has grown is kept"
    ) -> None:
        line = self._screen.query_one(GrowthLine)
        self._screen.in_background(start, lambda job: line.follow(job, last, kept), group="grow")

    def _notify(self, text: str) -> None:
        self._screen.notify(text, markup=False)
