"""The goals screen: what users wanted, as groups of conversations. Groups are clusters after all merge decisions.

A theme is several groups that belong together. It stands in the list as a row of its own, with the sums of its groups;
the rows of its groups can be folded away below it. The pane beside the list shows the row under the cursor in detail.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base.text import display_safe
from engine.conversations.filters import Filter, ListQuery, Term
from engine.goals.clustering_request import ClusteringRequest
from engine.goals.records import (
    ClusteringSummary,
    GoalDecision,
    GoalGroup,
    GroupExamples,
    Proposal,
    themes_of,
)
from engine.goals.service.groups import GoalService
from engine.opener.open_project import OpenProject
from engine.results.associations.records import Split
from screens.goals.drift_screen import GoalDriftScreen
from screens.goals.formatting import clustering_line, group_columns, is_theme, summary_content
from screens.goals.members_screen import GoalMembersScreen
from screens.goals.run_form import GoalRunForm
from screens.shell.dialogs import ChoiceDialog, ask, ask_column
from screens.shell.goal_dialogs import (
    DecisionScreen,
    GroupPicker,
    MergeDialog,
    ask_label,
    split_group,
)
from screens.widgets.controls import titled
from screens.widgets.empty_state import CLUSTER
from screens.widgets.filter_line import FilterLine
from screens.widgets.groups import (
    LONG_LABEL_LIMIT,
    SHORT_LABEL_LIMIT,
    UNSTABLE,
    UNSTABLE_SIGN,
    decision_text,
    distinct,
    goal_value,
    group_line,
    label_of,
    member_lines,
)
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import Column, ItemTable, RowTable


class GoalsScreen(DecisionScreen):
    """Lists the groups with size, share, completeness and stability; enter opens the members."""

    MODE = "goals"
    PLACE = "goals"
    FIRST_KEYS = ("table.open", "goals.judge", "goals.run-clustering")
    AUTO_FOCUS = "#groups"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run_clustering", "Cluster", tooltip="Cluster; says first how long it takes"),
        Binding("f", "edit_filter", "Filter", tooltip="Count only conversations that match a filter"),
        Binding("s", "sort", "Sort", tooltip="Sort by a column"),
        Binding("m", "merge", "Merge", tooltip="Merge this group with another"),
        Binding("e", "rename", "Label", tooltip="Edit the label", show=False),
        Binding("p", "pin", "Pin", tooltip="Pin or unpin: a pinned group is not proposed", show=False),
        Binding("t", "theme", "Theme", tooltip="Put this goal under another theme"),
        Binding("plus", "fold(False)", "Unfold", key_display="+", tooltip="Show its goals", show=False),
        Binding("minus", "fold(True)", "Fold", key_display="-", tooltip="Show themes only", show=False),
        Binding("D", "split", "Divide", tooltip="Split by k-means, after a preview", show=False),
        Binding("u", "undo", "Undo", show=False),
        Binding("v", "view", "Detail", tooltip="List or detail, on a narrow terminal"),
        Binding("d", "drift", "Drift", tooltip="How shares changed over time"),
        Binding("J", "judge", "Judge", tooltip="Triage of just this goal's conversations"),
        Binding("O", "outliers", "Outliers", tooltip="Conversations in no group", show=False),
        Binding("c", "clustering", "Set", tooltip="Open another clustering: goals, or reasons", show=False),
        Binding("escape", "leave", "Back", tooltip="Leave the filter", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.review, self.goals = services.merge_review, services.merge_review.goals
        self.goal_runs, self.runner = services.goal_stages(), services.runner
        self.clustering: ClusteringSummary | None = None
        self.groups: Sequence[GoalGroup] = ()
        self.filter = Filter()
        self._other_titles: list[str] = []  # titles of the clusterings that are not shown
        self._folded: set[str] = set()  # ids of the themes whose goals are not listed
        self._scores_name = ""  # name of the scores in force
        self._rows: Sequence[GoalGroup] = ()  # the groups, and the themes as rows of their own
        self.table = ItemTable(
            self._columns("goal"),
            lambda group: group.id,
            sort=("size", True),
            id="groups",
        )

    def compose_body(self) -> ComposeResult:
        """Yields the summary, the list, the detail; or how to make a first clustering."""
        yield Static(id="summary")
        yield FilterLine(id="filter")
        with Horizontal(id="main"):
            yield self.table
            yield DetailPane(id="detail", classes="section")
        yield Static(classes="empty")

    # Reading

    def refresh_data(self) -> None:
        """Reads the groups that the filter leaves, and which clusterings there are."""
        goals, filter, score_sets = self.goals, self.filter, self.services.score_sets

        def read() -> tuple[ClusteringSummary | None, list[str], list[GoalGroup], str]:
            shown = goals.shown()
            titles = dict.fromkeys(row.clustering.title for row in goals.clusterings())
            other_titles = [title for title in titles if shown and title != shown.clustering.title]
            groups = [] if shown is None else goals.groups(filter)
            return shown, other_titles, groups, score_sets.name_in_force()

        self.in_background(
            read,
            lambda parts: self._show(*parts),
            group="goals",
            on_error=self.query_one(FilterLine).complain if filter else None,
        )

    def _columns(self, noun: str) -> list[Column[GoalGroup]]:
        """Returns the columns of the list; `noun` is what a group is."""
        return group_columns(
            lambda: max((row.share for row in self._rows), default=0.0),
            self._folded,
            noun,
            self._rows,
        )

    def _show(
        self,
        shown: ClusteringSummary | None,
        other_titles: list[str],
        groups: list[GoalGroup],
        scores: str,
    ) -> None:
        """Shows the groups, or what makes a first clustering."""
        self._scores_name, self._other_titles = scores, other_titles
        self.query_one(FilterLine).complain(None)
        self.clustering, self.groups = shown, groups
        themes = [theme.as_group for theme in themes_of(groups) if not theme.single]
        self._rows = [*groups, *themes]
        self.set_class(shown is None, "-empty")
        if shown is None:
            self.show_empty(CLUSTER)
            self.query_one("#summary", Static).update("")
            return
        self.table.show_columns(self._columns(shown.clustering.noun))
        self.show_order()
        if self.focused is None:  # the list was hidden while it was empty
            self.table.focus()

    def show_order(self) -> None:
        """Lists themes and groups in the chosen order, the groups of a theme below it, and shows their summary."""
        themes = {theme.as_group.id: theme for theme in themes_of(self.groups)}
        listed: list[GoalGroup] = []
        for row in self.table.ordered(theme.as_group for theme in themes.values()):
            listed.append(row)
            theme = themes[row.id]
            if not theme.single and row.id not in self._folded:
                listed += self.table.ordered(theme.goals)
        self.table.show_items(listed)
        if self.clustering is not None:
            key = self._key_of("goals.clustering")
            others = [f"{title} ({key})" for title in self._other_titles]
            summary = summary_content(
                self.clustering, self.groups, other_titles=others, filtered=bool(self.filter)
            )
            if self._scores_name:
                summary = Content.assemble(
                    summary, (f" · scores: {self._scores_name}", "$tone-muted")
                )
            self.query_one("#summary", Static).update(summary)
        self._read_detail()

    @property
    def row(self) -> GoalGroup | None:
        """The group under the cursor, or the theme with its figures."""
        return self.table.cursor_item

    @property
    def group(self) -> GoalGroup | None:
        """The group under the cursor; None on a theme."""
        return None if self.row is None or is_theme(self.row) else self.row

    def _is_clustered(self) -> bool:
        """Returns whether there is a clustering; notifies how to make one where there is none."""
        if self.has_class("-empty"):
            key = self._key_of("goals.run-clustering")
            self.notify(f"No clustering was made yet; {key} makes one.", markup=False)
        return self.clustering is not None

    def _selected_group(self) -> GoalGroup | None:
        """Returns the group under the cursor; notifies what to do on a theme, and without a clustering."""
        if not self._is_clustered():
            return None
        if self.row is not None and self.group is None:
            self.notify("This is a theme: choose one of its goals.", markup=False)
        return self.group

    # Detail

    def on_row_table_highlighted(self) -> None:
        """Shows the row under the cursor in detail."""
        self._read_detail()

    def _read_detail(self) -> None:
        """Shows the row under the cursor in the pane."""
        row, goals, groups = self.row, self.goals, self.groups
        if row is not None:
            self.in_background(
                lambda: read_detail(goals, row, groups),
                self.query_one(DetailPane).show,
                group="detail",
            )

    # Views

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the members of a group, under a filter those that match; it folds or unfolds a theme."""
        if self.group is None:
            if self.row is not None:
                self.action_fold(self.row.id not in self._folded)
            return
        if self.filter:
            self.open_conversations(self._filter_of(self.group))
        else:
            self._open_members(self.group.id)

    def action_fold(self, fold: bool) -> None:
        """Folds or unfolds the theme under the cursor, or all themes where the group under it is in none."""
        row = self.row
        if row is None:
            return
        themes = {theme.as_group.id for theme in themes_of(self.groups) if not theme.single}
        if row.theme:
            themes = {f"theme:{row.theme}"}
        if fold:
            self._folded |= themes
        else:
            self._folded -= themes
        self.show_order()
        if row.theme:
            self.table.move_to_key(f"theme:{row.theme}")

    def _filter_of(self, group: GoalGroup) -> Filter:
        """Returns the filter of the conversations of a group or theme that the filter in force matches."""
        value = group.theme if is_theme(group) else goal_value(group, self.groups)
        field = "goal" if self.clustering is None else self.clustering.clustering.noun
        field = "theme" if is_theme(group) else field
        return Filter((*self.filter.terms, Term(field, ":", (value,))))

    def sides(self) -> Split | None:
        """Returns the conversations of the row under the cursor and all others, of those that the filter matches."""
        if self.row is None:
            return super().sides()
        filter = self._filter_of(self.row)
        *terms, goal = filter.terms
        return Split(filter, Filter((*terms, replace(goal, negated=True))))

    def _open_members(self, group_id: str | None) -> None:
        """Opens the members of a group; None opens the conversations in no group."""
        self.app.push_screen(GoalMembersScreen(self.services, self.feed, group_id, self.MODE))

    def action_judge(self) -> None:
        """Goes to triage of the members of the group under the cursor."""
        group, conversations = self.row, self.services.conversations
        if not self._is_clustered() or group is None:
            return
        name = f"“{label_of(group, SHORT_LABEL_LIMIT)}” {self.filter}".rstrip()
        query = ListQuery(self._filter_of(group))

        def start_triage(ids: array[int]) -> None:
            self.triage_only(name, ids)

        self.in_background(lambda: conversations.ids(query), start_triage, group="judge")

    def action_outliers(self) -> None:
        """Opens the conversations that are in no group."""
        if self._is_clustered():
            self._open_members(None)

    def action_sort(self) -> None:
        """Asks for the order."""
        ask_column(self, self.table, self.show_order)

    def on_row_table_header_pressed(self, message: RowTable.HeaderPressed) -> None:
        """Sorts by the column whose title is clicked; a second click on it reverses the order."""
        self.table.sort_by(message.key)
        self.show_order()

    def action_view(self) -> None:
        """Changes between list and detail on a terminal too narrow for both."""
        self.toggle_class("-detail")

    def action_drift(self) -> None:
        """Opens the drift of the shares."""
        if self._is_clustered():
            self.app.push_screen(GoalDriftScreen(self.services, self.feed, self.MODE))

    def action_clustering(self) -> None:
        """Asks which clustering is shown."""

        def show_clustering(clustering_id: int) -> None:
            if self.may_write():
                self.write(lambda: self.goals.show(clustering_id))

        def ask_which(rows: list[ClusteringSummary]) -> None:
            shown_id = self.clustering.clustering.id if self.clustering is not None else None
            choices = [(row.clustering.id, clustering_line(row)) for row in rows]
            ask(self, ChoiceDialog("Clustering", choices, shown_id), show_clustering)

        if self._is_clustered():
            self.in_background(self.goals.clusterings, ask_which, group="clusterings")

    def action_leave(self) -> None:
        """Leaves the filter."""
        if self.filter:
            self.filter_by(Filter())

    # Filter

    def filter_by(self, filter: Filter) -> None:
        """Counts only conversations that match a filter."""
        self.query_one(FilterLine).put(filter)
        self._apply_filter(filter)

    def _apply_filter(self, filter: Filter) -> None:
        """Reads the groups again if the filter is another."""
        if filter != self.filter:
            self.filter = filter
            self.refresh_data()

    def on_filter_line_applied(self, message: FilterLine.Applied) -> None:
        """Counts only conversations that match the filter that was typed."""
        self._apply_filter(message.filter)

    # Decisions

    def action_rename(self) -> None:
        """Edits the label of the group or theme under the cursor."""
        group = self.row
        if not self._is_clustered() or group is None or not self.may_write():
            return

        def rename(label: str) -> None:
            if is_theme(group):
                self.write(lambda: self.review.place(group.made_of, label))
            else:
                self.write(lambda: self.review.rename(group.id, label))

        ask_label(self, group, rename)

    def action_theme(self) -> None:
        """Asks for the theme of the group under the cursor: a theme, none, or a new one with a group in none."""
        group = self._selected_group()
        if group is None or not self.may_write():
            return
        rows = [theme.as_group for theme in themes_of(self.groups)]
        others = [row for row in rows if row.id != group.id and row.theme != (group.theme or None)]

        def place_group(row_id: str) -> None:
            """Puts the group under a theme, or under a new one together with another group; an empty id is no theme."""
            other = next((row for row in others if row.id == row_id), None)
            placed = [group.id] if other is None or is_theme(other) else [group.id, other.id]
            theme = "" if other is None else other.label
            self.write(lambda: self.review.place(placed, theme), self._notify_decision)

        title = f"Put “{label_of(group, SHORT_LABEL_LIMIT)}” under"
        ask(self, GroupPicker(title, others, "no theme" if group.theme else ""), place_group)

    def action_pin(self) -> None:
        """Pins the group under the cursor, or unpins it."""
        group = self._selected_group()
        if group is None or not self.may_write():
            return
        self.write(lambda: self.review.pin(group.id, on=not group.pinned))

    def action_split(self) -> None:
        """Splits the group under the cursor, after a preview of the parts."""
        group = self._selected_group()
        if group is not None and self.may_write():
            split_group(self, self.review, group, self.write)

    def action_merge(self) -> None:
        """Asks for a second group, shows the evidence, and merges the two."""
        group = self._selected_group()
        if group is None or not self.may_write():
            return

        def read_pair(other_id: str) -> None:
            self.in_background(
                lambda: self.review.pair(group.id, other_id), ask_label_of_both, group="pair"
            )

        def ask_label_of_both(proposal: Proposal) -> None:
            ask(self, MergeDialog(proposal), partial(merge, proposal))

        def merge(proposal: Proposal, label: str) -> None:
            self.write(lambda: self.review.merge(proposal, label), self._notify_decision)

        others = [other for other in self.groups if other.id != group.id]
        title = f"Merge “{label_of(group, SHORT_LABEL_LIMIT)}” with"
        ask(self, GroupPicker(title, others), read_pair)

    def _notify_decision(self, decision: GoalDecision) -> None:
        """Notifies what was decided."""
        self.notify(f"Done: {decision_text(decision)}.", markup=False)

    # Jobs

    def action_run_clustering(self) -> None:
        """Opens the form of a clustering run, and starts the run."""
        if not self.may_write():
            return

        def start_run(request: ClusteringRequest) -> None:
            self._start(lambda: self.runner.start(self.goal_runs.cluster_stages(request)))

        def open_form(result: tuple[list[str], bool]) -> None:
            questions, paper = result
            form = GoalRunForm(self.goal_runs.estimate, self.clustering, questions, paper=paper)
            ask(self, form, start_run)

        self.in_background(
            lambda: (self.services.questions.answered(), self.goal_runs.proposes_paper()),
            open_form,
            group="form",
        )


