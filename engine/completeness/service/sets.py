"""The sets of scores of a project: which is in force, choosing another, and how far each can be relied on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.base.number_format import counted, difference, figure, figure_range
from engine.base.statistics.intervals import Interval
from engine.base.text import short_name
from engine.completeness.records import (
    BUNDLED_PROBE_ADAPTER,
    MIN_CONVERSATIONS_FOR_PROBE,
    EndingTest,
    KindTest,
    ScoreSet,
    mode_in_words,
)
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.project.project import Project

WEAK_AUROC = 0.7
"""AUROC that makes scores doubted, although they are better than chance, where their whole interval is below it."""

_MORE_CONVERSATIONS = (
    f"{MIN_CONVERSATIONS_FOR_PROBE} conversations that could end in two places or more: from there on a probe"
    " learns from your own"
)
"""What helps a probe that was not fitted to these conversations, or is not tested."""


@dataclass(frozen=True, slots=True)
class GeneratedDecisions:
    """Number of conversations after which a model writes the end tag, and after which it writes something else."""

    model: str
    complete: int
    incomplete: int


class ScoreSets:
    """Lists the sets of scores of one project, and puts one in force."""

    def __init__(self, project: Project, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when another set is in force."""
        self._project, self._changed = project, changed

    def all(self) -> list[ScoreSet]:
        """Returns all sets that have scores, in the order in which they were first made."""
        return self._project.read(score_sets.sets)

    def name_in_force(self) -> str:
        """Returns the mode, model and adapter of the set in force; empty before any scoring. Quick."""
        config = self._project.read(score_sets.config_in_force)
        return "" if config is None else name_of(config)

    def as_generated(self, config_hash: str) -> GeneratedDecisions:
        """Returns how many conversations are complete by what the model of a set writes after them."""
        with self._project.reading() as conn:
            config = score_sets.registered_config(conn, config_hash)
            model = "" if config is None else config.model
            return GeneratedDecisions(model, *scores.generated_counts(conn, config_hash))

    def use(self, config_hash: str) -> None:
        """Puts a set in force. Its decision rule comes with it, so choosing the other set again undoes this.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        self._project.write(lambda conn: score_sets.switch_with_rules(conn, config_hash))
        self._changed()


def in_force(sets: Sequence[ScoreSet]) -> ScoreSet | None:
    """Returns the set in force, or None."""
    return next((score_set for score_set in sets if score_set.in_force), None)


def name_of(score_set: ScoreSet | ScoreConfig) -> str:
    """Returns the mode, model and adapter of a set, as in `probe · smollm2-135m (bf16)`.

    Where the model has not read all conversations that have a score, it also says how many: `words of all 900, states
    of 300`.
    """
    mode = mode_in_words(score_set.mode, score_set.features)
    parts = [mode, score_set.model, score_set.adapter or ""]
    read, scored = score_set.read, score_set.scored
    if score_set.features == "both" and read is not None and scored is not None and read < scored:
        parts.append(f"words of all {scored:,}, states of {read:,}")
    return " · ".join(short_name(part) for part in parts if part)


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far a set of scores can be relied on, in words.

    Attributes:
        test: Result of its test on these conversations, or that there is none.
        doubt: Why the scores mean little, or why none was given; empty where the test shows nothing of the kind, or
            there is no test.
        remedy: What would help; empty where nothing is wrong.
        better: Another set, whose test shows nothing of the kind; None where there is none, or nothing is wrong.
        kinds: Result of the test of each kind of log, where there are several.
    """

    test: str
    doubt: str = ""
    remedy: str = ""
    better: ScoreSet | None = None
    kinds: tuple[str, ...] = ()


