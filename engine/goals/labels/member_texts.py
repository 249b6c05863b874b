"""The texts of a cluster that are read for its name: which of them have a word, ask for a thing, or begin with it;
and what a program wrote in them, as against what the members did.

The *content* of a phrase is the set of the stems of its content words, without its verb: phrases of one content are
wordings of one thing.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from engine.conversations.language import LANGUAGE_SAMPLE_CHARACTERS, detect_language
from engine.goals.labels.phrases import ADJECTIVES, Phrase
from engine.goals.labels.spaceless_phrases import pairs
from engine.goals.labels.word_kinds import (
    CHANGES,
    REQUEST_VERBS,
    VAGUE_STEMS,
    is_content,
    is_participle,
    stem,
    stems,
    word_set,
    words_of,
)
from engine.goals.labels.word_usage import Usage
from engine.goals.records import Support
from engine.model.embedders.tfidf import MAX_TEXT_CHARS

MIN_SUPPORT = 0.5
"""Least share of the members that ask for what the name of the cluster says."""
NEARLY_HALF = 0.445
"""Least that remains of the support of a name when its standard error is taken away."""
LATER_REQUEST_DECAY = 0.5
"""The n-th request of a text counts 1 / (1 + LATER_REQUEST_DECAY n): what is asked for first is the goal more often."""
ASIDE_WEIGHT = 0.1
"""Weight of a phrase outside requests."""
SMOOTHING = 0.05
"""Added to shares before they are divided by one another, so that a word which no other cluster has is not infinite."""
OPENING_WORDS = 60
"""First words of a text in which it says what help is wanted with; a long form names many things."""
LEAST_SUPPORT = 0.4
"""Least support of a name that a model writes."""
MIN_QUESTIONS, MIN_PARTLY_QUESTIONS = 0.4, 0.2
"""Least share of the members that begin with a question where a name says that they ask about something; and where the
last request of a list says so."""
MIN_VERB_EVERYWHERE, MIN_VERB_REQUESTS = 0.8, 0.15
"""Where the first share of the members use a verb anywhere in their texts, it is enough that the second share ask with
it first."""
MIN_VERB_AGREEMENT = 0.6
"""Least share of the members' first requests that have one verb where a name lists things with it."""
GET_SHARE = 0.2
"""The share of the members that is taken for those who say "get", which stands for several verbs."""
_WEAK_VERBS = {"": 1.0, "do": 1.0, "get": 0.5, "count": 0.5, "go": 1.0}
"""Verbs that say little, with their weights beside others for the same content; all others have 1."""
_NEAR_EQUALS = (
    word_set("book reserve buy make schedule purchase"),
    word_set("organize plan throw arrange prepare"),
    word_set("create make write generate develop build"),
    word_set("remove delete clear"),
    CHANGES,
)
"""Verbs of one act: who uses one of them asks for what another of them says."""
OPEN_VERBS = word_set("do go get find look search check see list count") | {""}
"""Verbs that claim no more of an act than that somebody wants the thing."""
_ACTS = {verb: min(verbs) for verbs in reversed(_NEAR_EQUALS) for verb in verbs} | dict.fromkeys(
    OPEN_VERBS, "get"
)
"""One verb for all those of an act; the first set of near equals that has a verb counts."""
MIN_FOR_USE = 0.4
"""Least share of the texts that say what something is for, where a name says that."""
BARE_FACTOR = 0.25
"""Weight of a wording with a bare noun beside others of the same content, which read better."""
_QUESTION = re.compile(
    r"\W*(?:(?:hi|hello|hey|please|so|and|ok|okay|tell me|i want to know)\W+)*(?:what|which|who|whose|how|when|where"
    r"|why|is|are|was|were|do|does|did|has|will)\b",
    re.IGNORECASE,
)
"""Matches the beginning of a text that asks a question: `Hi, how`, `Please tell me what`."""


MIN_INSTRUCTION_WORDS = 8
"""Least number of words of the longest sentence that half of the members repeat word for word, where a program wrote
what they repeat, so that it is no request."""
MIN_REPEATING = 4
"""Least number of members that repeat such a sentence, or all three where there are three: two may by chance."""
MIN_ECHOES = 3
"""Least number of times that one text has a sentence of a program, such as "Give me one action."; also least number of
members that begin alike where a list shows what follows, and most sentences of such a beginning."""
LANGUAGE_MEMBERS = 5
"""Number of members by whose texts the language of a cluster is recognized."""
PHRASE_LANGUAGES = ("en", "zh", None)
"""Languages whose requests are read; texts in none, such as commands, are read as English ones."""
_PARTS = re.compile(r"(?<=[.!?:])\s+|\n+")
"""Matches what separates the sentences and the lines of a text: blanks after one of `.!?:`, or line breaks."""


