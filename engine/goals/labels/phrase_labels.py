"""Names of clusters without a model: the words that distinguish them, and labels from phrases of their members.

A phrase is weighed by the share of members who ask for it, by the share that contain its content words, and by how
much rarer these words are in the other clusters. No two clusters get the same label.

The *content* of a phrase is the set of the stems of its content words, without its verb: phrases of one content are
wordings of one thing. A *request* is a part of a text that asks for something; what else a text says is an aside.
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
from engine.model.embedders.tfidf import MAX_TEXT_CHARS, term_counter
from engine.model.embedders.vectors import Numbers

MAX_TEXTS_PER_CLUSTER = 200
"""Most texts of a cluster that are read; of more, a random sample."""
MAX_TEXTS, MIN_TEXTS_PER_CLUSTER = 6_000, 20
"""Most texts of all clusters together that are read, but at least this many of each."""
CENTRAL_MEMBERS = 10
"""Members nearest to the center among which the sentence is looked for."""
MAX_SENTENCE_CHARS = 220
"""Most characters of the description of a cluster."""
MAX_PHRASES_PER_CLUSTER = 200
"""Phrases of a cluster that are compared with the other clusters, those asked for by most members."""

LATER_REQUEST_DECAY = 0.5
"""The n-th request of a text counts 1 / (1 + LATER_REQUEST_DECAY n): what is asked for first is the goal more often."""
ASIDE_WEIGHT = 0.1
"""Weight of a phrase outside requests."""
ASKED_EXPONENT, CONTAINED_EXPONENT, CONTRAST_EXPONENT = 0.5, 0.3, 1.5
"""Exponents of the three factors of a score (`_candidates`)."""
SMOOTHING = 0.05
"""Added to shares before they are divided by one another, so that a word which no other cluster has is not infinite."""
SPECIFIC_FACTOR = 1.5
"""Factor for a phrase of more than one content word: "rental car" says more than "car"."""
SHORT_FACTOR = 0.5
"""Factor for a single word of two characters, in any script."""
NO_VERB_FACTOR = 0.3
"""Factor for a phrase without a verb."""
NAME_FIRST_FACTOR = 0.05
"""Factor for a phrase without a verb that begins with a name: a place or a title is seldom what somebody wants."""
MIN_FILLED_SHARE = 0.5
"""A longer phrase counts as much as a part of it where at least this share of the texts with the part contain the rest
too: "find a rental car" as "find a car"."""
MIN_FILLING_SHARE, MIN_FILLING_TEXTS = 0.04, 1.2
"""Least weight of those who ask for the longer phrase, as a share of the texts; and in texts, so that it is not one."""
FIXED_PAIR_SHARE = 0.5
"""A noun phrase is not cut where its words stand together in at least this share of the uses of the second: in "gas
station", not in "cheap restaurant"."""
_VERB_WEIGHTS = {"get": 0.5, "will": 0.5}
"""Weights of verbs beside others for the same content: of those that say little; all others have 1."""
_CLUMSY_FLUENCY = 0.2
"""How well a wording reads, 0–1, that has no verb or is very short."""
_NO_ARTICLE_FACTOR = 0.5
"""Factor to that for a verb with a bare noun in the singular: "set meeting"."""
_ABOVE_PART = 1 + 1e-9
"""Factor to the score of a part that a longer phrase gets, so that it stands just before the part."""
_EDGE_PUNCTUATION = ".,;:!?()[]\"'“”"
"""Punctuation that is stripped from both ends of a word."""
_PHRASE_DRAW, _WORD_DRAW = 0x7068, 0x776F
"""Stand beside the seed for the draw of the texts for phrases and for words, so that these differ ("ph", "wo")."""
_FALLBACK_WORDS = 6
"""Most words of a label that is the beginning of a text."""
_UNNAMED = "Unnamed goal"
"""Label of a cluster without any words."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A phrase that may label a cluster; the score only ranks it among others, the higher the better."""

    score: float
    phrase: Phrase


class _Wordings(NamedTuple):
    """How the same content words are put most often, and how most often with a verb; None if never with one."""

    usual: Phrase
    with_verb: Phrase | None