SHOWN_MEMBERS = 5
"""Members of each kind, central and doubtful, that are shown."""
READ_MEMBERS = 15
"""Members of each kind that are read: more than are shown, since members with the same text are shown once."""
MAX_DESCRIPTION_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """What the pane shows of a group or theme.

    Attributes:
        group: The group.
        examples: Its most central and its most doubtful members.
        parts: The groups that a merge or split made it from, or the groups of a theme.
    """

    group: GoalGroup
    examples: GroupExamples
    parts: tuple[GoalGroup, ...]


def read_detail(goals: GoalService, group: GoalGroup, listed: Sequence[GoalGroup]) -> GroupDetail:
    """Reads what the pane shows of a group or theme; not quick.

    Args:
        listed: The groups of the list, where those of a theme are taken from with their counts: under a filter, these
            are of the conversations that match.
    """
    if is_theme(group):
        parts = tuple(goal for goal in listed if goal.id in group.made_of)
        return GroupDetail(group, GroupExamples((), ()), parts)
    parts = tuple(part for key in group.made_of if (part := goals.group(key)) is not None)
    return GroupDetail(group, goals.examples(group.id, READ_MEMBERS), parts)


class DetailPane(VerticalScroll):
    """Shows a group or theme in detail; another one is shown from its first line."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._detail: GroupDetail | None = None

    def compose(self) -> ComposeResult:
        """Yields one text."""
        yield Static(id="about")

    def show(self, detail: GroupDetail) -> None:
        """Shows a group; the same group again keeps the scroll position."""
        is_same = self._detail is not None and self._detail.group.id == detail.group.id
        self._detail = detail
        titled(self, label_of(detail.group, LONG_LABEL_LIMIT))
        self._break_lines()
        if not is_same:
            self.scroll_home(animate=False)

    def on_resize(self) -> None:
        """Breaks the lines for the new width; also called when the pane is shown for the first time."""
        self.call_after_refresh(self._break_lines)

    def _break_lines(self) -> None:
        """Breaks the lines for the present width."""
        if self._detail is not None:
            width = max(20, self.scrollable_content_region.width)
            self.query_one("#about", Static).update(detail_content(self._detail, width))


def detail_content(detail: GroupDetail, width: int) -> Content:
    """Returns the figures of a group, its description, its parts and its members, in lines of at most `width` cells."""
    group = detail.group
    lines = [group_line(group)]
    if group.description.strip() and not is_theme(group):
        text = display_safe(" ".join(group.description[:MAX_DESCRIPTION_CHARACTERS].split()))
        lines.append(Content.styled(text, "$tone-model"))
    if group.support is not None:
        member_count = round(group.support * group.members_read)
        text = f"the words of its name are in {member_count:,} of {group.members_read:,}"
        lines.append(Content.styled(text, "$tone-muted"))
    if group.stability is not None and group.stability < UNSTABLE:
        text = f"{UNSTABLE_SIGN} not stable under resampling: decide on it last, or split it"
        lines.append(Content.styled(text, "$tone-borderline"))
    if detail.parts:
        lines.append(Content.styled("goals" if is_theme(group) else "made of", "bold"))
        lines += [
            Content.assemble((f"{part.size:>7,}  ", "$tone-muted"), (label_of(part), ""))
            for part in detail.parts
        ]
    central = distinct(detail.examples.central)[:SHOWN_MEMBERS]
    central_ids = {example.member.conversation_id for example in central}
    doubtful = [
        example
        for example in distinct(detail.examples.doubtful)
        if example.member.conversation_id not in central_ids
    ]
    for name, members in (("central", central), ("doubtful", doubtful[:SHOWN_MEMBERS])):
        if members:
            lines.append(Content.styled(name, "bold"))
        for member, copies in members:
            lines += member_lines(member, width, doubtful=name == "doubtful", copies=copies)
    return Content("\n").join(lines)