class _Request(NamedTuple):
    """The weight of the members who ask for a content, as a share of all, and how they put it best."""

    share: float
    phrase: Phrase


class Cluster:
    """The texts of a cluster that were read, and the phrases of each, in the same order."""

    def __init__(self, texts: Sequence[str], phrases: Sequence[Sequence[Phrase]]) -> None:
        self.texts = texts
        self.phrases = phrases
        question_share = sum(map(bool, map(_QUESTION.match, texts))) / len(texts)
        self.are_questions = question_share >= MIN_QUESTIONS
        self.are_partly_questions = MIN_PARTLY_QUESTIONS <= question_share < MIN_QUESTIONS
        # indices of the texts that contain a word, a stem, or a pair of signs; and uses of the words of each stem
        self._texts_with: defaultdict[str, set[int]] = defaultdict(set)
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for index, text in enumerate(texts):
            for word in words_of(text):
                self._texts_with[word].add(index)
                self._texts_with[stem(word)].add(index)
                if is_content(word) and word not in REQUEST_VERBS and not word.endswith("'s"):
                    self._forms[stem(word)][word] += 1
            for pair in pairs(text):
                self._texts_with[pair].add(index)

    def texts_with(self, content: frozenset[str]) -> set[int]:
        """Returns the indices of the texts that contain all of these words, in any order and place."""
        return set.intersection(*(self._texts_with.get(word, set()) for word in content))

    def share(self, content: frozenset[str]) -> float:
        """Returns the share of the texts, in [0, 1], that contain all of these words, in any order and place."""
        return len(self.texts_with(content)) / len(self.texts)

    @cached_property
    def language(self) -> str | None:
        """The language of these texts."""
        return language_of(self.texts)

    @cached_property
    def usage(self) -> Usage:
        """How words are used in these texts."""
        return Usage(self.texts)

    @cached_property
    def first_requests(self) -> list[frozenset[str]]:
        """The words of the first request of each text; none where it has none."""
        return [
            frozenset().union(*(phrase.content for phrase in phrases if phrase.request_index == 0))
            for phrases in self.phrases
        ]

    def texts_beginning(self, content: frozenset[str]) -> set[int]:
        """Returns the indices of the texts that ask for these words first."""
        return {index for index, words in enumerate(self.first_requests) if content <= words}

    @cached_property
    def _acting(self) -> dict[tuple[str, frozenset[str]], set[int]]:
        """The indices of the texts that make a request, by its act and its content."""
        acting: defaultdict[tuple[str, frozenset[str]], set[int]] = defaultdict(set)
        for index, phrases in enumerate(self.phrases):
            for phrase in phrases:
                if phrase.request_index >= 0:
                    acting[act_of(phrase.verb), phrase.content].add(index)
        return acting

    def acting_share(self, request: Phrase) -> float:
        """Returns the share of the texts, in [0, 1], that make a request, in the words of any verb of its act."""
        texts = self._acting.get((act_of(request.verb), request.content), set())
        return len(texts) / len(self.texts)

    def texts_opening_with(self, content: frozenset[str]) -> set[int]:
        """Returns the indices of the texts that have these stems among their first `OPENING_WORDS` words."""
        return {index for index, opening in enumerate(self._openings) if content <= opening}

    def opening_share(self, word: str) -> float:
        """Returns the share of the texts, in [0, 1], that have this stem among their first `OPENING_WORDS` words."""
        return len(self.texts_opening_with(frozenset({word}))) / len(self.texts)

    @cached_property
    def _openings(self) -> list[set[str]]:
        """The stems of the first words of each text."""
        return [stems(" ".join(text.split()[:OPENING_WORDS])) for text in self.texts]

    def texts_asking(self, request: Phrase) -> set[int]:
        """Returns the indices of the texts that ask for what a request says: they contain its content, and a verb of
        its act.

        Where at least two of them have such a verb, those count too that ask for no other act on that content: "my
        parcel is late" asks for "track my parcel". Of a verb that claims no act (`OPEN_VERBS`), and where some members
        ask questions, the content is enough.
        """
        texts = self.texts_with(request.content)
        if request.verb in OPEN_VERBS or self.are_partly_questions:
            return texts
        near_equals = (verbs for verbs in _NEAR_EQUALS if request.verb in verbs)
        verbs = frozenset({request.verb}).union(*near_equals)
        acting = texts & set().union(*map(self._texts_with_verb, verbs))
        if len(acting) < 2:
            return acting
        return acting | {
            index
            for index in texts
            if not any(
                phrase.verb not in OPEN_VERBS and request.content <= phrase.content
                for phrase in self.phrases[index]
            )
        }

    def support(self, *texts: set[int]) -> Support:
        """Returns how many of the texts are in one of these sets of indices."""
        return Support(len(set().union(*texts)), len(self.texts))

    def are_enough(self, least: float, *texts: set[int]) -> bool:
        """Returns whether the texts in one of these sets of indices are enough for a name: their share reaches the
        threshold `least`, and less its standard error still nearly half, because of few texts some are there by
        chance."""
        share = self.support(*texts).share
        error = math.sqrt(share * (1 - share) / len(self.texts))
        return share >= least and share - error >= NEARLY_HALF

    def words(self, *, with_adjectives: bool = False, with_participles: bool = False) -> list[str]:
        """Returns the stems of the content words of the texts, and the pairs of signs, those of most texts first."""
        return sorted(
            (
                word
                for word in self._forms
                if says_much(word)
                or (with_adjectives and word in ADJECTIVES)
                or (with_participles and is_participle(word))
            ),
            key=lambda word: (-len(self._texts_with[word]), word),
        )

    @cached_property
    def _heads(self) -> list[set[str]]:
        """The stems of the nouns that each text asks for."""
        return [
            {stem(phrase.words[-1]) for phrase in phrases if "for" not in phrase.words[2:]}
            for phrases in self.phrases
        ]

    def asks_for(self, noun: str) -> bool:
        """Returns whether most texts with a noun ask for it, as against what it is a part or a quality of."""
        asking = sum(noun in heads for heads in self._heads)
        return asking >= MIN_SUPPORT * len(self._texts_with[noun])

    def asks_for_use(self, noun: str) -> bool:
        """Returns whether texts say that something is for a noun: "a lamp for my living room"."""
        use = re.compile(
            rf"(?<!looking )(?<!look )(?<!searching )\bfor (?:[\w-]+ ){{0,2}}{re.escape(noun)}",
            re.IGNORECASE,
        )
        return sum(map(bool, map(use.search, self.texts))) >= MIN_FOR_USE * len(self.texts)

    def form(self, of_stem: str) -> str:
        """Returns the word of a stem that most texts contain, of equal ones the longest: "series" of "sery"."""
        forms = self._forms.get(of_stem, Counter())
        return max(forms, key=lambda word: (forms[word], len(word), word), default=of_stem)

    def forms(self, of_stem: str) -> Collection[str]:
        """Returns the words of a stem that the texts contain."""
        return self._forms.get(of_stem, ())

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
        is_of_few = verb not in OPEN_VERBS and self.verb_share(verb) < MIN_SUPPORT
        return self.are_questions and (verb in ("get", "find", "count", "list") or is_of_few)

    @cached_property
    def requests(self) -> dict[frozenset[str], _Request]:
        """What members ask for, by content, in the order of the texts."""
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
                wording = replace(phrase, request_index=0, cut=())
                wordings[phrase.content][wording] += weight * _WEAK_VERBS.get(phrase.verb, 1.0)
            for content, weight in text_weights.items():
                weights[content] += weight
        return {
            content: _Request(weights[content] / len(self.texts), self._best_wording(counts))
            for content, counts in wordings.items()
        }

    def _best_wording(self, weights: Mapping[Phrase, float]) -> Phrase:
        """Returns the wording with the most weight times the share of the texts with its verb."""
        verb_worth: Counter[str] = Counter()
        for phrase, weight in weights.items():
            share = GET_SHARE if phrase.verb in _WEAK_VERBS else self.verb_share(phrase.verb)
            verb_worth[phrase.verb] += weight * share  # type: ignore[assignment]
        verb = max(verb_worth, key=verb_worth.__getitem__)
        best = max(
            (phrase for phrase in weights if phrase.verb == verb),
            key=lambda phrase: weights[phrase] * (BARE_FACTOR if _is_bare(phrase) else 1.0),
        )
        if _is_bare(best):
            thing = self.usage.topic(best.words[-1]).removeprefix(f"{best.verb} ").split()
            best = replace(best, words=(*best.verb_words, *thing))
        return best

    def activity(self) -> tuple[str, ...]:
        """Returns the verb of what most members do with different things: they ask about them, or their first requests
        have one verb; empty where they do not."""
        if self.are_questions:
            return "ask", "about"
        asked = ([phrase for phrase in phrases if phrase.verb_words] for phrases in self.phrases)
        verbs = Counter(first.verb_words for first, *_ in filter(None, asked)).most_common()
        kinds: Counter[str] = Counter()
        for verb, count in verbs:
            kinds[kind_of(verb[0])] += count
        # Where nearly all use the word, many say it without a thing: "can I return it?", "a return label".
        everywhere = [
            kind
            for kind, count in kinds.most_common()
            if kind != "get"
            and count >= MIN_VERB_REQUESTS * len(self.texts)
            and self.share(frozenset({kind})) >= MIN_VERB_EVERYWHERE
        ]
        least = max(LEAST_SUPPORT * len(self.texts), MIN_VERB_AGREEMENT * kinds.total())
        agreed = [kind for kind, count in kinds.most_common(1) if count >= least]
        chosen = [*everywhere, *agreed][:1]
        return next((verb for verb, _ in verbs if kind_of(verb[0]) in chosen), ())


