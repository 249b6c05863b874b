"""Names of clusters without a model, from phrases of their members.

A name claims no more than members support: at least half have its content words, and ask for its act or for no other
act on that thing. Of the requests that are supported, one is chosen by the share of the members who make it, by its
support, and by how much rarer its content words are in the other clusters; what many of the others ask for follows it.
Where no request has that support, the name has the verb of most members ("Return something"), the quality of the things
that they look for ("Look for long lasting things"), or the things that most of them name ("Ask about dogs or owners",
"Get help with my account", "Work with files"). Members without any of these have no request in common, and the name
says so, without support. Names of places, people and products are values, no part of a
phrase; they follow it where two clusters would have the same name ("Find a restaurant · Lebanese, Swedish").

The *content* of a phrase is the set of the stems of its content words, without its verb: phrases of one content are
wordings of one thing. A *request* is a part of a text that asks for something; what else a text says is an aside.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.goals.labels.phrases import (
    ADJECTIVES,
    PARTICLES,
    Phrase,
    clauses,
    indefinite_article,
    is_role,
    phrases,
    qualities,
    sentences,
    verbs_of,
)
from engine.goals.labels.spaceless_phrases import SpacelessPhrases, pairs
from engine.goals.labels.word_kinds import (
    DETERMINERS,
    NUMBERS,
    PREPOSITIONS,
    REQUEST_VERBS,
    VAGUE_STEMS,
    is_content,
    is_participle,
    stem,
    stems,
    word_set,
    words_of,
)
from engine.goals.questions import Named, clipped
from engine.goals.records import GoalText, Support, subject_of_reasons
from engine.model.embedders.tfidf import MAX_TEXT_CHARS
from engine.model.embedders.vectors import Numbers

MAX_TEXTS_PER_CLUSTER = 200
"""Most texts of a cluster that are read; of more, a random sample."""
MAX_TEXTS, MIN_TEXTS_PER_CLUSTER = 6_000, 20
"""Most texts of all clusters together that are read, but at least this many of each."""
CENTRAL_MEMBERS = 10
"""Members nearest to the center among which the sentence is looked for."""
MAX_SENTENCE_CHARS = 220
"""Most characters of the description of a cluster."""
MIN_SUPPORT = 0.5
"""Least share of the members that ask for what the name of the cluster says."""
NEARLY_HALF = 0.445
"""Least support less its standard error."""
MIN_INSTRUCTION_WORDS = 8
"""What half of the members repeat word for word was written by a program, and is no request, where one sentence of it
has this many words."""
MIN_ECHOES = 3
"""Times that one text has a sentence from which on it is a program's, as "Give me one action."; and members that begin
alike from which on a list shows what follows."""
MIN_REQUEST_SUPPORT, MANY_ASKING = 0.65, 0.3
"""Least support of a request that is a name alone; and the weight of those who ask for it, as a share of the members,
from which on half is enough, and it may be asked for in other clusters as well."""
LATER_REQUEST_DECAY = 0.5
"""The n-th request of a text counts 1 / (1 + LATER_REQUEST_DECAY n): what is asked for first is the goal more often."""
ASIDE_WEIGHT = 0.1
"""Weight of a phrase outside requests."""
SMOOTHING = 0.05
"""Added to shares before they are divided by one another, so that a word which no other cluster has is not infinite."""
SPECIFIC_FACTOR = 1.5
"""Factor for a phrase of more than one content word: "rental car" says more than "car"."""
MIN_NAME_SHARE = 0.7
"""Least share of the uses of a word, within sentences, that begin with a capital letter where it is a name."""
FIXED_PAIR_SHARE = 0.75
"""A noun phrase is not cut where its words stand together in at least this share of the uses of the second: in "gas
station", not in "cheap restaurant"."""
MAX_CONTINUED_SHARE = 0.6
"""A phrase does not end with a word that a further word of a noun phrase, or an adverb as of a verb, follows in more
than this share of its uses: "gluten" ("free"), "pick" ("up")."""
MIN_ADDED_SHARE = 0.12
"""Least share of the members that a further thing adds to the support of a name; at least two members, which the first
thing has, too."""
MAX_REQUESTS = 3
"""Most requests in a name."""
MOSTLY_COVERED, MIN_ADDED_LATER = 0.6, 0.2
"""Share of the members from which on a name says what most want; and the least share that a further thing adds then."""
MIN_FIRST_SHARE, LEAST_CONTRAST = 0.4, 0.3
"""Least share of the members that ask for a request first where it names a cluster though other clusters ask for it as
often; and the contrast that it has then."""
FIRST_OFFSET = 0.5
"""Added to the share of those who ask for a request first, which is a factor of its score."""
MIN_KIND_SHARE, MIN_MODIFIERS = 0.1, 5
"""A word before a noun is a value where it stands before it in less than this share of its uses, and the noun has at
least this many others: in "lebanese restaurant", not in "rental car"."""
OPENING_WORDS = 60
"""First words of a text in which it says what help is wanted with; a long form names many things."""
OWN_FACTOR = 1.5
"""Factor of a topic that members call theirs: "my invention"."""
MIN_PLACE_SHARE = 0.5
"""Least share of the uses of a word that stand without a determiner after "in", "from" and the like where it is a value."""
MIN_NOUN_SHARE = 0.1
"""Least share of the uses of a word after a determiner or a preposition where questions are about it: not of "born"."""
MIN_ASKING = 1.5
"""Least weight of the members who ask for a request that a name lists: of one alone it says nothing."""
MIN_LISTED_SHARE, MIN_LISTED_CONTRAST = 0.15, 1.0
"""Least share of the members that have a request which a name lists, and its least contrast."""
MIN_LIST_SUPPORT, MIN_QUALITY_SUPPORT, MIN_THING_SUPPORT = 0.55, 0.7, 0.75
"""Least support of a list of requests and of a topic, of a quality, and of a thing that members look for."""
MIN_TOPIC_CONTRAST, MIN_TOPIC_MEMBERS = 1.8, 5
"""Least contrast of a topic and of a quality; and the least number of members who name a topic that stands alone."""
LISTED_SUPPORT, LEAST_SUPPORT = 0.8, 0.4
"""The support of a name from which on nothing more is listed; and the least of a name that a
model writes."""
MIN_ASKED_SHARE, MIN_CHOSEN_SHARE = 0.05, 0.15
"""Least weight of those who ask for a request that a name lists, and for the one that is the name, as a share of the
members."""
MIN_QUESTIONS, MIN_PARTLY_QUESTIONS = 0.4, 0.2
"""Least share of the members that begin with a question where a name says that they ask about something; and where the
last request of a list says so."""
MAX_TELLING_WORDS, MIN_TELLING_SHARE, MIN_TELLING_CONTRAST = 2, 0.2, 0.7
"""Most words that tell two clusters of one name apart, the least share of the members that have such a word, and its
least contrast to the other clusters of that name."""
MIN_VERB_AGREEMENT = 0.6
"""Least share of the members' first requests that have one verb where a name lists things with it."""
MIN_NOUNS = 4
"""Least number of different things of which members want a quality that names a cluster."""
MIN_DETERMINER_SHARE = 0.2
"""Least share of the uses of a noun that have its commonest determiner where a name has it."""
GET_SHARE, MIN_VERB_SHARE = 0.2, 0.05
"""The share of the members that is taken for those who say "get", which stands for several verbs; and the share below
which it stands for the verb of a phrase, too."""
_WEAK_VERBS = {"": 1.0, "do": 1.0, "get": 0.5, "count": 0.5, "go": 1.0}
"""Verbs that say little, with their weights beside others for the same content; all others have 1."""
_NEAR_EQUALS = (
    word_set("book reserve buy make schedule purchase"),
    word_set("organize plan throw arrange prepare"),
    word_set("create make write generate develop build"),
    word_set("remove delete clear"),
    word_set("change update modify edit"),
)
"""Verbs of one act: who uses one of them asks for what another of them says."""
_OPEN_VERBS = word_set("do go get find look search check see list count") | {""}
"""Verbs that claim no more of an act than that somebody wants the thing."""
_BEFORE_NOUNS = (
    DETERMINERS
    | PREPOSITIONS
    | NUMBERS
    | REQUEST_VERBS
    | word_set("many much more most which what whose other same")
)
"""Words that a noun may follow."""
_PLACE_WORDS = word_set("in from at near called named")
"""Words before the names of places and things."""
_NO_ARTICLE_FACTOR = 0.5
"""How well a verb reads with a bare noun in the singular, 0–1: "set meeting"."""
_EDGE_PUNCTUATION = ".,;:!?()[]\"'“”"
"""Punctuation that is stripped from both ends of a word."""
_PHRASE_DRAW = 0x7068
"""Stands beside the seed for the draw of the texts, so that it differs from other draws ("ph")."""
_QUESTION = re.compile(
    r"\W*(?:(?:hi|hello|hey|please|so|and|ok|okay|tell me|i want to know)\W+)*(?:what|which|who|whose|how|when|where"
    r"|why|is|are|was|were|do|does|did|has|will)\b",
    re.IGNORECASE,
)
"""How a text begins that asks a question."""
_PARTS = re.compile(r"(?<=[.!?:])\s+|\n+")
"""What separates the parts of a text that a program may have written."""
OTHER_REQUESTS, OTHER_REASONS = "Other requests", "Other reasons"
"""Labels of a cluster whose members have nothing in common."""


