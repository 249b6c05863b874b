"""An open project for Python programs: each method is one action of a service; filters are those of the screens."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

from engine.base.conversation import Verdict
from engine.base.errors import NotFound, UsageError, WorkbenchError
from engine.base.events import Event, JobProgress, Listener
from engine.completeness.records import Mode, ScoreSet
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.sets import in_force
from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery
from engine.conversations.records import ImportRequest
from engine.conversations.selection import check_limit
from engine.goals.clustering_request import ClusteringRequest
from engine.goals.records import DEFAULT_TEXT, Decide, GoalDecision, GoalGroup, GoalText, Proposal
from engine.jobs.contract import Stage
from engine.opener.exports import ExportKind, export_lines
from engine.opener.jobs import import_stages
from engine.opener.open_project import OpenProject
from engine.opener.table_export import table_lines
from engine.questions.question import YES
from engine.questions.records import AnswerRow, NewAnswer
from engine.questions.service.asking import AskRequest
from engine.questions.service.questions import GivenAnswer
from engine.trees.records import TreeRequest
from workbench.arguments import read_filter

if TYPE_CHECKING:
    import pandas

Line = dict[str, Any]
"""One line of an export, with the keys that `workbench export` writes."""

OnProgress = Callable[[JobProgress], None]
"""Called with the progress of the work."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did.

    Attributes:
        new: Number of new conversations; `grew`, `changed`, `duplicate` and `unchanged` count the other ones.
        quarantined: Number of records that could not be read.
        leaks: Number of things that give an ending away and are kept from models.
        warnings: Labels of sources of whose text more than 2% was read nowhere, or whose metadata look as if they were
            the conversations; `workbench import` says what.
    """

    new: int
    grew: int
    changed: int
    duplicate: int
    unchanged: int
    quarantined: int
    leaks: int
    warnings: tuple[str, ...]


class Project:
    """An open project. Close it, or use it as a context manager.

    It takes the same lock as a workbench. The first one writes; a later one is `read_only`, and what would write raises
    ProjectReadOnly. Where another program moved or changed the file, what would write raises ProjectMoved. A process
    that is forked cannot use the project of its parent.

    Every `filter` is a line of the filter language, such as `state:broken-off turns>5 "refund"`; an empty one matches
    all. Every `limit` takes only that many of the conversations that match; None takes all.
    """

    def __init__(self, path: str | Path, *, create: bool = False, read_only: bool = False) -> None:
        """Opens the project; see `open`."""
        self._workspace = OpenProject(
            Path(os.path.expanduser(path)), create=create, read_only=read_only
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<workbench.Project {self.path}>"

    @property
    def path(self) -> str:
        """The path of the project file."""
        return self._workspace.path

    @property
    def read_only(self) -> str | None:
        """Why the project cannot be written, such as another workbench that writes it; None when it can."""
        return self._workspace.read_only

    def save_copy(self, path: str | Path) -> None:
        """Writes all that is stored to a new file, also when the project's own file was deleted or replaced.

        Raises:
            NameTaken: There is such a file.
            ProjectError: The project is read-only, its file was overwritten, or the disk is full.
        """
        self._workspace.project.save_copy(os.path.expanduser(path))

    def close(self) -> None:
        """Ends the model process and closes the file; what was committed stays. May be called again."""
        self._workspace.close()

    # Bringing in, and running

    def import_files(
        self,
        *paths: str | Path,
        format: str | None = None,
        replace: bool = False,
        most_unpacked: float | None = None,
        progress: OnProgress | bool = False,
    ) -> ImportResult:
        """Imports files and folders, and looks at what is new, as `workbench import` does.

        Args:
            format: Name of a format; None detects it.
            replace: Put changed conversations in the place of the stored ones of their ids.
            most_unpacked: GiB to which a file may unpack whatever its size; None takes 0.25.
            progress: Called with the progress of the work; True draws it on standard error.

        Raises:
            FormatError: An input cannot be read.
            WorkbenchError: The project cannot be written.
        """
        most_bytes = None if most_unpacked is None else round(most_unpacked * (1 << 30))
        request = ImportRequest(format, replace, most_bytes)
        stages = import_stages(self._workspace.project, [str(path) for path in paths], request)
        self._run(stages, progress)
        stage, *_ = stages
        return ImportResult(
            new=stage.counts.new,
            grew=stage.counts.grew,
            changed=stage.counts.changed,
            duplicate=stage.counts.duplicate,
            unchanged=stage.counts.unchanged,
            quarantined=stage.counts.quarantined,
            leaks=stage.counts.leaks,
            warnings=tuple(source.label for source in stage.sources if source.account.warns),
        )

    def score(
        self,
        filter: str = "",
        *,
        mode: Mode | None = None,
        model: str | None = None,
        adapter: str | Path | None = None,
        limit: int | None = None,
        minutes: int | None = None,
        remaining: bool = True,
        tune: bool = True,
        progress: OnProgress | bool = False,
    ) -> ScoreSet | None:
        """Scores what is not scored yet, and writes remaining tasks, as `workbench run complete` does.

        Args:
            mode, model, adapter: None takes what suits the project best.
            minutes: In mode `probe`, for how long the model reads after the scores by words, first what they leave
                open. None reads all.
            remaining: Write the remaining tasks of conversations below the threshold.
            tune: Tune the model first, if it never was on this machine.
            progress: As in `import_files`.

        Returns:
            The set of scores that is in force; it says mode, model, adapter and the test. None if nothing is scored.

        Raises:
            WorkbenchError: There is no such model, or a stage failed; what was committed stays.
        """
        request = ScoringRequest(
            mode=mode,
            model=model,
            adapter=None if adapter is None else str(adapter),
            filter=read_filter(filter),
            limit=limit,
            minutes=minutes,
            remaining=remaining,
            tune=tune,
        )
        self._run(self._workspace.scoring_runs.make_run(request).stages, progress)
        return self.scored_by()

    def cluster(
        self,
        filter: str = "",
        *,
        text: GoalText = DEFAULT_TEXT,
        embedder: str = "tfidf",
        k: int | None = None,
        seed: int = 0,
        decide: Decide = "ask",
        labels: bool = True,
        model: str | None = None,
        limit: int | None = None,
        progress: OnProgress | bool = False,
    ) -> list[GoalGroup]:
        """Clusters goals as `workbench run cluster` does, and returns the groups, largest first.

        Args:
            text: What stands for a goal.
            embedder: `tfidf`, `minilm`, `mixed`, the path of a GGUF embedding model, or a URL.
            k: Number of clusters to begin with; None proposes one.
            seed: Beginning of the random numbers; the same one gives the same clusters.
            decide: Who decides on merges: `ask` leaves them to a person.
            labels: Ask the model for labels and merges; False asks none.
            model: Name or path of the model that is asked; None takes that of the project.
            progress: As in `import_files`.

        Raises:
            WorkbenchError: A stage failed; what was committed stays.
        """
        request = ClusteringRequest(
            text=text,
            embedder=embedder,
            k=k,
            seed=seed,
            decide=decide,
            model=model,
            labels=labels,
            filter=read_filter(filter),
            limit=limit,
        )
        self._run(self._workspace.goal_stages().cluster_stages(request), progress)
        return self.goals()

    def grow_trees(
        self,
        filter: str = "",
        *,
        request: TreeRequest | None = None,
        limit: int | None = None,
        progress: OnProgress | bool = False,
    ) -> None:
        """Grows the response trees that are missing, as `workbench run trees` does; `trees` reads them.

        Args:
            request: How they grow (`engine.trees.records.TreeRequest`); its filter and limit are not used.
            progress: As in `import_files`.

        Raises:
            WorkbenchError: A stage failed; what was committed stays.
        """
        full_request = dataclasses.replace(
            request or TreeRequest(), filter=read_filter(filter), limit=limit
        )
        self._run(self._workspace.trees.stages(full_request), progress)

    # Reading

    def count(self, filter: str = "") -> int:
        """Returns the number of conversations that match.

        Raises:
            UsageError: The filter cannot be understood.
        """
        return len(self._workspace.conversations.ids(ListQuery(read_filter(filter))))

    def counts(self, filter: str = "") -> dict[str, int]:
        """Returns the number of conversations that match, `conversations`, of those in each state, and of those
        `above`: with a score at or above the threshold. The rate of complete ones is `above` among all that are not
        unscored.
        """
        counts = self._workspace.conversations.counts(ListQuery(read_filter(filter)))
        return {
            "conversations": counts.conversations,
            "complete": counts.complete,
            "incomplete": counts.incomplete,
            "borderline": counts.borderline,
            "unscored": counts.unscored,
            "above": counts.above,
        }

    def table(
        self,
        filter: str = "",
        *,
        sort: SortKey = "id",
        reverse: bool = False,
        limit: int | None = None,
        truth: bool = False,
    ) -> list[Line]:
        """Returns one dictionary for each conversation with all that is known of it, as `export PROJECT table` writes.

        Args:
            sort: What they are ordered by, as in the list.
            reverse: Turn the order round.
            truth: Add what is known from elsewhere.

        Raises:
            UsageError: The filter cannot be understood, there is no such order, or the limit is negative.
        """
        check_limit(limit)
        if sort not in get_args(SortKey):
            raise UsageError(f"sort is {sort!r}.", f"Give one of {', '.join(get_args(SortKey))}.")
        ids = self._internal_ids(filter, sort, reverse)[:limit]
        with (
            self._workspace.project.reading() as conn,
            closing(table_lines(conn, ids, truth=truth)) as lines,
        ):
            return list(lines)

    def frame(self, filter: str = "", *, truth: bool = False) -> pandas.DataFrame:
        """Returns the table as a DataFrame of pandas, which must be installed.

        Raises:
            WorkbenchError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise WorkbenchError("pandas is not installed.", "pip install pandas") from error
        return pandas.DataFrame(self.table(filter, truth=truth))

    def conversations(self, filter: str = "") -> list[Line]:
        """Returns the conversations with `messages`, `meta` and `truth`, as imported."""
        return self._lines("conversations", filter)

    def curves(self, filter: str = "") -> list[Line]:
        """Returns each conversation with its score in force, and `curve`: a point for each boundary."""
        return self._lines("scores", filter)

    def trees(self, filter: str = "") -> list[Line]:
        """Returns the response trees with measures and answers."""
        return self._lines("trees", filter)

    def answers(self, question: str, filter: str = "") -> list[GivenAnswer]:
        """Returns the answers to a question, those of people first: each with its conversation, and who gave it.

        Raises:
            UsageError: There is no such question.
        """
        name = self._workspace.questions.find(question).name
        return self._workspace.questions.answers(name, ListQuery(read_filter(filter)))

    def assignments(self, filter: str = "") -> list[Line]:
        """Returns each conversation with its goal, its share, and other goals that it may have.

        Raises:
            UsageError: Nothing was clustered yet.
        """
        return self._lines("assignments", filter)

    def decisions(self) -> list[Line]:
        """Returns all decisions on goals, oldest first; `stands` is False for those that were undone.

        Raises:
            UsageError: Nothing was clustered yet.
        """
        return self._lines("decisions", None)

    def goals(self, filter: str = "") -> list[GoalGroup]:
        """Returns the groups after all decisions, largest first; with a filter they count only what matches."""
        return self._workspace.goals.groups(read_filter(filter))

    def why(
        self, a: str = "", b: str = "", *, question: str | None = None, within_goals: bool = True
    ) -> dict[str, Any]:
        """Returns what goes with one of two sides, as `workbench why --json` prints it.

        Args:
            a, b: Filters of the sides; without `b`, all others are side B. Without either and without a question the
                sides are those of the outcome that is known best: verdicts, imported outcomes, signs of trouble or
                states.
            question: A question; side A has the conversations whose answer is no, side B those whose answer is yes.
            within_goals: Compare conversations of one goal only, where there are goals.

        Raises:
            UsageError: A side has fewer than ten conversations, or a conversation is on both.
            NotFound: No sides are named, and no outcome is known of ten conversations on each side.
        """
        service = self._workspace.associations
        split = service.split(read_filter(a), read_filter(b), question)
        return service.as_json(service.associations(split, within_goals=within_goals))

    def scored_by(self) -> ScoreSet | None:
        """Returns the set of scores in force; None before any."""
        return in_force(self._workspace.score_sets.all())

    # Deciding

    def give(
        self, id: str, verdict: Verdict | str, note: str = "", *, source: str | None = None
    ) -> AnswerRow:
        """Records a verdict of a person on whether the user got what they wanted: `yes`, `no` or `unsure`.

        Args:
            id: The id of the conversation in its source.
            source: Label of the source, where several have this id.

        Raises:
            UsageError: There is no such conversation or verdict, or several conversations have this id.
        """
        try:
            parsed_verdict = Verdict(verdict)
        except ValueError as error:
            verdict_names = ", ".join(Verdict)
            raise NotFound(
                f"There is no verdict {verdict!r}.", f"Choose of {verdict_names}."
            ) from error
        return self._workspace.triage.give(self._internal_id(id, source), parsed_verdict, note)

    def answer(self, filter: str, question: str, value: str = YES) -> int:
        """Answers a question as a person on the conversations that match, in one act, and returns how many they are.

        Args:
            filter: Which ones; an empty one answers on all.
            question: Its name; one that is not known is a tag: a yes-no question.

        Raises:
            UsageError: The question cannot have this answer.
        """
        ids = self._internal_ids(filter)
        definition = self._workspace.questions.find(question, keep=True)
        answer = definition.answer(value)
        self._workspace.triage.answer([NewAnswer(id, definition.name, answer) for id in ids])
        return len(ids)

    def ask(
        self,
        question: str,
        filter: str = "",
        *,
        model: str | None = None,
        limit: int | None = None,
        votes: int | None = None,
        max_cost: float | None = None,
        fresh: bool = False,
        anyway: bool = False,
        progress: OnProgress | bool = False,
    ) -> str:
        """Lets the patterns of a question answer it, or a model, and returns how often each answer was given.

        Args:
            question: Its name, a TOML file, or the text of a yes-no question.
            model: Name or path of a model, or endpoints; None takes the patterns.
            votes: How often each conversation is asked about; the most frequent answer counts. None takes the
                question's own number.
            max_cost: What the requests to endpoints may cost together; None sets no limit.
            fresh: Ask again where a reply to the same request is stored.
            anyway: Ask the built-in model too, whose answers are not trustworthy.

        Raises:
            UsageError: There is no such question or model, the question has no pattern, or the model cannot be asked.
        """
        definition = self._workspace.questions.find(question, keep=True)
        request = AskRequest(
            "pattern" if model is None else "model",
            model,
            read_filter(filter),
            limit,
            votes,
            max_cost=max_cost,
            fresh=fresh,
            anyway=anyway,
        )
        stage, stages = self._workspace.asking.stages(definition, request)
        self._run(stages, progress)
        return stage.summary()

    def undo_answer(self) -> AnswerRow | None:
        """Undoes the newest act of a person, and returns it; None when nothing is left."""
        return self._workspace.triage.undo()

    def proposal(self) -> Proposal | None:
        """Returns the next pair of goals that may be one; None when none is left."""
        return self._workspace.merge_review.proposal()

    def merge(self, proposal: Proposal, label: str | None = None) -> GoalDecision:
        """Merges the two goals of a proposal, under a label; None takes the proposed one, or that of a goal."""
        return self._workspace.merge_review.merge(proposal, label)

    def apart(self, proposal: Proposal, *, never: bool = False) -> GoalDecision:
        """Keeps the two goals of a proposal apart; with `never` in later clusterings too."""
        return self._workspace.merge_review.apart(proposal, never=never)

    def rename(self, goal: str, label: str) -> GoalDecision:
        """Gives a goal, named by its id, another label."""
        return self._workspace.merge_review.rename(goal, label)

    def undo_decision(self) -> GoalDecision | None:
        """Undoes the newest decision of a person on goals and returns it; None when nothing is left."""
        return self._workspace.merge_review.undo()

    # What several methods need

    def _run(self, stages: Sequence[Stage], progress: OnProgress | bool) -> None:
        """Runs stages, and reports their progress as `_listener` says."""
        self._workspace.run(stages, _listener(progress))

    def _internal_ids(
        self, filter: str, sort: SortKey = "id", reverse: bool = False
    ) -> Sequence[int]:
        """Returns the internal ids of the conversations that match a filter, in order."""
        return self._workspace.conversations.ids(ListQuery(read_filter(filter), sort, reverse))

    def _lines(self, kind: ExportKind, filter: str | None) -> list[Line]:
        """Returns the lines of an export of the conversations that match a filter; None or an empty one takes all."""
        ids = self._internal_ids(filter) if filter else None
        with (
            self._workspace.project.reading() as conn,
            closing(export_lines(conn, kind, ids)) as lines,
        ):
            return list(lines)

    def _internal_id(self, external_id: str, source: str | None) -> int:
        """Returns the internal id of the conversation with an id in its source.

        Raises:
            NotFound: No conversation has this id, or several have it and no source is named.
        """
        ids = self._workspace.conversations.named(external_id, source)
        if not ids:
            raise NotFound(f"There is no conversation {external_id!r}.", "`table` lists their ids.")
        if len(ids) > 1:
            raise NotFound(
                f"{len(ids)} conversations have the id {external_id!r}.", "Name the source."
            )
        return ids[0]


