"""Makes the report on a project from the results of the services, without a model, and writes it as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.base import folders
from engine.base.conversation import SUCCEEDED, State, Verdict
from engine.base.errors import NotFound, UsageError
from engine.base.number_format import counted, figure, is_few, share_range, signed
from engine.base.report_table import text_table
from engine.base.sign import Sign
from engine.base.text import one_line, whole_words
from engine.completeness.service import sets as score_sets
from engine.conversations.filter_fields import NO_VALUE
from engine.conversations.filters import Filter, ListQuery, Term
from engine.conversations.personal_data import KIND_NAMES
from engine.goals.records import themes_of
from engine.opener.key_figures import (
    UNLIKELY,
    FirstReading,
    KeyFigures,
    conversations_to_read,
    imported_failures,
    last_change,
    success_probe,
)
from engine.opener.open_project import OpenProject
from engine.questions.question import NOTE, PEOPLE, YES
from engine.questions.records import CompletionRate
from engine.questions.service.questions import QuestionSummary
from engine.results.associations.formatting import (
    association_tables,
    clearest_rows,
    conclusion,
    feature_sentence,
    notes,
    plainest_feature,
    side_lines,
)
from engine.results.associations.records import Associations
from engine.results.comparison.formatting import FAILED, breakdown_table
from engine.results.comparison.measures import NO_GOAL, Measures
from engine.results.document import (
    Bar,
    BarChart,
    Block,
    ColumnChart,
    Document,
    Paragraph,
    Quote,
    Section,
    VerticalLine,
    WrittenDocument,
    check_place,
    write_document,
)

MAX_GOALS = 30
"""Number of goals that are listed."""

CONVERSATIONS_TO_READ = 8

GREETING_CHARACTERS = 30
"""Length of an opening from which on it is more than a greeting."""

QUOTE_CHARACTERS = 400

MAX_SENTENCES = 5
"""Most sentences on what goes with each side."""

STRONGEST_WORDS = 8
"""Most words that speak for an end, and most that speak against one."""

BINS = 20
"""Number of bars of the histogram of scores."""

MAX_VALUES = 12
"""Most values of a field (source, language, model) that are listed."""

EXAMPLES_TO_CHOOSE_FROM = 10
"""Number of members of a goal from which its example is chosen."""

OPENING_CHARACTERS, LONG_OPENING_CHARACTERS = 90, 120
"""Most characters of the opening of a conversation in a table, and in a table with few columns."""

GOAL_CHARACTERS = 60
"""Most characters of the label of a goal, or of another text, beside other cells."""

MAX_ANSWERS = 5
"""Most answers that are listed of a question that is not yes or no."""

FAILED_SIDE, OTHER_SIDE = 0, 1
"""`Association.side`: of features of the conversations that failed or, where that is not known, of those that stand for
them (such as the ones with the most signs of trouble), and of the others."""

TO_READ = "What to read first"
"""Title of the section with conversations to read."""

SUMMARY_GOALS, SUMMARY_QUOTES, SUMMARY_FEATURES = 5, 3, 3
"""Most goals, quoted conversations and features that go with the outcome, in the summary."""

NOT_CHECKED = "not checked"
"""Stands in place of a corrected share where people have not checked what answered."""


def write_report(
    services: OpenProject,
    path: Path,
    filter: Filter,
    *,
    redact: bool = False,
    force: bool = False,
) -> WrittenDocument:
    """Writes the report on the conversations of a filter as HTML, completely or not at all.

    Args:
        filter: Selects the conversations; an empty filter selects the whole project.
        redact: Whether personal data is replaced.
        force: Whether an existing file may be overwritten.

    Raises:
        UsageError: The name of the file has no ending of HTML, or no conversation matches.
        ProjectError: There is such a file already, or it cannot be written.
        WorkbenchError: The project cannot evaluate the filter.
    """
    check_place(path, force=force)
    measures = services.comparison.read_measures(filter)
    if filter and not len(measures.ids):
        raise NotFound("No conversation matches the filter.", "Write a report without --filter.")
    document = _Report(services, filter, measures).document()
    return write_document(document, path, redact=redact)


class _Report:
    """Makes one report; each method `_..._blocks` yields the blocks of one section."""

    def __init__(self, services: OpenProject, filter: Filter, measures: Measures) -> None:
        """Makes the report on the conversations of a filter; `measures` are their measures."""
        self._services, self._filter, self._measures = services, filter, measures
        self._sets = services.score_sets.all()
        # sentences on what is not known, with the command that finds it out; the sections add them as they are made
        self._unknown: list[str] = []

    def document(self) -> Document:
        """Returns the report."""
        services, filter = self._services, self._filter
        figures = self._key_figures()
        contents = {
            "In short": self._summary_blocks(figures),
            "What users wanted": self._goal_blocks(),
            "Did it end?": self._ending_blocks(),
            "Did it go wrong?": self._failure_blocks(figures),
            "What was asked": self._question_blocks(),
            TO_READ: self._reading_blocks(),
            "How sure the model was": self._tree_blocks(),
            "Over time": self._time_blocks(),
        }
        methods = {
            "What is here": self._content_blocks(),
            "How this was measured": self._method_blocks(),
            "Not known": self._unknown_blocks(),
        }
        # the generators run here, in this order: the last section has what the others add to `_unknown`
        sections = [
            Section(title, tuple(blocks), folded)
            for part, folded in ((contents, False), (methods, True))
            for title, blocks in part.items()
        ]
        subject = f"Conversations that match {filter}. " if filter else ""
        if not filter and (dates := services.conversations.dates()):
            first, last = dates
            subject = f"From {first[:10]} to {last[:10]}. "
        program = f"Made by Conversation Workbench {folders.version()}."
        return Document(
            f"Report on {services.name}",
            f"{subject}{program}",
            tuple(section for section in sections if section.blocks),
        )

    def _key_figures(self) -> KeyFigures:
        """Returns the key figures of the conversations."""
        store = self._services.conversations
        no, yes = (
            store.counts(
                ListQuery(Filter((*self._filter.terms, Term(SUCCEEDED, ":", (verdict,)))))
            ).conversations
            for verdict in (Verdict.NO, Verdict.YES)
        )
        return KeyFigures(
            counts=store.counts(ListQuery(self._filter)),
            goals=[(label, len(part.ids)) for label, part in self._goals],
            trouble=store.in_trouble(self._filter),
            judged=(no, no + yes),
            failures=imported_failures(self._services, self._filter),
            succeeded=self._completion_rate.corrected,
            change=last_change(self._services, self._filter),
            doubt=score_sets.doubt_in_force(self._sets),
            worst_judged=self._services.calibration.is_picked_by_trouble(),
        )

    def _summary_blocks(self, figures: KeyFigures) -> Iterator[Block]:
        """Yields a sentence on each key figure, then the ends of conversations to read first."""
        first_clause, *goal_shares = figures.goal_clauses()
        answers = {
            "What users wanted": [", ".join(goal_shares[:SUMMARY_GOALS]) or first_clause],
            "Did it end?": figures.ending_clauses(),
            "Did it go wrong?": figures.failure_clauses(),
        }
        if self._associations is not None:
            rows = [row for row in self._associations.rows if row.side == FAILED_SIDE]
            features = dict.fromkeys(plainest_feature(row) for row in rows if not row.may_be_chance)
            outcome = self._associations.split.outcome
            answers[f"What goes with {outcome}"] = list(filter(None, features))[:SUMMARY_FEATURES]
        if figures.change is not None:
            answers["What changed"] = figures.change_clauses()
        for question, clauses in answers.items():
            if clauses:
                yield Paragraph(f"{question.rstrip('?')}: {'; '.join(clauses)}.", important=True)
        # what people judged failed says more than what may have failed
        quoted = conversations_to_read(self._services, self._filter, failures=True)
        for reading in quoted[:SUMMARY_QUOTES]:
            quote = self._quote(reading.row.id)
            reason = " · ".join(reading.reason.split(" · ")[:2])
            yield replace(quote, source=f"{quote.source}: {reason}", more_in=TO_READ)

    def _unknown_blocks(self) -> Iterator[Block]:
        """Yields sentences on what is not known; the other sections must have been made before."""
        yield from map(Paragraph, self._unknown)

    def _content_blocks(self) -> Iterator[Block]:
        """Yields numbers of conversations, sources, languages, personal data."""
        store = self._services.conversations
        counts = store.counts(ListQuery(self._filter) if self._filter else None)
        duplicates, unread = counts.duplicates, counts.quarantined
        duplicates_text = f" Exact duplicates left out: {duplicates:,}." if duplicates else ""
        unread_text = f" Records that could not be read: {unread:,}." if unread else ""
        yield Paragraph(
            f"{counted(counts.conversations, 'conversation')} with {counted(counts.messages, 'message')} and"
            f" {counted(counts.turns, 'turn')}, from {counted(counts.sources, 'source')}."
            f"{duplicates_text}{unread_text}"
        )
        fields = {"Sources": "source", "Languages": "language", "Models that answered": "model"}
        for title, field in fields.items():
            values = store.values(field, self._filter)
            if values:
                rows = [(value, f"{count:,}") for value, count in values[:MAX_VALUES]]
                unnamed = Filter((*self._filter.terms, Term(field, ":", (NO_VALUE,))))
                if field != "source" and (unknown := len(store.ids(ListQuery(unnamed)))):
                    rows.append(("not known", f"{unknown:,}"))
                yield text_table(title, ("", "conversations"), tuple(rows), (1,))
        personal = [
            f"{KIND_NAMES.get(value, value)} in {counted(count, 'conversation')}"
            for value, count in store.values("personal", self._filter)
            if count
        ]
        if personal:
            yield Paragraph(f"Personal data was found: {', '.join(personal)}.")

    def _ending_blocks(self) -> Iterator[Block]:
        """Yields the rate of ended conversations with its interval, and the histogram of scores."""
        states = self._measures.states()
        if states.rate is None or score_sets.in_force(self._sets) is None:
            self._unknown.append(
                "Nothing is scored. `workbench run complete PROJECT` scores in seconds."
            )
            return
        rule = self._services.conversations.rule()
        yield Paragraph(
            f"{states.rate.value:.0%} of the scored conversations ended, by their score"
            f" (95% interval {states.rate.low:.0%} to {states.rate.high:.0%}):"
            f" {states.above:,} have {figure(rule.threshold)} or more;"
            f" {states.scored:,} of {len(self._measures.ids):,} are scored."
            " Ended is not succeeded: a conversation that failed can end too.",
            important=not is_few(states.scored),
        )
        if states.borderline:
            yield Paragraph(
                f"{states.borderline:,} of the scored ones are open: within {figure(rule.band)} of"
                " the threshold, and counted on their side of it."
            )
        values = self._measures.score[self._measures.scored]
        bins, _ = np.histogram(values, bins=BINS, range=(0.0, 1.0))
        yield ColumnChart(
            "Conversations by score (0: goes on, 1: ends here)",
            tuple((figure(index / BINS), int(count)) for index, count in enumerate(bins)),
            VerticalLine(rule.threshold, f"threshold {figure(rule.threshold)}"),
        )

    def _failure_blocks(self, figures: KeyFigures) -> Iterator[Block]:
        """Yields the numbers of signs of trouble, what verdicts say, and what goes with the best known outcome."""
        read, with_signs = figures.trouble
        if with_signs:
            signs = self._services.conversations.values("sign", self._filter)
            yield BarChart(
                f"Signs of trouble, in {with_signs:,} of {read:,} conversations. They show where to look; who failed,"
                " only people say",
                tuple(
                    Bar(Sign(name).words, count / read, f"{count:,}")
                    for name, count in sorted(signs, key=lambda sign: -(sign[1] or 0))
                    if count
                ),
            )
        failed, judged = figures.judged
        all_judged = judged == figures.counts.conversations
        if judged:
            doubt = ""
            if not all_judged:
                doubt = " People choose what they judge, so this is no share of all."
            yield Paragraph(
                f"Of {counted(judged, 'conversation')} that people judged, {failed:,} failed.{doubt}",
                important=True,
            )
        share = self._completion_rate.corrected_text
        if figures.succeeded is not None:
            yield Paragraph(f"Of all, {share}, got what they wanted.", important=True)
        elif not all_judged and figures.failures is None:
            self._unknown.append(
                f"How many of all got what they wanted is not known, which only verdicts say: {share}."
            )
        if self._associations is not None:
            (first, second), verbs = self._associations.sizes, self._associations.split.verbs
            nothing = ""
            if not self._associations.rows:
                nothing = " No word or property differs by more than chance."
            yield Paragraph(
                f"{counted(first, 'conversation')} that {verbs[0]} beside {second:,} that {verbs[1]}.{nothing}",
                important=True,
            )
            for side in (FAILED_SIDE, OTHER_SIDE):
                rows = [row for row in self._associations.rows if row.side == side]
                for row in clearest_rows(rows, MAX_SENTENCES):
                    yield Paragraph(feature_sentence(row, self._associations))

    def _question_blocks(self) -> Iterator[Block]:
        """Yields the shares of the answers to each question, corrected where a machine was checked.

        Yields nothing for a filter, because a check says nothing of a part of the conversations.
        """
        if self._filter:
            return
        summaries = self._services.questions.all()
        rows = [row for summary in summaries for row in self._answer_rows(summary)]
        titles = "question", "answered by", "answer", "conversations", "of these", "corrected (95%)"
        if rows:
            yield text_table("Questions and their answers", titles, tuple(rows), (3, 4, 5))
        if any(correction not in ("", NOT_CHECKED) for *_, correction in rows):
            yield Paragraph(
                "Where people checked a machine on conversations drawn at random, its share is without its errors."
            )

    def _answer_rows(self, summary: QuestionSummary) -> Iterator[tuple[str, ...]]:
        """Yields a row for each answer to a question of each who answered; its last cell is the corrected share."""
        name = summary.question.name
        if name == NOTE or not summary.answers:
            return
        checks = {check.by: check for check in self._services.questions.checks(name)}
        is_tag = summary.question.kind == "yes-no" and name != SUCCEEDED
        for by, counts in summary.answers:
            check, total = checks.get(by), sum(counts.values())
            shares = {share.value: share for share in check.shares} if check else {}
            # of a tag only "yes" is counted: who does not give it rarely says so
            values = [YES] if is_tag and counts else list(counts)[:MAX_ANSWERS]
            for value in values:
                share = shares.get(value)
                correction = "" if by == PEOPLE else NOT_CHECKED
                if share is not None and share.corrected is not None:
                    correction = share.text
                count = counts.get(value, 0)
                yield (
                    name,
                    one_line(by, GOAL_CHARACTERS),
                    one_line(value, GOAL_CHARACTERS),
                    f"{total:,}",
                    f"{count:,} ({count / total:.0%})",
                    correction,
                )

    @cached_property
    def _completion_rate(self) -> CompletionRate:
        """The share of conversations whose user got what they wanted, or why it is not known."""
        return self._services.calibration.report(ListQuery(self._filter)).rate

    @cached_property
    def _readings(self) -> list[FirstReading]:
        """The conversations to read first, as the overview lists them."""
        return conversations_to_read(self._services, self._filter)

    @cached_property
    def _associations(self) -> Associations | None:
        """The features that go with the best known outcome; None where too few conversations have an outcome."""
        service = self._services.associations
        try:
            split = service.split()
            if self._filter:
                first, second = (
                    Filter((*side.terms, *self._filter.terms))
                    for side in (split.first, split.second)
                )
                split = replace(split, first=first, second=second)
            return service.associations(split)
        except UsageError:
            return None

    def _goal_blocks(self) -> Iterator[Block]:
        """Yields a table of the themes with their goals, and one of the goals with shares and examples."""
        if not self._measures.goals:
            self._unknown.append(
                "Nothing is clustered. `workbench run cluster PROJECT` groups conversations by goal."
            )
            return
        goals, total = self._goals, len(self._measures.ids)
        theme_rows = [
            (
                theme.label,
                f"{theme.as_group.size:,}",
                " · ".join(goal.label for goal in theme.goals),
            )
            for theme in themes_of(self._services.goals.groups(self._filter))
            if not theme.single
        ]
        if theme_rows:
            columns = ("theme", "conversations", "goals")
            yield text_table("Themes, with the goals under each", columns, theme_rows, (1,))
        any_known = any(part.outcomes()[1] for _, part in goals)
        failed_column = ["failed"] if any_known else []
        number_columns = (1, 2, 3, 4) if any_known else (1, 2, 3)

        def failures(part: Measures) -> str:
            """Returns how many conversations failed, of those of which that is known; a dash where it is of none."""
            failed, known = part.outcomes()
            return f"{failed:,} of {known:,}" if known else "–"

        rows, faint = [], []
        for index, (label, part) in enumerate(goals[:MAX_GOALS]):
            above, scored = part.counts()
            if is_few(scored):
                faint.append((index, number_columns[-1]))
            count = len(part.ids)
            share, ended = _share(count, total), _share(above, scored)
            failed = [failures(part)] if any_known else []
            rows.append((label, f"{count:,}", share, *failed, ended, self._example(part)))
        yield text_table(
            "Goals, the most frequent first",
            (
                "goal",
                "conversations",
                "share (95% interval)",
                *failed_column,
                "ended (95% interval)",
                "for example",
            ),
            tuple(rows),
            number_columns,
            faint,
        )
        unlisted = len(goals) - MAX_GOALS
        without = total - sum(len(part.ids) for _, part in goals)
        if unlisted > 0 or without:
            more = f"{counted(unlisted, 'goal')} more are not listed. " if unlisted > 0 else ""
            none = f"{counted(without, 'conversation')} in no goal." if without else ""
            yield Paragraph(f"{more}{none}")
        if any_known:
            yield Paragraph(FAILED)

    def _reading_blocks(self) -> Iterator[Block]:
        """Yields the conversations to read first."""
        if self._readings:
            title = "The conversations with the most signs of trouble"
            if probe := success_probe(self._services):
                title = f"The conversations {UNLIKELY}, {probe.basis}"
            yield text_table(
                title,
                ("conversation", "begins with", "why"),
                tuple(
                    (
                        reading.row.external_id,
                        whole_words(reading.row.opening, LONG_OPENING_CHARACTERS),
                        reading.reason,
                    )
                    for reading in self._readings
                ),
            )

    def _tree_blocks(self) -> Iterator[Block]:
        """Yields a sentence on how sure the model was, and a table of the conversations in which it was least sure."""
        with_trees = self._measures.part(~np.isnan(self._measures.entropy))
        if not len(with_trees.ids):
            self._unknown.append(
                "How sure the model was is not known. `workbench run trees PROJECT` grows response trees, which takes a"
                " model minutes."
            )
            return
        yield Paragraph(
            f"{counted(len(with_trees.ids), 'conversation')} with a response tree: median"
            f" {np.median(with_trees.leaves):.0f} leaves, mean entropy {with_trees.entropy.mean():.2f} bits."
        )
        order = np.argsort(-with_trees.entropy, kind="stable")[:CONVERSATIONS_TO_READ]
        ids = with_trees.ids[order].tolist()
        rows = {row.id: row for row in self._services.conversations.rows(ids)}
        cells = []
        for index, key in zip(order, ids, strict=True):
            goal = int(with_trees.goal[index])
            cells.append(
                (
                    rows[key].external_id,
                    f"{with_trees.entropy[index]:.2f}",
                    f"{with_trees.leaves[index]:.0f}",
                    State(rows[key].state).word,
                    one_line(with_trees.goals[goal], GOAL_CHARACTERS) if goal != NO_GOAL else "",
                    whole_words(rows[key].opening, OPENING_CHARACTERS),
                )
            )
        yield text_table(
            "The conversations in which the model was least sure",
            ("conversation", "entropy in bits", "leaves", "state", "goal", "begins with"),
            tuple(cells),
            (1, 2),
        )

    def _time_blocks(self) -> Iterator[Block]:
        """Yields a table of the share that ended by month, with the change from the month before."""
        try:
            months = self._services.comparison.breakdown(self._measures, "month", self._filter)
        except UsageError:
            self._unknown.append("The conversations have no dates, so nothing is said of months.")
            return
        yield breakdown_table(months, "change against the month before, p corrected for all tests")

    def _method_blocks(self) -> Iterator[Block]:
        """Yields the scores in force with their test and their words, and what the report does not say."""
        set_in_force = score_sets.in_force(self._sets)
        if set_in_force is not None:
            report = score_sets.reliability(set_in_force, self._sets)
            doubt = f" Doubt: {report.doubt}." if report.doubt else ""
            yield Paragraph(
                f"Scores in force: {score_sets.name_of(set_in_force)} (set {set_in_force.config_hash[:16]})."
                f" {report.test[:1].upper()}{report.test[1:]}.{doubt}"
            )
        columns = "words", "in a message of", "messages before the end", "weight", "conversations"
        words = self._services.word_reasons.strongest(STRONGEST_WORDS)
        if words:
            yield text_table(
                "The words that speak most for an end and against one",
                columns,
                tuple(
                    (
                        one_line(word.text, GOAL_CHARACTERS),
                        word.role,
                        f"{word.distance}",
                        signed(word.weight),
                        f"{word.share:.0%}",
                    )
                    for word in words
                ),
                (2, 3, 4),
            )
        if self._associations is not None:
            first, second = side_lines(self._associations)
            yield Paragraph(f"{first}. {second}. {conclusion(self._associations)}")
            yield from association_tables(self._associations, MAX_SENTENCES)
            yield Paragraph(" ".join(notes(self._associations)))
        yield Paragraph(
            "A score is the probability that a conversation ends where it ends; it is no judgment of the answers."
            " Goals are clusters of what users wrote or of a model's words on it, named by phrases of their members,"
            f" by a model or by people; {self._merges()}. Intervals are 95%. Conversations count as independent of each"
            " other."
        )
        yield Paragraph(
            "`workbench validate PROJECT` compares scores, goals and response trees with what is known."
        )

    def _merges(self) -> str:
        """Returns in words how many merges of clusters are those of the rule, of a model and of people."""
        merges = self._services.goals.merges()
        by_model = f", {merges['llm']:,} a model's" if merges["llm"] else ""
        return f"of their merges {merges['auto']:,} are the rule's{by_model} and {merges['human']:,} a person's"

    @cached_property
    def _goals(self) -> list[tuple[str, Measures]]:
        """The label of each goal that has conversations, with the measures of these; the most frequent goal first."""
        goals = [
            (label, self._measures.part(self._measures.goal == number))
            for number, label in enumerate(self._measures.goals)
        ]
        goals.sort(key=lambda goal: -len(goal[1].ids))
        return [(label, part) for label, part in goals if len(part.ids)]

    def _example(self, part: Measures) -> str:
        """Returns the opening of one of the first conversations of a goal, if possible one that is no mere greeting."""
        rows = self._services.conversations.rows(part.ids[:EXAMPLES_TO_CHOOSE_FROM].tolist())
        greetings_last = sorted(rows, key=lambda row: len(row.opening) < GREETING_CHARACTERS)
        return next((whole_words(row.opening, OPENING_CHARACTERS) for row in greetings_last), "")

    def _quote(self, conversation_id: int) -> Quote:
        """Returns a quote of a conversation: the first message of the user, and the last two with text of either."""
        store = self._services.conversations
        messages = [
            message
            for message in store.messages(conversation_id)
            if message.content.strip() and message.role in ("user", "assistant")
        ]
        first = next((index for index, message in enumerate(messages) if message.role == "user"), 0)
        last_two = range(max(0, len(messages) - 2), len(messages))
        quoted = [
            (messages[index].role, whole_words(messages[index].content, QUOTE_CHARACTERS))
            for index in sorted({first, *last_two})
            if index < len(messages)  # there may be no message with text
        ]
        row = store.rows([conversation_id])[0]
        return Quote(f"{row.external_id}, {counted(row.messages, 'message')}", tuple(quoted))


def _share(part: int, of: int) -> str:
    """Returns a share with its interval as a cell of a table; the word for no score where there is nothing to share."""
    return share_range(part, of) if of else State.UNSCORED.word