class _Request(NamedTuple):
    """The weight of the members who ask for a content, as a share of all, and how they put it best."""

    share: float
    phrase: Phrase


class _Cluster:
    """The texts of a cluster that were read, and the phrases of each, in the same order."""

    def __init__(self, texts: Sequence[str], phrases: Sequence[Sequence[Phrase]]) -> None:
        self.texts = texts
        self.phrases = phrases
        question_share = sum(map(bool, map(_QUESTION.match, texts))) / len(texts)
        self.are_questions = question_share >= MIN_QUESTIONS
        self.are_partly_questions = MIN_PARTLY_QUESTIONS <= question_share < MIN_QUESTIONS
        first_words = (text.split(maxsplit=1)[:1] for text in texts)
        commands = sum(word.casefold() in REQUEST_VERBS for words in first_words for word in words)
        self.are_commands = commands >= MIN_SUPPORT * len(texts)
        self._texts_with: defaultdict[str, set[int]] = defaultdict(set)
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for index, text in enumerate(texts):
            for word in words_of(text):
                self._texts_with[word].add(index)
                self._texts_with[stem(word)].add(index)
                if is_content(word) and word not in REQUEST_VERBS and not word.endswith("'s"):
                    self._forms[stem(word)][word] += 1
                for part in word.split("-"):  # "non-gmo" as "non gmo"
                    self._texts_with[part].add(index)
            for pair in pairs(text):
                self._texts_with[pair].add(index)

    def texts_with(self, content: frozenset[str]) -> set[int]:
        """Returns the indices of the texts that contain all of these words, in any order and place."""
        return set.intersection(*(self._texts_with.get(word, set()) for word in content))

    def share(self, content: frozenset[str]) -> float:
        """Returns the share of the texts, in [0, 1], that contain all of these words, in any order and place."""
        return len(self.texts_with(content)) / len(self.texts)

    @cached_property
    def usage(self) -> _Usage:
        """Returns how words are used in these texts."""
        return _Usage(self.texts)

    @cached_property
    def first_requests(self) -> list[frozenset[str]]:
        """Returns the words of the first request of each text; none where it has none."""
        return [
            frozenset().union(*(phrase.content for phrase in phrases if phrase.request_index == 0))
            for phrases in self.phrases
        ]

    def texts_beginning(self, content: frozenset[str]) -> set[int]:
        """Returns the indices of the texts that ask for these words first."""
        return {index for index, words in enumerate(self.first_requests) if content <= words}

    def texts_opening_with(self, content: frozenset[str]) -> set[int]:
        """Returns the indices of the texts that have these stems among their first `OPENING_WORDS` words."""
        return {index for index, opening in enumerate(self._openings) if content <= opening}

    @cached_property
    def _openings(self) -> list[set[str]]:
        """Returns the stems of the first words of each text."""
        return [stems(" ".join(text.split()[:OPENING_WORDS])) for text in self.texts]

    def texts_asking(self, request: Phrase) -> set[int]:
        """Returns the indices of the texts that contain the content of a request, with a verb of its act. Where two
        have one, others count that ask for no other act on it ("my parcel is late", of "track my parcel"), unless
        members command."""
        texts = self.texts_with(request.content)
        if request.verb in _OPEN_VERBS or self.are_partly_questions:
            return texts
        near_equals = (verbs for verbs in _NEAR_EQUALS if request.verb in verbs)
        verbs = frozenset({request.verb}).union(*near_equals)
        acting = texts & set().union(*map(self._texts_with_verb, verbs))
        if self.are_commands or len(acting) < 2:
            return acting
        return acting | {
            index
            for index in texts
            if not any(
                phrase.verb and request.content <= phrase.content for phrase in self.phrases[index]
            )
        }

    def support(self, *texts: set[int]) -> Support:
        """Returns how many of the texts are in one of these sets of indices."""
        return Support(len(set().union(*texts)), len(self.texts))

    def has(self, least: float, *texts: set[int]) -> bool:
        """Returns whether the share of the texts in one of these sets of indices reaches a threshold, and nearly half
        less its standard error, because of few texts some are there by chance."""
        share = self.support(*texts).share
        error = math.sqrt(share * (1 - share) / len(self.texts))
        return share >= least and share - error >= NEARLY_HALF

    def words(self, *, with_adjectives: bool = False) -> list[str]:
        """Returns the stems of the content words of the texts, and the pairs of signs, those of most texts first."""
        return sorted(
            (
                word
                for word in self._forms
                if _says_much(word) or (with_adjectives and word in ADJECTIVES)
            ),
            key=lambda word: (-len(self._texts_with[word]), word),
        )

    def heads(self) -> set[str]:
        """Returns the stems of the last words of all phrases, which are nouns."""
        heads = (stem(phrase.words[-1]) for phrases in self.phrases for phrase in phrases)
        return set(filter(_says_much, heads))

    def form(self, of_stem: str) -> str:
        """Returns the word of a stem that most texts contain, of equal ones the longest: "series" of "sery"."""
        forms = self._forms.get(of_stem, Counter())
        return max(forms, key=lambda word: (forms[word], len(word), word), default=of_stem)

    def verb_share(self, verb: str) -> float:
        """Returns the share of the texts, in [0, 1], that contain a form of a verb."""
        return len(self._texts_with_verb(verb)) / len(self.texts)

    def _texts_with_verb(self, verb: str) -> set[int]:
        """Returns the indices of the texts that contain a form of a verb."""
        base = verb.removesuffix("e")
        forms = (verb, f"{verb}s", f"{base}ing", f"{base}ed", f"{verb}{verb[-1:]}ing")
        return set().union(*(self._texts_with.get(form, set()) for form in forms))

    def asks_about(self, verb: str) -> bool:
        """Returns whether members ask about what a phrase with this verb names: they ask questions, and the verb says
        little or most do not use it ("when do I play tennis?", not "schedule tennis")."""
        is_of_few = verb not in _OPEN_VERBS and self.verb_share(verb) < MIN_SUPPORT
        return self.are_questions and (verb in ("get", "count", "list") or is_of_few)

    @cached_property
    def requests(self) -> dict[frozenset[str], _Request]:
        """Returns what members ask for, by content, in the order of the texts."""
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
                if phrase.verb or len(phrase.words) == 1:
                    # the same words are one wording, wherever in a text they stand
                    wording = replace(phrase, request_index=0, cut=())
                    wordings[phrase.content][wording] += weight * _fluency(phrase)
            for content, weight in text_weights.items():
                weights[content] += weight
        return {
            content: _Request(weights[content] / len(self.texts), self._best_wording(counts))
            for content, counts in wordings.items()
        }

    def _best_wording(self, weights: Mapping[Phrase, float]) -> Phrase:
        """Returns the wording with the most weight times the share of the texts with its verb; "get" stands in for a
        verb of few."""
        verb_worth: Counter[str] = Counter()
        for phrase, weight in weights.items():
            is_weak = phrase.verb in _WEAK_VERBS
            share = GET_SHARE if is_weak else self.verb_share(phrase.verb)
            verb_worth[phrase.verb] += weight * share  # type: ignore[assignment]
        verb = max(verb_worth, key=verb_worth.__getitem__)
        best = max((phrase for phrase in weights if phrase.verb == verb), key=weights.__getitem__)
        if best.verb in _WEAK_VERBS or self.verb_share(best.verb) >= MIN_VERB_SHARE:
            return best
        return replace(best, words=("get", *best.words[len(_verb_of(best)) :]), verb="get")

    def activity(self) -> tuple[str, ...]:
        """Returns the verb of what most members do with different things: they ask about them, or their first requests
        have one verb; empty where they do not."""
        if self.are_questions:
            return "ask", "about"
        requests = ([phrase for phrase in phrases if phrase.verb] for phrases in self.phrases)
        verbs = Counter(_verb_of(first) for first, *_ in filter(None, requests)).most_common()
        kinds: Counter[str] = Counter()
        for verb, count in verbs:
            kinds[_kind(verb[0]) if verb else ""] += count
        for kind, count in kinds.most_common(1):
            if count >= max(LEAST_SUPPORT * len(self.texts), MIN_VERB_AGREEMENT * kinds.total()):
                return next((verb for verb, _ in verbs if verb and _kind(verb[0]) == kind), ())
        return ()