def open(path: str | Path, *, create: bool = False, read_only: bool = False) -> Project:
    """Opens a project.

    Args:
        create: Make a new project if there is none.
        read_only: Take no lock and write nothing.

    Raises:
        ProjectError: There is no such project, or the file cannot be opened.

    >>> import workbench
    >>> p = workbench.open("support.wb", create=True)
    >>> p.import_files("logs.jsonl").new
    3
    >>> p.count("turns>1")
    2
    >>> [row["id"] for row in p.table('"refund"')]
    ['b']
    >>> _ = p.give("b", "no", "the money never came")
    >>> [(answer.conversation, answer.value) for answer in p.answers("succeeded")]
    [('b', 'no')]
    >>> p.count("turns>")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    engine.base.errors.FilterError: ...
    >>> p.close()
    """
    return Project(path, create=create, read_only=read_only)


def _listener(progress: OnProgress | bool) -> Listener | None:
    """Returns the listener to the events of a run: one that draws for True, none for False, else one that calls
    `progress`."""
    if progress is True:
        from workbench.narration import Narrator

        return Narrator()
    if progress is False:
        return None
    report: OnProgress = progress

    def listen(event: Event) -> None:
        """Reports the progress of a job."""
        if isinstance(event, JobProgress):
            report(event)

    return listen
