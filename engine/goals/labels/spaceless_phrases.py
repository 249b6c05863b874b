"""Phrases of texts in a script without spaces, such as Chinese, as candidates for labels.

There is no list of words: what is a word is told from the texts themselves. A run of signs is taken for a phrase where
its parts occur together more often than by chance (pointwise mutual information) and where what stands before and after
it varies (accessor variety, Feng et al. 2004, Accessor variety criteria for Chinese word extraction, Computational
Linguistics 30). So a run that cuts a word in two is none.

A *sign* is one character of such a script, a *run* is a sequence of signs without anything between them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from engine.goals.labels.phrases import Phrase
from engine.goals.labels.word_kinds import SIGNS, word_set

MAX_SIGNS_PER_PHRASE = 8
"""Most signs of a phrase."""
MAX_COUNTED_SIGNS = 200_000
"""Signs of all texts together that are counted."""
MAX_TEXT_CHARS = 600
"""Characters of a text that are read."""
MIN_COHESION = 1.0
"""Least pointwise mutual information, in nats, of the two parts of a phrase where they cohere least."""
MIN_VARIETY = 0.3
"""Least number of different signs on either side of a phrase, as a share of its occurrences; the edge of a clause is
always a different one."""

_RUNS = re.compile(rf"[{SIGNS}]+")
"""Matches a run of signs."""
_MEASURES = re.compile(
    "(?:[一两二三四五六七八九十几这那某每](?:个|份|些|场|次|条|顿|套|种|位|件|款|下|点|项|道|张|本|段|趟|篇)"
    "|为期[一二三四五六七八九十几]*[天周月年])的?"
)
"""Numerals with a measure word, which say nothing, as "two pieces of" or "for three days"."""
_OPENING = re.compile(
    "(?:请问|(?<![申邀])请|麻烦|能否|能不能|可以|可否|是否可以|是否能|希望|你能|您能|你可以|您可以)(?:你|您)?(?:能|可以)?(?:帮我|帮忙|给我|为我|替我|协助我|帮助我|帮)?"
    "|(?:帮|给|为|替)(?:我们|我|他们|她们|他|她|自己|忙)"
    "|我们?(?:现在|最近|目前|今年|今天|也|还|就|正在|一直)?(?:想要|想|打算|计划|准备|需要|希望|要|正在|决定)"
    "|(?:想要|打算|希望|需要|想)"
)
"""What comes before what is asked for: "could you help me to", "for us", "I now want to", "hope to"."""
_NOT_FIRST = frozenset(
    "的了吗呢吧啊呀们着过个和与及或是有我你您他她它这那在就也都还很最而但所把被让对从以等又再之其里上下中后前时些点份"
)
"""Signs with which no phrase begins: particles, pronouns, conjunctions, adverbs, prepositions and places."""
_NOT_LAST = frozenset(
    "的了吗呢吧啊呀着和与及或是有我你您他她它这那在就也都还很最而但所把被让对从以又再之其不没想要能会可请帮给为去来一二三两几到用向跟比做个"
)
"""Signs with which no phrase ends: the same kinds, and auxiliary verbs and numerals."""
_EMPTY_WORDS = word_set(
    "什么 怎么 可以 谢谢 你好 您好 好的 推荐 帮忙 建议 一下 如何 问题 方面 时候 没有 因为 所以 比较 觉得 感觉 非常 "
    "或者 如果 还有 那么 这样 详细 具体"
)
"""Words that say nothing about a goal."""


def pairs(text: str) -> set[str]:
    """Returns the pairs of neighboring signs in a text, which stand for its words."""
    return {run[index : index + 2] for run in _RUNS.findall(text) for index in range(len(run) - 1)}


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
        total = sum(len(run) for text_runs in runs for run in text_runs)
        step = max(
            1, math.ceil(total / MAX_COUNTED_SIGNS)
        )  # of too many signs, every so many-th text
        for run in (run for text_runs in runs[::step] for run in text_runs):
            for start in range(len(run)):
                for end in range(start + 1, min(start + MAX_SIGNS_PER_PHRASE, len(run)) + 1):
                    gram = run[start:end]
                    self._counts[gram] += 1
                    if end - start > 1:  # what stands beside single signs is not asked for
                        before.setdefault(gram, Counter())[run[start - 1] if start else ""] += 1
                        after.setdefault(gram, Counter())[run[end : end + 1]] += 1
        self._signs = sum(count for gram, count in self._counts.items() if len(gram) == 1)
        self._varied = {
            gram
            for gram, count in self._counts.items()
            if len(gram) > 1 and count > 1
            and min(_variety(before[gram]), _variety(after[gram])) >= max(2, MIN_VARIETY * count)
        }  # fmt: skip

    def is_phrase(self, run: str) -> bool:
        """Returns whether a run of signs is a word or several."""
        return (
            2 <= len(run) <= MAX_SIGNS_PER_PHRASE
            and run in self._varied
            and run[0] not in _NOT_FIRST
            and run[-1] not in _NOT_LAST
            and run not in _EMPTY_WORDS
            and self._cohesion(run) >= MIN_COHESION
        )

    def _cohesion(self, run: str) -> float:
        """Returns the pointwise mutual information, in nats, of the two parts of a run where they cohere least: with
        probabilities p(x) = count(x) / number of signs, the least log(p(run) / (p(left) p(right))) over all cuts."""
        return min(
            math.log(
                self._counts[run]
                * self._signs
                / (self._counts[run[:index]] * self._counts[run[index:]])
            )
            for index in range(1, len(run))
        )

    def of(self, text: str) -> Iterator[Phrase]:
        """Yields the candidates in a text, in its order; of a request, those that begin it have the verb "do"."""
        requests = 0  # that the text made before this run
        for run in _runs(text):
            openings = list(_OPENING.finditer(run))
            # What is asked for follows the last opening of a run; without one no start is that of a request.
            request_start = openings[-1].end() if openings else len(run)
            for start in range(len(run)):
                for end in range(start + 2, min(start + MAX_SIGNS_PER_PHRASE, len(run)) + 1):
                    is_whole_request = (
                        start == request_start and end == len(run) and run[-1] not in _NOT_LAST
                    )
                    if is_whole_request or self.is_phrase(run[start:end]):
                        request_index = requests if start >= request_start else -1
                        verb = "do" if start == request_start else ""
                        yield Phrase(
                            words=(run[start:end],),
                            content=self._words(run[start:end]),
                            verb=verb,
                            request_index=request_index,
                        )
            requests += bool(openings)

    def _words(self, run: str) -> frozenset[str]:
        """Returns the pairs of signs of a run that are words, or all if none is."""
        sign_pairs = pairs(run)
        return frozenset(pair for pair in sign_pairs if self.is_phrase(pair)) or frozenset(
            sign_pairs
        )


def _runs(text: str) -> list[str]:
    """Returns the runs of signs in the beginning of a text, without measure words."""
    return _RUNS.findall(_MEASURES.sub("", text[:MAX_TEXT_CHARS]))


def _variety(neighbor_counts: Counter[str]) -> int:
    """Returns the number of different neighboring signs; each occurrence at the edge of a run ("") counts as one."""
    return len(neighbor_counts) - ("" in neighbor_counts) + neighbor_counts[""]