def phrase_labels(
    texts: Sequence[str],
    labels: Numbers,
    distances: npt.NDArray[np.floating] | None = None,
    seed: int = 0,
    kind: GoalText = "first-user",
) -> dict[int, Named]:
    """Returns a label for each cluster with its support, and the sentence of a central member that says what is wanted.

    Args:
        texts: One for each label; may be a lazy sequence.
        labels: Cluster of each text; negative ones are ignored.
        distances: Of each text to the center of its cluster; None takes the texts in their order.
        seed: Seed of the sample of texts.
        kind: What the texts are: of reasons a topic is a name by itself, of goals it is what members get help with.

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
        near = near[:CENTRAL_MEMBERS]
        if len(rows) > max_texts:
            rows = np.sort(rng.choice(rows, max_texts, replace=False))
        read = without_instructions([texts[int(row)] for row in [*near, *rows]])
        central[number], sampled_texts[number] = read[: len(near)], read[len(near) :]
    all_texts = [text for cluster_texts in sampled_texts.values() for text in cluster_texts]
    verbs, usage = verbs_of(all_texts), _Usage(all_texts)
    spaceless = SpacelessPhrases(all_texts)

    def find_phrases(text: str) -> list[Phrase]:
        """Returns the candidates in a text that may be cut where they are."""
        spaced = [phrase for phrase in phrases(text, verbs) if usage.is_whole(phrase)]
        return spaced + list(spaceless.of(text))

    clusters = {
        key: _Cluster(cluster_texts, [find_phrases(text) for text in cluster_texts])
        for key, cluster_texts in sampled_texts.items()
    }
    chosen = {number: _best_request(number, clusters, usage) for number in numbers}
    asks = not subject_of_reasons(kind)
    names = {number: _name(number, chosen[number], clusters, usage, asks) for number in numbers}
    full_labels = _told_apart(names, clusters, usage)
    return {
        number: replace(
            name,
            label=full_labels[number],
            description=_sentence(central[number], chosen[number], find_phrases),
        )
        for number, name in names.items()
    }


def support_of(label: str, texts: Sequence[str]) -> Support:
    """Returns how many of the texts of a cluster contain the content words of a label, its verb aside."""
    stripped = without_instructions(texts)
    cluster = _Cluster(stripped, [[] for _ in stripped])
    words = frozenset(stems(label) - REQUEST_VERBS | pairs(label))
    return cluster.support(cluster.texts_with(words)) if words else Support(0, len(texts))


def without_instructions(texts: Sequence[str]) -> list[str]:
    """Returns the texts of a group without what a program wrote in them: sentences that half of the members repeat
    word for word (`MIN_INSTRUCTION_WORDS`), and sentences that one text has several times. No text is left empty."""
    parts = [_PARTS.split(text[:MAX_TEXT_CHARS]) for text in texts]
    counts = Counter(part for text_parts in parts for part in set(text_parts))
    repeated = {part for part, count in counts.items() if part and 2 * count >= len(texts) > 4}
    if max((len(part.split()) for part in repeated), default=0) < MIN_INSTRUCTION_WORDS:
        repeated = set()
    stripped = []
    for text, text_parts in zip(texts, parts, strict=True):
        counts = Counter(text_parts)
        request = [
            part for part in text_parts if part not in repeated and counts[part] < MIN_ECHOES
        ]
        stripped.append("\n".join(request) or text)
    return stripped


def distinct_starts(texts: Sequence[str]) -> list[int]:
    """Returns where each text begins to differ: after the sentences that `MIN_ECHOES` of the texts begin with; 0 where
    nothing follows them."""
    openings = Counter(text[:end] for text in texts for end in _sentence_ends(text))
    return [
        max((end for end in _sentence_ends(text) if openings[text[:end]] >= MIN_ECHOES), default=0)
        for text in texts
    ]


def _sentence_ends(text: str) -> list[int]:
    """Returns where the second and the next sentences of a text begin, at most `MIN_ECHOES` of them."""
    return [match.end() for match in islice(_PARTS.finditer(text.rstrip()), MIN_ECHOES)]


def _fluency(phrase: Phrase) -> float:
    """Returns how well a wording reads, 0–1, to choose among those of the same content."""
    weight = _WEAK_VERBS.get(phrase.verb, 1.0)
    if len(phrase.words) == 2 and stem(phrase.words[1]) == phrase.words[1]:
        return _NO_ARTICLE_FACTOR * weight
    return weight


def _says_much(word: str) -> bool:
    """Returns whether a stem may stand alone in a name."""
    return (
        len(word) > 2
        and is_content(word)
        and word not in VAGUE_STEMS | ADJECTIVES
        and not is_participle(word)
    )


class _Usage:
    """How words are used, over all texts: how often each, how often two stand together, and how each is spelled."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._words: Counter[str] = Counter()
        self._continued: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._as_nouns: Counter[str] = Counter()
        self._as_places: Counter[str] = Counter()
        self._modifiers: Counter[str] = Counter()
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            for sentence in sentences(text):
                for form in sentence.split()[1:]:  # the first word has a capital letter anyway
                    bare = form.strip(_EDGE_PUNCTUATION)
                    self._forms[bare.casefold()][bare] += 1
                for clause in clauses(sentence):
                    if is_role(clause):
                        continue
                    words = clause.split()
                    self._words.update(words)
                    for first, second in pairwise(words):
                        self._pairs[first, second] += 1
                        self._continued[first] += second in PARTICLES or is_content(second)
                    self._note_uses(words)
        self._before = {
            second: (first,)
            for (first, second), count in self._pairs.items()
            if count >= max(2, FIXED_PAIR_SHARE * self._words[second]) and is_content(first)
        }
        self._modifiers.update(
            second for first, second in self._pairs if is_content(first) and is_content(second)
        )

    def _note_uses(self, words: Sequence[str]) -> None:
        """Counts the words of a clause that stand as nouns, and as the names of places and things do."""
        is_noun = is_place = False
        for word in words:
            if is_content(word) and word not in REQUEST_VERBS:
                self._as_nouns[word] += is_noun
                self._as_places[word] += is_place
            else:
                is_noun = word in _BEFORE_NOUNS
                is_place = word in _PLACE_WORDS

    def is_value(self, word: str) -> bool:
        """Returns whether a word is a name by its capital letters or by the places where it stands."""
        return self.is_name(word) or (
            self._as_places[word] >= max(2, MIN_PLACE_SHARE * self._words[word])
        )

    def is_noun(self, word: str) -> bool:
        """Returns whether a word stands as a noun."""
        return self._as_nouns[word] >= MIN_NOUN_SHARE * self._words[word]

    def has_varying_word(self, phrase: Phrase) -> bool:
        """Returns whether a word before a noun of a phrase is one of many that stand there: "lebanese restaurant"."""
        return any(
            (first in ADJECTIVES or self._pairs[first, noun] < MIN_KIND_SHARE * self._words[noun])
            and self._modifiers[noun] >= MIN_MODIFIERS
            for first, noun in pairwise(phrase.words)
            if stem(first) in phrase.content and stem(noun) in phrase.content
        )

    def is_whole(self, phrase: Phrase) -> bool:
        """Returns whether no word that was left out of a phrase is part of a name or a term, and whether its last word
        wants none after it."""
        return self.is_thing(phrase.words[-1]) and all(
            self._pairs[pair] < FIXED_PAIR_SHARE * self._words[pair[1]] for pair in phrase.cut
        )

    def is_thing(self, word: str) -> bool:
        """Returns whether a word ends a noun phrase in most of its uses, so that it is no first half of a term."""
        return self._continued[word] <= MAX_CONTINUED_SHARE * self._words[word]

    def topic(self, noun: str) -> str:
        """Returns a noun with the word that mostly stands before it, in the plural where that is common, else with its
        commonest determiner where it often has one: "taxes", "my account", "the life support"."""
        words = (*self._before.get(noun, ()), noun)
        counts = {article: self._pairs[article, words[0]] for article in ("my", "the", "a", "an")}
        article = max(counts, key=counts.__getitem__)
        plurals = (f"{noun}s", f"{noun}es", f"{noun[:-1]}ies" if noun.endswith("y") else "")
        plural = max(plurals, key=self._words.__getitem__)
        if article != "my" and 4 * self._words[plural] >= self._words[noun]:
            return " ".join((*words[:-1], plural))
        if stem(noun) != noun or counts[article] < MIN_DETERMINER_SHARE * self._words[words[0]]:
            return " ".join(words)
        return " ".join((article if article[0] != "a" else indefinite_article(words[0]), *words))

    def terms(self, words: Sequence[str]) -> list[str]:
        """Returns words, each with the one that mostly stands before it ("remote control"), which is no further word
        then."""
        full = [(*self._before.get(word, ()), word) for word in words]
        terms = [term for term in full if not any(set(term) < set(other) for other in full)]
        return [" ".join(map(self.form, term)) for term in terms]

    def form(self, word: str) -> str:
        """Returns a word as most texts write it within sentences: "SQL", "Paris"."""
        spellings = self._forms.get(word)
        if not spellings or not is_content(word) or word in ADJECTIVES:
            return word
        form = spellings.most_common(1)[0][0]
        return word if form.istitle() and not self.is_name(word) else form

    def has_value(self, phrase: Phrase) -> bool:
        """Returns whether a phrase has the name of a place, a person or a title, or a code after a preposition ("a
        flight from JFK"): values that differ between those who want the same."""
        linked = False
        for word in phrase.words:
            linked = linked or word in PREPOSITIONS
            if self.is_value(word) or (linked and self.form(word).isupper()):
                return True
        return self.has_varying_word(phrase)

    def is_name(self, word: str) -> bool:
        """Returns whether most uses of a word within sentences begin with a capital letter, which not all letters
        are: "Paris", but not "SQL"."""
        spellings = self._forms.get(word)
        if not spellings or not is_content(word) or word in ADJECTIVES:
            return False
        if spellings.most_common(1)[0][0].isupper():
            return False
        capital = sum(count for form, count in spellings.items() if form[:1].isupper())
        return capital >= MIN_NAME_SHARE * spellings.total()