class _Cluster:
    """The texts of a cluster that were read, and the phrases of each, in the same order."""

    def __init__(self, texts: Sequence[str], phrases: Sequence[Sequence[Phrase]]) -> None:
        self.texts = texts
        self.phrases = phrases
        self._texts_with: defaultdict[str, set[int]] = defaultdict(set)
        for number, text in enumerate(texts):
            for unit in stems(text) | pairs(text):
                self._texts_with[unit].add(number)

    def share(self, content: frozenset[str]) -> float:
        """Returns the share of the texts, in [0, 1], that contain all of these words, in any order and place."""
        texts_with_word = [self._texts_with.get(word, set()) for word in content]
        return len(set.intersection(*texts_with_word)) / len(self.texts)

    def requested_contents(
        self,
    ) -> tuple[dict[frozenset[str], float], dict[frozenset[str], _Wordings]]:
        """Returns two maps by content, in the order of the texts: the weight of the members who ask for it, and how it
        is best put."""
        weights: defaultdict[frozenset[str], float] = defaultdict(float)
        wordings: defaultdict[frozenset[str], defaultdict[Phrase, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        for text_phrases in self.phrases:
            text_weights: dict[frozenset[str], float] = {}
            for phrase in text_phrases:
                weight = (
                    ASIDE_WEIGHT
                    if phrase.request_index < 0
                    else 1 / (1 + LATER_REQUEST_DECAY * phrase.request_index)
                )
                # a text counts once, by the request that weighs most
                text_weights[phrase.content] = max(text_weights.get(phrase.content, 0.0), weight)
                # the same words are one wording, wherever in a text they stand
                counted_phrase = Phrase(
                    phrase.words, phrase.content, verb=phrase.verb, request_index=0
                )
                wordings[phrase.content][counted_phrase] += weight * _fluency(phrase)
            for content, weight in text_weights.items():
                weights[content] += weight
        return weights, {
            content: _best_wordings(weight_by_phrase)
            for content, weight_by_phrase in wordings.items()
        }


def phrase_labels(
    texts: Sequence[str],
    labels: Numbers,
    distances: npt.NDArray[np.floating] | None = None,
    seed: int = 0,
) -> dict[int, Named]:
    """Returns a label for each cluster and the sentence of a central member that says what is wanted.

    Args:
        texts: One for each label; may be a lazy sequence.
        labels: Cluster of each text; negative ones are ignored.
        distances: Of each text to the center of its cluster; None takes the texts in their order.
        seed: Seed of the sample of texts.

    Returns:
        Names by cluster, all labels different; a description is empty where no member wrote a sentence.
    """
    rng = np.random.default_rng([seed, _PHRASE_DRAW])
    numbers = [int(number) for number in np.unique(labels) if number >= 0]
    max_texts = min(
        MAX_TEXTS_PER_CLUSTER, max(MIN_TEXTS_PER_CLUSTER, MAX_TEXTS // max(1, len(numbers)))
    )
    sampled_texts: dict[int, list[str]] = {}
    central: dict[int, list[str]] = {}
    for number in numbers:
        rows = np.flatnonzero(labels == number)
        near = rows if distances is None else rows[np.argsort(distances[rows], kind="stable")]
        central[number] = [texts[int(row)] for row in near[:CENTRAL_MEMBERS]]
        if len(rows) > max_texts:
            rows = np.sort(rng.choice(rows, max_texts, replace=False))
        sampled_texts[number] = [texts[int(row)] for row in rows]
    all_texts = [text for cluster_texts in sampled_texts.values() for text in cluster_texts]
    verbs, usage = verbs_of(all_texts), _Usage(all_texts)
    spaceless = SpacelessPhrases(all_texts)

    def find_phrases(text: str) -> list[Phrase]:
        """Returns the candidates in a text that may be cut where they are."""
        spaced = [phrase for phrase in phrases(text, verbs) if usage.can_cut(phrase)]
        return spaced + list(spaceless.of(text))

    clusters = {
        key: _Cluster(cluster_texts, [find_phrases(text) for text in cluster_texts])
        for key, cluster_texts in sampled_texts.items()
    }
    chosen = _choose_distinct({key: _candidates(key, clusters, usage) for key in numbers})
    named: dict[int, Named] = {}
    label_counts: Counter[str] = Counter()
    for number in numbers:
        best = chosen[number]
        label = _label_text(best, usage) if best else _first_words(central[number])
        label_counts[label] += 1
        if label_counts[label] > 1:
            label = f"{label} ({label_counts[label]})"
        named[number] = Named(label, _sentence(central[number], best, find_phrases), "")
    return named


def _fluency(phrase: Phrase) -> float:
    """Returns how well a wording reads, 0–1, to choose among those of the same content."""
    if not phrase.verb or _is_short(phrase):
        return _CLUMSY_FLUENCY
    last = phrase.words[-1]
    if phrase.verb not in ("do", "will") and len(phrase.words) == 2 and stem(last) == last:
        return _NO_ARTICLE_FACTOR * _VERB_WEIGHTS.get(phrase.verb, 1.0)
    return _VERB_WEIGHTS.get(phrase.verb, 1.0)


def _best_wordings(weights: Mapping[Phrase, float]) -> _Wordings:
    """Returns the wording with the most weight, and that with the most weight among those with a verb."""
    verbs = [phrase for phrase in weights if phrase.verb]
    with_verb = max(verbs, key=weights.__getitem__) if verbs else None
    return _Wordings(max(weights, key=weights.__getitem__), with_verb)


def _is_short(phrase: Phrase) -> bool:
    """Returns whether a phrase is a single word of two characters."""
    return len(phrase.words) == 1 and len(phrase.words[0]) == 2


class _Usage:
    """How words are used, over all texts: how often each, how often two stand together, and how each is spelled."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._words: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            for sentence in sentences(text):
                for form in sentence.split()[1:]:  # the first word has a capital letter anyway
                    bare = form.strip(_EDGE_PUNCTUATION)
                    self._forms[bare.casefold()][bare] += 1
                for clause in clauses(sentence):
                    words = clause.split()
                    self._words.update(words)
                    self._pairs.update(pairwise(words))

    def can_cut(self, phrase: Phrase) -> bool:
        """Returns whether the words that were left out of a phrase are not part of a name or a term."""
        return all(
            self._pairs[pair] < FIXED_PAIR_SHARE * self._words[pair[1]] for pair in phrase.cut
        )

    def form(self, word: str) -> str:
        """Returns a word as most texts write it within sentences: "SQL", "Paris"."""
        spellings = self._forms.get(word)
        return spellings.most_common(1)[0][0] if spellings and is_content(word) else word

    def begins_with_name(self, phrase: Phrase) -> bool:
        """Returns whether a phrase begins with a name."""
        return self.form(phrase.words[0])[:1].isupper()


def _candidates(number: int, clusters: dict[int, _Cluster], usage: _Usage) -> list[_Candidate]:
    """Returns the phrases that may label a cluster, the best first.

    The score of a phrase is the share of the members who ask for it, times the share whose texts have its content,
    times the logarithm of how many times larger this share is than in the mean of the other clusters, each to its
    exponent.
    """
    this_cluster = clusters[number]
    other_clusters = [cluster for key, cluster in clusters.items() if key != number]
    weights, wordings = this_cluster.requested_contents()
    candidates = []
    for content, weight in sorted(weights.items(), key=lambda item: -item[1])[
        :MAX_PHRASES_PER_CLUSTER
    ]:
        inside = this_cluster.share(content)
        outside = sum(other.share(content) for other in other_clusters) / max(
            1, len(other_clusters)
        )
        contrast = math.log((inside + SMOOTHING) / (outside + SMOOTHING))
        if not inside or contrast <= 0:
            continue
        phrase = wordings[content].usual
        score = (
            (weight / len(this_cluster.texts)) ** ASKED_EXPONENT
            * inside**CONTAINED_EXPONENT
            * contrast**CONTRAST_EXPONENT
        )
        score *= SPECIFIC_FACTOR if len(content) > 1 else 1.0
        score *= SHORT_FACTOR if _is_short(phrase) else 1.0
        if not phrase.verb:
            score *= NAME_FIRST_FACTOR if usage.begins_with_name(phrase) else NO_VERB_FACTOR
        candidates.append(_Candidate(score, phrase))
    candidates.sort(key=lambda candidate: -candidate.score)
    min_weight = max(MIN_FILLING_TEXTS, MIN_FILLING_SHARE * len(this_cluster.texts))
    filled = [
        _with_score_of_part(candidate, candidates, this_cluster)
        if weights[candidate.phrase.content] >= min_weight
        else candidate
        for candidate in candidates
    ]
    # "Gas station" is said more often than "go to the gas station", but the latter says what is wanted.
    with_verbs = [
        _Candidate(
            candidate.score, wordings[candidate.phrase.content].with_verb or candidate.phrase
        )
        for candidate in filled
    ]
    return sorted(with_verbs, key=lambda candidate: -candidate.score)


def _with_score_of_part(
    candidate: _Candidate, others: Sequence[_Candidate], this_cluster: _Cluster
) -> _Candidate:
    """Returns a longer phrase with the score of its best part, where most who mention the part mention the rest too.

    Few put all of it into one phrase: who wants a car says elsewhere that it is to be rented.
    """
    phrase = candidate.phrase
    if not phrase.verb:
        return candidate
    inside = this_cluster.share(phrase.content)
    for part in others:
        if part.score <= candidate.score:  # they are sorted: all that follow are no better
            break
        added = phrase.content - part.phrase.content
        if (
            part.phrase.verb
            and part.phrase.content < phrase.content
            and not added <= ADJECTIVES  # "cheap" says how, not what
            and inside >= MIN_FILLED_SHARE * this_cluster.share(part.phrase.content)
        ):
            return _Candidate(part.score * _ABOVE_PART, phrase)
    return candidate


def _choose_distinct(candidates: dict[int, list[_Candidate]]) -> dict[int, Phrase | None]:
    """Returns the best phrase of each cluster that no cluster with a better one has taken; None where none is left."""
    taken_contents: set[frozenset[str]] = set()
    chosen: dict[int, Phrase | None] = {}
    order = sorted(
        candidates, key=lambda key: -(candidates[key][0].score if candidates[key] else 0)
    )
    for key in order:
        free_phrases = (
            candidate.phrase
            for candidate in candidates[key]
            if candidate.phrase.content not in taken_contents
        )
        chosen[key] = next(free_phrases, None)
        if best := chosen[key]:
            taken_contents.add(best.content)
    return chosen


def _label_text(phrase: Phrase, usage: _Usage) -> str:
    """Returns a phrase as a label."""
    label = " ".join(map(usage.form, phrase.words))
    return label[:1].upper() + label[1:]


def _sentence(
    texts: Sequence[str], chosen: Phrase | None, find_phrases: Callable[[str], Sequence[Phrase]]
) -> str:
    """Returns the first sentence that asks for what the label says; else the first that asks for something; else the
    first."""
    first = asking = ""
    for text in texts:
        for sentence in sentences(text):
            requests = [phrase for phrase in find_phrases(sentence) if phrase.request_index >= 0]
            if chosen and any(chosen.content <= phrase.content for phrase in requests):
                return clipped(sentence, MAX_SENTENCE_CHARS)
            asking = asking or (sentence if requests else "")
            first = first or sentence
    return clipped(asking or first, MAX_SENTENCE_CHARS)


def _first_words(texts: Sequence[str]) -> str:
    """Returns the first words of the first text that has any, as a label where no phrase was found."""
    for text in texts:
        for sentence in sentences(text):
            words = sentence.split()[:_FALLBACK_WORDS]
            while words and not is_content(words[-1].casefold().strip(".,!?")):
                words.pop()
            if words:
                label = " ".join(words).strip(" .,;:!?\"'")
                return label[:1].upper() + label[1:]
    return _UNNAMED


MAX_TEXTS_FOR_WORDS = 500
"""Most texts of a cluster that are read; of more, a random sample."""


def distinctive_words(
    texts: Sequence[str], labels: Numbers, count: int = 5, seed: int = 0
) -> dict[int, tuple[str, ...]]:
    """Returns the most distinctive words of each cluster, the most distinctive first.

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
    rng = np.random.default_rng([seed, _WORD_DRAW])
    numbers = [int(number) for number in np.unique(labels) if number >= 0]
    picked: list[str] = []
    owners: list[int] = []
    for index, number in enumerate(numbers):
        rows = np.flatnonzero(labels == number)
        if len(rows) > MAX_TEXTS_FOR_WORDS:
            rows = np.sort(rng.choice(rows, MAX_TEXTS_FOR_WORDS, replace=False))
        picked += [texts[int(row)][:MAX_TEXT_CHARS] for row in rows]
        owners += [index] * len(rows)
    none: dict[int, tuple[str, ...]] = dict.fromkeys(numbers, ())
    counter = term_counter(least=1, longest=1)
    try:
        counts = counter.fit_transform(picked)
    except ValueError:  # no words at all
        return none
    counts.data[:] = 1  # a word counts once for a text
    from scipy.sparse import csr_matrix

    # `groups` has the shape (clusters, texts), 1 where a text is of a cluster; `counts` (texts, words), 1 where it has
    # a word. Their product counts texts by cluster and word.
    where = (owners, np.arange(len(owners)))
    groups = csr_matrix((np.ones(len(owners), dtype=np.float32), where))
    shares = np.asarray((groups @ counts).todense())
    shares /= np.bincount(owners)[:, None]
    weights = shares * np.log1p(1 / np.maximum(shares.mean(axis=0), 1e-9))
    names = counter.get_feature_names_out()
    words_by_cluster = dict(none)
    for index, number in enumerate(numbers):
        # The columns are in alphabetical order, and so are words of equal weight.
        best = np.argsort(-weights[index], kind="stable")[:count]
        words_by_cluster[number] = tuple(
            str(names[term]) for term in best if weights[index, term] > 0
        )
    return words_by_cluster