def _is_bare(phrase: Phrase) -> bool:
    """Returns whether the object of a phrase is a noun in the singular alone: "cancel order"."""
    noun = phrase.words[-1]
    is_alone = phrase.verb not in ("", "do", "go") and phrase.object_words == (noun,)
    return is_alone and stem(noun) == noun


def language_of(texts: Sequence[str]) -> str | None:
    """Returns the code of the language of the texts of a cluster, by the first ones; None where it is not clear."""
    length = LANGUAGE_SAMPLE_CHARACTERS // LANGUAGE_MEMBERS
    return detect_language("\n".join(text[:length] for text in texts[:LANGUAGE_MEMBERS]))


def says_much(word: str) -> bool:
    """Returns whether a stem may stand alone in a name."""
    return (
        len(word) > 2
        and is_content(word)
        and word not in VAGUE_STEMS | ADJECTIVES
        and not is_participle(word)
    )


def contrast_of(number: int, content: frozenset[str], clusters: Mapping[int, Cluster]) -> float:
    """Returns the logarithm of how many times larger the share of a content is than in the mean of other clusters."""
    return _contrast(number, clusters, lambda cluster: cluster.share(content))


def act_contrast_of(number: int, request: Phrase, clusters: Mapping[int, Cluster]) -> float:
    """Returns the logarithm of how many times larger the share of the texts that make a request is than in the mean of
    other clusters: where all are about one thing, they differ by what members do about it."""
    return _contrast(number, clusters, lambda cluster: cluster.acting_share(request))