def _best_request(number: int, clusters: Mapping[int, _Cluster], usage: _Usage) -> Phrase | None:
    """Returns the supported request that says best what a cluster is; None where none is supported.

    The score of a request is the share of the members who make it, times the square root of the share of those who
    have its content, times the contrast of that.
    """
    cluster = clusters[number]
    scores: dict[Phrase, float] = {}
    for content, (share, phrase) in cluster.requests.items():
        is_common = share >= MANY_ASKING
        if (
            share < MIN_CHOSEN_SHARE
            or not cluster.has(
                MIN_SUPPORT if is_common else MIN_REQUEST_SUPPORT, cluster.texts_asking(phrase)
            )
            or usage.has_value(phrase)
        ):
            continue
        contrast = _contrast(number, content, clusters)
        first = cluster.texts_beginning(content)
        if len(first) >= MIN_FIRST_SHARE * len(cluster.texts):
            contrast = max(contrast, LEAST_CONTRAST)
        elif is_common and contrast < MIN_LISTED_CONTRAST:
            continue
        if contrast > (0 if is_common else MIN_TOPIC_CONTRAST):
            score = share * math.sqrt(cluster.share(content)) * contrast
            score *= FIRST_OFFSET + len(first) / len(cluster.texts)
            scores[phrase] = score * (SPECIFIC_FACTOR if len(content) > 1 else 1.0)
    return max(scores, key=scores.__getitem__, default=None)


