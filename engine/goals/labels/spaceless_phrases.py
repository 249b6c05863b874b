"""Phrases of texts in a script without spaces, such as Chinese, as candidates for labels.

There is no list of words: what is a word is told from the texts themselves. A run of signs is taken for a phrase where
its parts occur together more often than by chance (pointwise mutual information) and where what stands before and after
it varies (accessor variety, Feng et al. 2004, Accessor variety criteria for Chinese word extraction, Computational
Linguistics 30). So a run that cuts a word in two is none.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from engine.goals.labels.phrases import Phrase
from engine.goals.labels.word_kinds import word_set

SIGNS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
LONGEST = 8
"""Most signs of a phrase."""
MOST_SIGNS = 200_000
"""Signs of all texts together that are counted."""
TEXT_CHARS = 600
"""Characters of a text that are read."""
COHESION = 1.0
"""Least pointwise mutual information, in nats, of the two parts of a phrase where they cohere least."""
VARIETY = 0.3
"""Least number of different signs on either side of a phrase, as a share of its occurrences; the edge of a clause is
always a different one."""

_RUNS = re.compile(rf"[{SIGNS}]+")
_MEASURES = re.compile(
    "(?:[一两二三四五六七八九十几这那某每](?:个|份|些|场|次|条|顿|套|种|位|件|款|下|点|项|道|张|本|段|趟|篇)"
    "|为期[一二三四五六七八九十几]*[天周月年])的?"
)
_OPENING = re.compile(
    "(?:请问|(?<![申邀])请|麻烦|能否|能不能|可以|可否|是否可以|是否能|希望|你能|您能|你可以|您可以)(?:你|您)?(?:能|可以)?(?:帮我|帮忙|给我|为我|替我|协助我|帮助我|帮)?"
    "|(?:帮|给|为|替)(?:我们|我|他们|她们|他|她|自己|忙)"
    "|我们?(?:现在|最近|目前|今年|今天|也|还|就|正在|一直)?(?:想要|想|打算|计划|准备|需要|希望|要|正在|决定)"
    "|(?:想要|打算|希望|需要|想)"
)
"""What comes before what is asked for."""
_NOT_FIRST = frozenset(
    "的了吗呢吧啊呀们着过个和与及或是有我你您他她它这那在就也都还很最而但所把被让对从以等又再之其里上下中后前时些点份"
)
_NOT_LAST = frozenset(
    "的了吗呢吧啊呀着和与及或是有我你您他她它这那在就也都还很最而但所把被让对从以又再之其不没想要能会可请帮给为去来一二三两几到用向跟比做个"
)
_SAY_NOTHING = word_set(
    "什么 怎么 可以 谢谢 你好 您好 好的 推荐 帮忙 建议 一下 如何 问题 方面 时候 没有 因为 所以 比较 觉得 感觉 非常 "
    "或者 如果 还有 那么 这样 详细 具体"
)


def pairs(text: str) -> set[str]:
    """The pairs of neighboring signs in a text, which stand for its words."""
    return {run[at : at + 2] for run in _RUNS.findall(text) for at in range(len(run) - 1)}


class SpacelessPhrases:
    """Tells phrases from other runs of signs, by counts over texts.

    Args:
        texts: All texts that labels are sought for; only their signs without spaces count.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts: Counter[str] = Counter()
        before: dict[str, Counter[str]] = {}
        after: dict[str, Counter[str]] = {}
        runs = [_runs(text) for text in texts]
        total = sum(len(run) for found in runs for run in found)
        step = max(1, math.ceil(total / MOST_SIGNS))
        for run in (run for found in runs[::step] for run in found):
            for at in range(len(run)):
                for end in range(at + 1, min(at + LONGEST, len(run)) + 1):
                    gram = run[at:end]
                    self._counts[gram] += 1
                    if end - at > 1:
                        before.setdefault(gram, Counter())[run[at - 1] if at else ""] += 1
                        after.setdefault(gram, Counter())[run[end : end + 1]] += 1
        self._signs = sum(count for gram, count in self._counts.items() if len(gram) == 1)
        self._varied = {
            gram
            for gram, count in self._counts.items()
            if len(gram) > 1 and count > 1
            and min(_variety(before[gram]), _variety(after[gram])) >= max(2, VARIETY * count)
        }  # fmt: skip

    def is_phrase(self, run: str) -> bool:
        """Whether a run of signs is a word or several."""
        return (
            2 <= len(run) <= LONGEST
            and run in self._varied
            and run[0] not in _NOT_FIRST
            and run[-1] not in _NOT_LAST
            and run not in _SAY_NOTHING
            and self._cohesion(run) >= COHESION
        )

    def _cohesion(self, run: str) -> float:
        return min(
            math.log(
                self._counts[run] * self._signs / (self._counts[run[:at]] * self._counts[run[at:]])
            )
            for at in range(1, len(run))
        )

    def of(self, text: str) -> Iterator[Phrase]:
        """The candidates in a text, in its order; of a request, those that begin it have the verb "do"."""
        requests = 0
        for run in _runs(text):
            found = list(_OPENING.finditer(run))
            start = found[-1].end() if found else len(run)
            for at in range(len(run)):
                for end in range(at + 2, min(at + LONGEST, len(run)) + 1):
                    whole = at == start and end == len(run) and run[-1] not in _NOT_LAST
                    if (
                        whole
                        or self.is_phrase(run[at:end])
                        or (at == start and self._ends_word(run[at:end]))
                    ):
                        place = requests if at >= start else -1
                        verb = "do" if at == start else ""
                        yield Phrase((run[at:end],), self._words(run[at:end]), verb, place)
            requests += bool(found)

    def _ends_word(self, run: str) -> bool:
        """Whether a run from the beginning of a request ends with a word, after at least two signs."""
        return run[0] not in _NOT_FIRST and any(
            self.is_phrase(run[-size:]) for size in (2, 3, 4) if len(run) >= size + 2
        )

    def _words(self, run: str) -> frozenset[str]:
        every = pairs(run)
        return frozenset(pair for pair in every if self.is_phrase(pair)) or frozenset(every)


def _runs(text: str) -> list[str]:
    """The runs of signs in the beginning of a text, without measure words."""
    return _RUNS.findall(_MEASURES.sub("", text[:TEXT_CHARS]))


def _variety(found: Counter[str]) -> int:
    return len(found) - ("" in found) + found[""]