def _contrast(
    number: int, clusters: Mapping[int, Cluster], share_of: Callable[[Cluster], float]
) -> float:
    """Returns the logarithm of how many times larger a share is in a cluster than in the mean of the others."""
    others = [share_of(cluster) for key, cluster in clusters.items() if key != number]
    outside = sum(others) / max(1, len(others))
    return math.log((share_of(clusters[number]) + SMOOTHING) / (outside + SMOOTHING))


def act_of(verb: str) -> str:
    """Returns one verb for all those of the same act."""
    return _ACTS.get(verb, verb)


def kind_of(verb: str) -> str:
    """Returns "get" for the verbs that ask for a thing, which stand for one another; the verb itself for others."""
    return "get" if verb in ("find", "look", "search") else verb


def without_instructions(texts: Sequence[str]) -> list[str]:
    """Returns the texts of a group without what a program wrote in them: sentences that half of the members repeat
    word for word (`MIN_INSTRUCTION_WORDS`, `MIN_REPEATING`), and sentences that one text has several times. No text is
    left empty."""
    parts = [_PARTS.split(text[:MAX_TEXT_CHARS]) for text in texts]
    counts = Counter(part for text_parts in parts for part in set(text_parts))
    least = max(min(len(texts), MIN_REPEATING), MIN_ECHOES, len(texts) / 2)
    repeated = {part for part, count in counts.items() if part and count >= least}
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