def _contrast(number: int, content: frozenset[str], clusters: Mapping[int, _Cluster]) -> float:
    """Returns the logarithm of how many times larger the share of a content is than in the mean of other clusters."""
    others = [cluster.share(content) for key, cluster in clusters.items() if key != number]
    outside = sum(others) / max(1, len(others))
    return math.log((clusters[number].share(content) + SMOOTHING) / (outside + SMOOTHING))


def _name(
    number: int,
    chosen: Phrase | None,
    clusters: Mapping[int, _Cluster],
    usage: _Usage,
    asks: bool,
) -> Named:
    """Returns the label of a cluster with its support: the chosen phrase, with what many of the other members ask for
    ("Reserve a table or check my balance"); without one the quality of the things that they look for, requests that
    together have support, or what they ask about. Labels of several clusters may be alike.

    Args:
        asks: Whether the texts ask for something; reasons do not.
    """
    cluster = clusters[number]
    verb = cluster.activity()
    is_search = bool(verb) and _kind(verb[0]) == "get"
    about = "work with" if cluster.are_commands else "get help with"
    activity = "find" if verb == ("get",) else " ".join(verb) or about * asks
    if not chosen and is_search and (quality := _shared_quality(number, clusters)):
        label = f"{activity} {' '.join(quality.words)}"
        support = cluster.support(cluster.texts_with(quality.content))
        return Named(_spelled(label, usage), support=support)
    if not cluster.are_questions or (chosen and not cluster.asks_about(chosen.verb)):
        requests = _listed_requests(number, chosen, clusters, usage)
        texts = [cluster.texts_asking(request) for request in requests]
        if requests and cluster.has(MIN_SUPPORT if chosen else MIN_LIST_SUPPORT, *texts):
            label = _either(requests, cluster)
            return Named(_spelled(label, usage), support=cluster.support(*texts))
    if (
        verb
        and not is_search
        and cluster.has(MIN_REQUEST_SUPPORT, acting := cluster.texts_with(frozenset({verb[0]})))
        and _contrast(number, frozenset({verb[0]}), clusters) >= MIN_TOPIC_CONTRAST
    ):
        label = f"{' '.join(verb)} something"
        return Named(_spelled(label, usage), support=cluster.support(acting))
    if nouns := _topics(number, clusters, usage, is_search=is_search, asks=asks):
        texts = [cluster.texts_with(frozenset(stems(noun.casefold()))) for noun in nouns]
        label = f"{activity} {_joined(nouns)}".strip()
        return Named(_spelled(label, usage), support=cluster.support(*texts))
    other = OTHER_REQUESTS if asks else OTHER_REASONS
    return Named(_spelled(f"{activity} other things", usage) if is_search else other)


