"""Names of clusters without a model: the words that distinguish them, and labels from phrases of their members.

A phrase is weighed by the share of members who ask for it, by the share that contain its content words, and by how
much rarer these words are in the other clusters. No two clusters get the same label.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.goals.labels.phrases import ADJECTIVES, Phrase, clauses, phrases, sentences, verbs_of
from engine.goals.labels.spaceless_phrases import SpacelessPhrases, pairs
from engine.goals.labels.word_kinds import is_content, stem, stems
from engine.goals.questions import Named, clipped
from engine.model.embedders.tfidf import MOST_CHARS, term_counter
from engine.model.embedders.vectors import Numbers

TEXTS = 200
"""Most texts of a cluster that are read; of more, a random sample."""
ALL_TEXTS, FEWEST = 6_000, 20
"""Most texts of all clusters together, but for this many of each."""
CENTRAL = 10
"""Members nearest to the center among which the sentence is looked for."""
SENTENCE_CHARS = 220
MOST_PHRASES = 200
"""Phrases of a cluster that are compared with the other clusters, those asked for by most members."""

LATER = 0.5
"""The n-th request of a text counts 1 / (1 + LATER n): what is asked for first is the goal more often."""
ASIDE = 0.1
"""Weight of a phrase outside requests."""
ASKED, CONTAINED, CONTRAST = 0.5, 0.3, 1.5
"""Exponents of the three factors of a score."""
SMOOTHING = 0.05
"""Added to shares before they are compared."""
SPECIFIC = 1.5
"""Factor for a phrase of more than one content word: "rental car" says more than "car"."""
SHORT = 0.5
"""Factor for a single word of two signs."""
NOUNS_ALONE = 0.3
"""Factor for a phrase without a verb."""
NAME_FIRST = 0.05
"""Factor for a phrase without a verb that begins with a name: a place or a title is seldom what somebody wants."""
FILLED = 0.5
"""A longer phrase counts as much as a part of it where at least this share of the texts with the part contain the rest
too: "find a rental car" as "find a car"."""
FILLED_BY, FILLED_BY_FEW = 0.04, 1.2
"""Least weight of those who ask for the longer phrase, as a share of the texts; and in texts, so that it is not one."""
FREE = 0.5
"""A noun phrase is not cut where its words stand together in at least this share of the uses of the second: in "gas
station", not in "cheap restaurant"."""
_WEIGHTS = {"get": 0.5, "will": 0.5}
"""Weights of verbs beside others for the same content."""
_EDGES = ".,;:!?()[]\"'“”"
_UNNAMED = "Unnamed goal"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A phrase that may label a cluster."""

    score: float
    phrase: Phrase


class _Wordings(NamedTuple):
    """How the same content words are put most often, and how most often with a verb; None if never with one."""

    usual: Phrase
    with_verb: Phrase | None


class _Cluster:
    """The texts of a cluster that were read, and their phrases."""

    def __init__(self, texts: Sequence[str], found: Sequence[Sequence[Phrase]]) -> None:
        self.texts = texts
        self.phrases = found
        self._texts_with: defaultdict[str, set[int]] = defaultdict(set)
        for number, text in enumerate(texts):
            for unit in stems(text) | pairs(text):
                self._texts_with[unit].add(number)

    def share(self, content: frozenset[str]) -> float:
        """Share of the texts that contain all of these words."""
        each = [self._texts_with.get(word, set()) for word in content]
        return len(set.intersection(*each)) / len(self.texts)

    def asked(self) -> tuple[dict[frozenset[str], float], dict[frozenset[str], _Wordings]]:
        """By content: the weight of the members who ask for it, and how it is best put; in the order of the texts."""
        weights: defaultdict[frozenset[str], float] = defaultdict(float)
        wordings: defaultdict[frozenset[str], defaultdict[Phrase, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        for found in self.phrases:
            best: dict[frozenset[str], float] = {}
            for phrase in found:
                weight = ASIDE if phrase.place < 0 else 1 / (1 + LATER * phrase.place)
                best[phrase.content] = max(best.get(phrase.content, 0.0), weight)
                plain = Phrase(phrase.words, phrase.content, phrase.verb, 0)
                wordings[phrase.content][plain] += weight * _fluency(phrase)
            for content, weight in best.items():
                weights[content] += weight
        return weights, {key: _best_wordings(put) for key, put in wordings.items()}


def phrase_labels(
    texts: Sequence[str],
    labels: Numbers,
    distances: npt.NDArray[np.floating] | None = None,
    seed: int = 0,
) -> dict[int, Named]:
    """A label for each cluster and the sentence of a central member that says what is wanted.

    Args:
        texts: One for each label; may be a lazy sequence.
        labels: Cluster of each text; negative ones are ignored.
        distances: Of each text to the center of its cluster; None takes the texts in their order.
        seed: Seed of the sample of texts.

    Returns:
        Names by cluster, all labels different; a description is empty where no member wrote a sentence.
    """
    rng = np.random.default_rng([seed, 0x7068])
    numbers = [int(number) for number in np.unique(labels) if number >= 0]
    most = min(TEXTS, max(FEWEST, ALL_TEXTS // max(1, len(numbers))))
    read: dict[int, list[str]] = {}
    central: dict[int, list[str]] = {}
    for number in numbers:
        rows = np.flatnonzero(labels == number)
        near = rows if distances is None else rows[np.argsort(distances[rows], kind="stable")]
        central[number] = [texts[int(row)] for row in near[:CENTRAL]]
        if len(rows) > most:
            rows = np.sort(rng.choice(rows, most, replace=False))
        read[number] = [texts[int(row)] for row in rows]
    everything = [text for own in read.values() for text in own]
    verbs, usage = verbs_of(everything), _Usage(everything)
    spaceless = SpacelessPhrases(everything)

    def found(text: str) -> list[Phrase]:
        spaced = [one for one in phrases(text, verbs) if usage.can_cut(one)]
        return spaced + list(spaceless.of(text))

    clusters = {key: _Cluster(own, [found(text) for text in own]) for key, own in read.items()}
    chosen = _different({key: _candidates(key, clusters, usage) for key in numbers})
    named: dict[int, Named] = {}
    used: Counter[str] = Counter()
    for number in numbers:
        best = chosen[number]
        label = _written(best, usage) if best else _opening(central[number])
        used[label] += 1
        if used[label] > 1:
            label = f"{label} ({used[label]})"
        named[number] = Named(label, _sentence(central[number], best, found), "")
    return named


def _fluency(phrase: Phrase) -> float:
    """How well a wording reads, to choose among those of the same content."""
    if not phrase.verb or _is_short(phrase):
        return 0.2
    last = phrase.words[-1]
    if phrase.verb not in ("do", "will") and len(phrase.words) == 2 and stem(last) == last:
        return 0.5 * _WEIGHTS.get(phrase.verb, 1.0)  # no article: "set meeting"
    return _WEIGHTS.get(phrase.verb, 1.0)


def _best_wordings(weights: Mapping[Phrase, float]) -> _Wordings:
    verbs = [phrase for phrase in weights if phrase.verb]
    with_verb = max(verbs, key=weights.__getitem__) if verbs else None
    return _Wordings(max(weights, key=weights.__getitem__), with_verb)


def _is_short(phrase: Phrase) -> bool:
    """Whether a phrase is a single word of two signs."""
    return len(phrase.words) == 1 and len(phrase.words[0]) == 2


class _Usage:
    """How words are used, over all texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._words: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            for sentence in sentences(text):
                for form in sentence.split()[1:]:
                    bare = form.strip(_EDGES)
                    self._forms[bare.casefold()][bare] += 1
                for clause in clauses(sentence):
                    words = clause.split()
                    self._words.update(words)
                    self._pairs.update(pairwise(words))

    def can_cut(self, phrase: Phrase) -> bool:
        """Whether the words that were left out of a phrase are not part of a name or a term."""
        return all(self._pairs[pair] < FREE * self._words[pair[1]] for pair in phrase.cut)

    def form(self, word: str) -> str:
        """A word as most texts write it within sentences: "SQL", "Paris"."""
        found = self._forms.get(word)
        return found.most_common(1)[0][0] if found and is_content(word) else word

    def begins_with_name(self, phrase: Phrase) -> bool:
        """Whether a phrase begins with a name."""
        return self.form(phrase.words[0])[:1].isupper()


