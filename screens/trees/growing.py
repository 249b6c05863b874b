"""Grows a tree further or a second one beside it: the dialogs, the jobs and the line with their progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.events import Event, JobEnded, JobProgress, JobStarted
from engine.base.text import display_safe, one_line
from engine.opener.jobs import JobService
from engine.project.records import Estimate
from engine.trees.records import OpenTree, TreeConfig, TreeItem, TreeRequest
from engine.trees.service import TreeService
from screens.shell.dialogs import Dialog, TextDialog, hint_line
from screens.shell.run_form import refusal_content
from screens.shell.workbench_screen import WorkbenchScreen
from screens.trees.layout import Segment
from screens.trees.run_form import estimate_content
from screens.widgets.background import background
from screens.widgets.controls import Choices, LineInput
from screens.widgets.jobs import EngineFeed

ALPHA_DIVISOR = 4.0
"""The dialog for growing on proposes the present alpha divided by this."""


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
        current_alpha = self._alphas.get(key, row.alpha)

        def chosen(text: str | None) -> None:
            if text is None:
                return
            alpha = parse_alpha(text, row.alpha)
            if alpha is None:
                self._notify(f"Alpha is above 0 and at most {row.alpha:g}.")
                return
            self._alphas[key] = alpha
            self._start(lambda: self._trees.grow_on(opened.item, node, alpha))

        title = f"Grow on below “{one_line(segment.text, 30)}” to alpha"
        self._screen.app.push_screen(
            TextDialog(title, value=f"{current_alpha / ALPHA_DIVISOR:.4g}"), chosen
        )

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
        configs_before, self._configs_before = self._configs_before, None
        if configs_before is None:
            return

        def arrived(configs: list[TreeConfig]) -> None:
            for config in configs:
                if config.config_hash not in configs_before:
                    show(config.config_hash)

        self._screen.in_background(
            lambda: self._trees.configs(place), arrived, group="configurations"
        )

    def _may_grow(self) -> bool:
        """Returns whether a tree may grow now; says why not."""
        growing = self._screen.query_one(GrowthLine).is_growing
        if growing:
            self._notify("A tree is growing; escape stops it.")
        return not growing and self._screen.may_write()

    def _start(
        self, start: Callable[[], int], last: str = "grow", kept: str = "what has grown is kept"
    ) -> None:
        """Starts a job and shows its progress. `last` is the name of its last stage, `kept` what stays when it is
        stopped."""
        line = self._screen.query_one(GrowthLine)
        self._screen.in_background(start, lambda job: line.follow(job, last, kept), group="grow")

    def _notify(self, text: str) -> None:
        """Shows a message whose text is taken literally."""
        self._screen.notify(text, markup=False)


class ComparisonDialog(Dialog[TreeRequest | None]):
    """Asks for model, adapter and alpha, and shows the cost before anything starts."""

    PLACE = "beside"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("enter", "start", "Start", priority=True),
    ]

    def __init__(self, trees: TreeService, item: TreeItem) -> None:
        super().__init__()
        self._trees, self._item = trees, item
        self._models: Sequence[str] = ()
        self._ready: TreeRequest | None = None
        """The request as it is entered, once its cost is known and there is something to grow."""

    def compose(self) -> ComposeResult:
        """Yields the models, adapter, alpha, estimate, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Grow a tree to compare with"
            which = one_line(self._item.name, 50)
            yield Static(
                Content.assemble(
                    "of ", (which, "bold"), ("; model, adapter and alpha", "$tone-muted")
                )
            )
            yield Choices(markup=False)
            yield LineInput(placeholder="adapter: a GGUF file; empty for none", id="adapter")
            yield LineInput(f"{self._item.row.alpha:g}", placeholder="alpha", id="alpha")
            yield Static(id="estimate")
            keys = (("tab", "the next line"), ("enter", "starts"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Asks which models there are."""
        background(
            self,
            self._trees.models,
            self._show_models,
            lambda error: self._show_estimate(refusal_content(error)),
            group="models",
        )

    def _show_models(self, models: Sequence[str]) -> None:
        self._models = models
        choices = self.query_one(Choices)
        choices.add_options([Option(Content(display_safe(name))) for name in models])
        choices.highlighted = 0
        choices.focus()

    def on_input_changed(self) -> None:
        """Estimates again: another adapter or alpha is another tree."""
        self._estimate()

    def on_option_list_option_highlighted(self) -> None:
        """Estimates again: another model is another tree."""
        self._estimate()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        """A click chooses the model; enter is taken before the list sees it."""
        event.stop()

    def _estimate(self) -> None:
        """Estimates the cost of the request that is entered, and shows it."""
        self._ready = None
        alpha = parse_alpha(self.query_one("#alpha", Input).value)
        if alpha is None or not self._models:
            self._show_estimate(
                Content.styled("Alpha is above 0 and at most 1.", "$tone-incomplete")
            )
            return
        model = self._models[self.query_one(Choices).highlighted or 0]
        adapter = self.query_one("#adapter", Input).value.strip() or None
        self._show_estimate(Content.styled("estimating …", "$tone-muted"))

        def estimated() -> tuple[TreeRequest, Estimate]:
            request = self._trees.request_like(self._item, alpha, model, adapter)
            return request, self._trees.estimate(request)

        def arrived(estimated_request: tuple[TreeRequest, Estimate]) -> None:
            request, estimate = estimated_request
            self._ready = request if estimate.items else None
            self._show_estimate(estimate_content(estimate))

        background(
            self,
            estimated,
            arrived,
            lambda error: self._show_estimate(refusal_content(error)),
            group="estimate",
        )

    def _show_estimate(self, content: Content) -> None:
        """Shows a text in place of the estimate."""
        self.query_one("#estimate", Static).update(content)

    def action_start(self) -> None:
        """Closes with the request, once its cost is known."""
        if self._ready is not None:
            self.dismiss(self._ready)


class GrowthLine(Static):
    """Shows the progress of one job and the key that stops it; hidden while there is no job."""

    DEFAULT_CSS = """
    GrowthLine { display: none; height: 1; padding: 0 1; }
    GrowthLine.-growing { display: block; }
    """

    class Ended(Message):
        """The job has ended, or had ended before it could be followed."""

    def __init__(self, jobs: JobService, feed: EngineFeed) -> None:
        super().__init__()
        self._jobs, self._feed = jobs, feed
        self._job: int | None = None
        self._last, self._kept = "", ""
        self._awaits_last = False
        """Whether an earlier stage of the run has ended and the last one has not begun."""

    def on_mount(self) -> None:
        """Listens to the engine."""
        self._feed.signal.subscribe(self, self._handle_event)

    @property
    def is_growing(self) -> bool:
        """Whether a job is followed."""
        return self._job is not None

    def follow(self, job: int, last: str, kept: str) -> None:
        """Follows a job that was started.

        Args:
            last: Its last stage; others, such as tuning, may come before it.
            kept: What stays when it is stopped.
        """
        self._last, self._kept, self._awaits_last = last, kept, False
        if job in [active.job_id for active in self._jobs.active()]:
            self._job = job
            self._show_progress("waiting for the model")
        else:  # the job ended before its id was returned
            self.post_message(self.Ended())

    def stop(self) -> None:
        """Asks the job to stop."""
        if self._job is not None:
            self._jobs.cancel(self._job)

    def _handle_event(self, event: Event) -> None:
        """Follows the run through its stages, each of which has a job id of its own."""
        if self._awaits_last and isinstance(event, JobStarted) and event.stage == self._last:
            self._job, self._awaits_last = event.job_id, False
        if self._job is None or getattr(event, "job_id", None) != self._job:
            return
        if isinstance(event, JobProgress):
            parts = [one_line(event.note, 40)] if event.note else []
            if event.unit == "nodes":
                parts.insert(0, f"{number_format.counted(event.done, 'node')} read")
                if event.rate:
                    parts.insert(1, f"{event.rate:,.0f} nodes/s")
            self._show_progress(" · ".join(parts))
        elif isinstance(event, JobEnded) and event.stage != self._last and event.outcome == "done":
            self._awaits_last = True
        elif isinstance(event, JobEnded):
            self._job = None
            self.remove_class("-growing")
            self.post_message(self.Ended())

    def _show_progress(self, words: str) -> None:
        """Shows these words and the key that stops the job."""
        self.add_class("-growing")
        self.update(
            Content.assemble(
                ("▸ growing ", "bold $tone-accent"),
                words,
                ("   esc", "bold $tone-accent"),
                (f" stops it; {self._kept}", "$tone-muted"),
            )
        )


def parse_alpha(text: str, maximum: float = 1.0) -> float | None:
    """Returns the alpha that a text says; None if the text is not a number above 0 and at most `maximum`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= maximum else None