def _listed_requests(
    number: int, chosen: Phrase | None, clusters: Mapping[int, _Cluster], usage: _Usage
) -> list[Phrase]:
    """Returns the requests that a name lists, the chosen one first; one alone that was not chosen stands out."""
    cluster = clusters[number]
    requests = {content: request.phrase for content, request in cluster.requests.items()}
    worth = {
        content: math.sqrt(contrast) * request.share
        for content, request in cluster.requests.items()
        if request.share >= max(MIN_ASKED_SHARE, MIN_ASKING / len(cluster.texts))
        and cluster.share(content) >= MIN_LISTED_SHARE
        and (contrast := _contrast(number, content, clusters)) >= MIN_LISTED_CONTRAST
        and len(content) <= 2
        and request.phrase.verb
        and not usage.has_value(request.phrase)
    }
    texts = {content: cluster.texts_asking(requests[content]) for content in worth}
    for content in texts if chosen else ():
        texts[content] &= cluster.texts_beginning(content)  # what is asked for later is no goal
    if chosen:
        thing = chosen.content & {stem(chosen.words[-1])} or chosen.content  # who names it wants it
        worth[chosen.content], requests[chosen.content] = math.inf, chosen
        texts[chosen.content] = cluster.texts_asking(replace(chosen, content=thing))
    listed = [requests[content] for content in _cover(cluster, worth, texts)]
    if not chosen and len(listed) == 1:
        stands_out = _contrast(number, listed[0].content, clusters) >= MIN_TOPIC_CONTRAST
        has_support = cluster.has(MIN_REQUEST_SUPPORT, cluster.texts_asking(listed[0]))
        return listed if stands_out and has_support else []
    return listed