def _candidates(number: int, clusters: dict[int, _Cluster], usage: _Usage) -> list[_Candidate]:
    """Phrases that may label a cluster, the best first."""
    own = clusters[number]
    others = [cluster for key, cluster in clusters.items() if key != number]
    weights, wordings = own.asked()
    found = []
    for content, weight in sorted(weights.items(), key=lambda item: -item[1])[:MOST_PHRASES]:
        inside = own.share(content)
        outside = sum(other.share(content) for other in others) / max(1, len(others))
        contrast = math.log((inside + SMOOTHING) / (outside + SMOOTHING))
        if not inside or contrast <= 0:
            continue
        phrase = wordings[content].usual
        score = (weight / len(own.texts)) ** ASKED * inside**CONTAINED * contrast**CONTRAST
        score *= SPECIFIC if len(content) > 1 else 1.0
        score *= SHORT if _is_short(phrase) else 1.0
        if not phrase.verb:
            score *= NAME_FIRST if usage.begins_with_name(phrase) else NOUNS_ALONE
        found.append(_Candidate(score, phrase))
    found.sort(key=lambda one: -one.score)
    least = max(FILLED_BY_FEW, FILLED_BY * len(own.texts))
    filled = [
        _filled(one, found, own) if weights[one.phrase.content] >= least else one for one in found
    ]
    # "Gas station" is said more often than "go to the gas station", but the latter says what is wanted.
    worded = [
        _Candidate(one.score, wordings[one.phrase.content].with_verb or one.phrase)
        for one in filled
    ]
    return sorted(worded, key=lambda one: -one.score)