def reliability(score_set: ScoreSet, sets: Sequence[ScoreSet]) -> Reliability:
    """Returns how far a set can be relied on; `sets` are all sets of the project, one of which may be better."""
    better = [
        other for other in sets if other is not score_set and other.test and not _doubt(other)
    ]
    best = max(better, key=lambda other: (other.scored, other.number), default=None)
    if score_set.test is None:
        if best is not None:
            remedy = f"choose set {best.number}, which is tested: {name_of(best)}"
        elif score_set.mode == "probe":
            remedy = _MORE_CONVERSATIONS
        else:
            remedy = "`run complete --mode probe` makes scores that are tested"
        return Reliability("not tested on these conversations", remedy=remedy, better=best)
    words = _test_in_words(score_set.test)
    kinds = tuple(_kind_in_words(kind) for kind in score_set.test.kinds)
    doubt = _doubt(score_set)
    if not doubt:
        return Reliability(words, kinds=kinds)
    remedy = "more conversations, a larger model, or an adapter trained on them (`workbench train`)"
    if score_set.mode == "probe" and score_set.adapter == BUNDLED_PROBE_ADAPTER:
        remedy = _MORE_CONVERSATIONS
    if best is not None:
        remedy = f"choose set {best.number}, which does better: {name_of(best)}"
    return Reliability(words, doubt, remedy, best, kinds)


def doubt_in_force(sets: Sequence[ScoreSet]) -> str:
    """Returns why the scores in force mean little; empty where their test does not say so, or there are none."""
    now = in_force(sets)
    return reliability(now, sets).doubt if now else ""


def _test_in_words(test: EndingTest) -> str:
    """Returns the AUROC of the test with its interval and beside it those of position alone and of the keyword rule: at
    random cuts, then at the same step, where there are pairs for that."""

    def compared(area: Interval, more: str, position: float | None, keywords: float | None) -> str:
        text = f"{figure(area.value)} ({figure_range(area.low, area.high)}){more}"
        for name, value in (("position alone", position), ("keyword rule", keywords)):
            text += "" if value is None else f", {name} {figure(value)}"
        return text

    number = f", {counted(test.conversations, 'conversation')}"
    words = f"whole against cut: AUROC {compared(test.auroc, number, test.position, test.keywords)}"
    if test.matched is not None:
        same = compared(test.matched, "", test.matched_position, test.matched_keywords)
        words += f"; at the same step {same}"
    return words


def _kind_in_words(kind: KindTest) -> str:
    """Returns the result of the test of a kind of log; of one at chance, that its conversations have no score."""
    number = counted(kind.conversations, "conversation")
    if kind.test is None:
        return f"{kind.name}: {number}, too few to test"
    auroc = kind.test.auroc
    text = f"{kind.name}: {number}, AUROC {figure(auroc.value)} ({figure_range(auroc.low, auroc.high)})"
    if kind.test.at_chance:
        return f"{text}: at chance, so none is scored"
    if kind.test.matched is not None:
        text += f", at the same step {figure(kind.test.matched.value)}"
    return text


def _doubt(score_set: ScoreSet) -> str:
    """Returns why the test says that the scores mean little, or that there are none; empty where it does not.

    Cuts at random make whole conversations longer than cut ones, so that position tells them apart on many logs. So the
    scores are compared with position and keywords at the same step; at random cuts only where no two conversations can
    be compared there.
    """
    test = score_set.test
    if test is None:
        return ""
    if test.auroc.low <= 0.5:  # also on fewer conversations than `at_chance` judges
        chance = "whole and cut are not told apart better than by chance"
        return (
            f"these scores mean little: {chance}"
            if score_set.scored
            else f"{chance}, so none is scored"
        )
    if test.auroc.high < WEAK_AUROC:
        return (
            "these scores tell little: of a whole conversation and a cut one, the whole one has the higher score in"
            f" {figure(test.auroc.value)} of pairs only"
        )
    if test.matched is None:
        if test.auroc.value > max(test.keywords, test.position):
            return ""
        simple = "the keyword rule" if test.keywords >= test.position else "position alone"
        return f"these scores mean little: {simple} tells whole from cut as well"
    for simple, over in (
        ("position alone", test.over_position),
        ("the keyword rule", test.over_keywords),
    ):
        if over is not None and over.low <= 0:
            return (
                f"these scores mean little: at the same step {simple} tells whole from cut as well (difference"
                f" {difference(over.value)}, {difference(over.low)} to {difference(over.high)})"
            )
    return ""