def _shared_quality(number: int, clusters: Mapping[int, _Cluster]) -> Phrase | None:
    """Returns the quality that most members want of different things: "something for the living room", "machine
    washable things"; None where they want none."""
    cluster = clusters[number]
    wordings: defaultdict[frozenset[str], Counter[Phrase]] = defaultdict(Counter)
    nouns: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    for text in cluster.texts:
        text_qualities = {quality for line in sentences(text) for quality in qualities(line)}
        for phrase in {quality.phrase for quality in text_qualities}:
            wordings[phrase.content][phrase] += 1
        for quality in text_qualities:
            nouns[quality.phrase.content].add(quality.noun)
    worth = {
        content: contrast * cluster.share(content) * (SPECIFIC_FACTOR if len(content) > 1 else 1.0)
        for content, counts in wordings.items()
        if counts.total() >= max(2, MIN_ADDED_SHARE * len(cluster.texts))
        and len(nouns[content]) >= MIN_NOUNS
        and cluster.has(MIN_QUALITY_SUPPORT, cluster.texts_with(content))
        and (contrast := _contrast(number, content, clusters)) >= MIN_TOPIC_CONTRAST
    }
    if not worth:
        return None
    counts = wordings[max(worth, key=worth.__getitem__)]
    return max(
        counts,
        key=lambda phrase: (counts[phrase] > 1 and phrase.words[0] == "something", counts[phrase]),
    )


def _topics(
    number: int, clusters: Mapping[int, _Cluster], usage: _Usage, *, is_search: bool, asks: bool
) -> list[str]:
    """Returns the nouns that most members use and few others do, as they name them: one, or several that questions are
    about; none where there are none. What members that only tell something need help with is theirs, or known to both
    sides: "my account", "the life support"."""
    cluster = clusters[number]
    nouns = cluster.heads()
    if cluster.are_questions:
        nouns |= {
            word
            for word in cluster.words()
            if cluster.share(frozenset({word})) >= MIN_LIST_SUPPORT
            and usage.is_thing(cluster.form(word))
        }
    least_contrast = MIN_LISTED_CONTRAST if cluster.are_questions else MIN_TOPIC_CONTRAST
    needs_help = asks and not (is_search or cluster.are_questions or cluster.are_commands)
    own = cluster.usage if needs_help else usage
    told = {noun: own.topic(cluster.form(noun)) for noun in nouns}
    worth = {
        frozenset({noun}): contrast * (OWN_FACTOR if told[noun].startswith("my ") else 1.0)
        for noun in nouns
        if (
            not needs_help
            or told[noun].startswith(("my ", "the "))
            or stem(told[noun]) != told[noun]
        )
        and usage.is_noun(cluster.form(noun))
        and not any(map(usage.is_value, usage.terms([cluster.form(noun)])[0].casefold().split()))
        and cluster.share(frozenset({noun})) >= MIN_LISTED_SHARE
        and (contrast := _contrast(number, frozenset({noun}), clusters)) >= least_contrast
    }
    texts = {content: cluster.texts_with(content) for content in worth}
    for content in texts if needs_help else ():
        texts[content] = cluster.texts_opening_with(content)
    topics = _cover(cluster, worth, texts)[: 1 if is_search else MAX_REQUESTS]
    least = MIN_THING_SUPPORT if is_search else MIN_LIST_SUPPORT
    common = [
        topic
        for topic in topics
        if cluster.has(least, texts[topic]) and len(texts[topic]) >= MIN_TOPIC_MEMBERS
    ]
    is_list = cluster.are_questions and len(topics) > 1
    if not common:
        least = max(least, MOSTLY_COVERED)
    if not cluster.has(least, *map(texts.__getitem__, topics)) or not (common or is_list):
        return []
    return [told[topic] for (topic,) in topics]


def _spelled(label: str, usage: _Usage) -> str:
    """Returns a label with words as most texts write them, and a capital first letter."""
    text = " ".join(
        usage.form(word.rstrip(",:")) + word[len(word.rstrip(",:")) :] for word in label.split()
    )
    return text[:1].upper() + text[1:]