def _filled(candidate: _Candidate, others: Sequence[_Candidate], own: _Cluster) -> _Candidate:
    """A longer phrase with the score of its best part, where most who mention the part mention the rest too.

    Few put all of it into one phrase: who wants a car says elsewhere that it is to be rented.
    """
    phrase = candidate.phrase
    if not phrase.verb:
        return candidate
    inside = own.share(phrase.content)
    for part in others:
        if part.score <= candidate.score:
            break
        added = phrase.content - part.phrase.content
        if (
            part.phrase.verb
            and part.phrase.content < phrase.content
            and not added <= ADJECTIVES
            and inside >= FILLED * own.share(part.phrase.content)
        ):
            return _Candidate(part.score * (1 + 1e-9), phrase)
    return candidate


def _different(candidates: dict[int, list[_Candidate]]) -> dict[int, Phrase | None]:
    """The best phrase of each cluster that no cluster with a better one has taken."""
    taken: set[frozenset[str]] = set()
    chosen: dict[int, Phrase | None] = {}
    order = sorted(
        candidates, key=lambda key: -(candidates[key][0].score if candidates[key] else 0)
    )
    for key in order:
        free = (one.phrase for one in candidates[key] if one.phrase.content not in taken)
        chosen[key] = next(free, None)
        if best := chosen[key]:
            taken.add(best.content)
    return chosen


def _written(phrase: Phrase, usage: _Usage) -> str:
    """A phrase as a label."""
    label = " ".join(map(usage.form, phrase.words))
    return label[:1].upper() + label[1:]


def _sentence(
    texts: Sequence[str], chosen: Phrase | None, found: Callable[[str], Sequence[Phrase]]
) -> str:
    """The first sentence that asks for what the label says; else the first that asks for something; else the first."""
    first = asking = ""
    for text in texts:
        for sentence in sentences(text):
            asked = [one for one in found(sentence) if one.place >= 0]
            if chosen and any(chosen.content <= one.content for one in asked):
                return clipped(sentence, SENTENCE_CHARS)
            asking = asking or (sentence if asked else "")
            first = first or sentence
    return clipped(asking or first, SENTENCE_CHARS)


def _opening(texts: Sequence[str]) -> str:
    """The first words of the first text that has any, as a label where no phrase was found."""
    for text in texts:
        for sentence in sentences(text):
            words = sentence.split()[:6]
            while words and not is_content(words[-1].casefold().strip(".,!?")):
                words.pop()
            if words:
                label = " ".join(words).strip(" .,;:!?\"'")
                return label[:1].upper() + label[1:]
    return _UNNAMED


TEXTS_FOR_WORDS = 500
"""Most texts of a cluster that are read; of more, a random sample."""


def distinctive_words(
    texts: Sequence[str], labels: Numbers, count: int = 5, seed: int = 0
) -> dict[int, tuple[str, ...]]:
    """The most distinctive words of each cluster, the most distinctive first.

    The weight of a word is the share of the cluster's texts that contain it times log(1 + 1 / its mean share over
    clusters). That is the class-based TF-IDF of Grootendorst (2022, BERTopic), but counts texts instead of occurrences,
    so that one repetitive text does not name the cluster.

    Args:
        texts: One for each label; may be a lazy sequence.
        labels: Cluster of each text; negative ones are ignored.
        count: Most words for a cluster.
        seed: Seed of the sample of texts.

    Returns:
        Words by cluster; empty for a cluster without a distinctive word.
    """
    rng = np.random.default_rng([seed, 0x776F])
    numbers = [int(number) for number in np.unique(labels) if number >= 0]
    picked: list[str] = []
    owners: list[int] = []
    for place, number in enumerate(numbers):
        rows = np.flatnonzero(labels == number)
        if len(rows) > TEXTS_FOR_WORDS:
            rows = np.sort(rng.choice(rows, TEXTS_FOR_WORDS, replace=False))
        picked += [texts[int(row)][:MOST_CHARS] for row in rows]
        owners += [place] * len(rows)
    none: dict[int, tuple[str, ...]] = dict.fromkeys(numbers, ())
    counter = term_counter(least=1, longest=1)
    try:
        counts = counter.fit_transform(picked)
    except ValueError:  # no words at all
        return none
    counts.data[:] = 1
    from scipy.sparse import csr_matrix

    where = (owners, np.arange(len(owners)))
    groups = csr_matrix((np.ones(len(owners), dtype=np.float32), where))
    shares = np.asarray((groups @ counts).todense())
    shares /= np.bincount(owners)[:, None]
    weights = shares * np.log1p(1 / np.maximum(shares.mean(axis=0), 1e-9))
    names = counter.get_feature_names_out()
    found = dict(none)
    for place, number in enumerate(numbers):
        # The columns are in alphabetical order, and so are words of equal weight.
        best = np.argsort(-weights[place], kind="stable")[:count]
        found[number] = tuple(str(names[term]) for term in best if weights[place, term] > 0)
    return found