def _cover(
    cluster: _Cluster,
    worth: Mapping[frozenset[str], float],
    texts: Mapping[frozenset[str], set[int]],
) -> list[frozenset[str]]:
    """Returns contents that members have, at most `MAX_REQUESTS` and until they have `LISTED_SUPPORT`: each time the
    one with the largest product of its worth and the number of texts that it adds."""
    count = len(cluster.texts)
    listed: list[frozenset[str]] = []
    covered: set[int] = set()
    has_first = math.inf in worth.values()
    while len(listed) < MAX_REQUESTS and len(covered) < LISTED_SUPPORT * count:
        is_covered = has_first and len(covered) >= MOSTLY_COVERED * count
        least = MIN_ADDED_LATER if is_covered else MIN_ADDED_SHARE
        gains = {
            content: len(texts[content] - covered) * value
            for content, value in worth.items()
            if len(texts[content] - covered) >= max(2, least * count)
            and not any(_alike(content, other) for other in listed)
        }
        if not gains:
            break
        listed.append(max(gains, key=gains.__getitem__))
        covered |= texts[listed[-1]]
    return listed


def _kind(verb: str) -> str:
    """Returns "get" for the verbs that ask for a thing, which stand for one another; the verb itself for others."""
    return "get" if verb in ("find", "look", "search") else verb


def _alike(a: frozenset[str], b: frozenset[str]) -> bool:
    """Returns whether two contents share a word, or one has a word that begins as one of the other: "sleeved"."""
    return any(x.startswith(y) or y.startswith(x) for x in a for y in b)


def _verb_of(phrase: Phrase) -> tuple[str, ...]:
    """Returns the words of a phrase before its object: "look for"; none for a noun phrase."""
    if not phrase.verb:
        return ()
    count = 1
    while count < len(phrase.words) - 1 and not (
        stem(phrase.words[count]) in phrase.content or phrase.words[count] in DETERMINERS
    ):
        count += 1
    return phrase.words[:count]


def _either(requests: Sequence[Phrase], cluster: _Cluster) -> str:
    """Returns requests as one, which repeats no verb: "find a lamp or a chair", "cancel a card or report a fraud".
    Where some members ask questions, the last is "ask about a chair"."""
    parts: list[str] = []
    last_verb: tuple[str, ...] = ()
    kind = _kind(requests[0].verb)
    for phrase in sorted(requests, key=lambda phrase: _kind(phrase.verb) != kind):
        verb = _verb_of(phrase)
        same = last_verb and _kind(verb[0]) == _kind(last_verb[0])
        parts.append(" ".join((*(() if same else verb), *phrase.words[len(verb) :])))
        last_verb = verb
    if cluster.are_partly_questions and len(parts) > 1:
        parts[-1] = f"ask about {parts[-1].removeprefix(' '.join(verb)).strip()}"
    return _joined(parts)


def _joined(parts: Sequence[str]) -> str:
    """Returns parts as a list: "a, b or c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def _sense(label: str) -> tuple[str, ...]:
    """Returns the words of a label by which it differs in sense: "look for a hotel" and "find hotels" have the same."""
    verb, *words = label.casefold().split()
    ignored = DETERMINERS | PARTICLES | {"for"}
    return (_kind(verb), *(stem(word) for word in words if word not in ignored))


def _told_apart(
    names: Mapping[int, Named], clusters: Mapping[int, _Cluster], usage: _Usage
) -> dict[int, str]:
    """Returns the labels; those that several clusters have, with the words of each that the others seldom have, or with
    a number where there are none."""
    wordings: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for name in names.values():
        wordings[_sense(name.label)][name.label] += 1
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for number, name in names.items():
        counts = wordings[_sense(name.label)]
        alike[min(counts, key=lambda label: (-counts[label], label))].append(number)
    full_labels = {number: label for label, numbers in alike.items() for number in numbers}
    taken: Counter[str] = Counter(label for label, numbers in alike.items() if len(numbers) == 1)
    for label, numbers in alike.items():
        for number in numbers if len(numbers) > 1 else ():
            words = _telling_words(
                number, {key: clusters[key] for key in numbers}, names[number], usage
            )
            full = " · ".join(filter(None, (label, ", ".join(words))))
            taken[full] += 1
            full_labels[number] = full if taken[full] == 1 else f"{full} ({taken[full]})"
    return full_labels


def _telling_words(
    number: int, clusters: Mapping[int, _Cluster], name: Named, usage: _Usage
) -> list[str]:
    """Returns the names, and the things, that tell a cluster best from others of the same label. More members must have
    them where the label has no support, because there they alone say what the cluster is."""
    cluster, label_stems = clusters[number], {stem(word) for word in name.label.casefold().split()}
    gains = {
        word: contrast * share
        for word in cluster.words(with_adjectives=True)
        if word not in label_stems
        and (usage.is_name(word) or usage.is_noun(cluster.form(word)))
        and (share := cluster.share(frozenset({word}))) >= MIN_TELLING_SHARE
        and (contrast := _contrast(number, frozenset({word}), clusters)) >= MIN_TELLING_CONTRAST
    }
    best = sorted(gains, key=lambda word: (-gains[word], word))
    return usage.terms([cluster.form(word) for word in best[:MAX_TELLING_WORDS]])


def _sentence(
    texts: Sequence[str], chosen: Phrase | None, find_phrases: Callable[[str], Sequence[Phrase]]
) -> str:
    """Returns the first sentence that asks for what the label says; else the first that asks for something; else the
    longest of the first text, since a short one may only greet."""
    longest = asking = ""
    for text in texts:
        longest = longest or max(sentences(text), key=len, default="")
        for sentence in sentences(text):
            requests = [phrase for phrase in find_phrases(sentence) if phrase.request_index >= 0]
            if chosen and any(chosen.content <= phrase.content for phrase in requests):
                return clipped(sentence, MAX_SENTENCE_CHARS)
            asking = asking or (sentence if requests else "")
    return clipped(asking or longest, MAX_SENTENCE_CHARS)
