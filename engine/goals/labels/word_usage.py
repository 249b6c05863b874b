"""How words are used over all texts: how often, beside which others, as nouns or values, and how they are spelled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from engine.goals.labels.phrases import (
    ADJECTIVES,
    PARTICLES,
    Phrase,
    clauses,
    indefinite_article,
    is_role,
    sentences,
)
from engine.goals.labels.word_kinds import (
    DETERMINERS,
    NUMBERS,
    PREPOSITIONS,
    REQUEST_VERBS,
    VAGUE_STEMS,
    is_content,
    is_participle,
    stem,
    word_set,
)

MIN_NAME_SHARE = 0.7
"""Least share of the uses of a word, within sentences, that begin with a capital letter where it is a name."""
MIN_PERSON_SHARE = 0.3
"""Least such share of a word that somebody introduced themselves with where it is the name of a person."""
FIXED_PAIR_SHARE = 0.75
"""A noun phrase is not cut where its words stand together in at least this share of the uses of the second: in "gas
station", not in "cheap restaurant". Nor does a phrase end with a word that has a further one after it in more than this
share of its uses: "pick" ("up")."""
MIN_NEXT_SHARE = 0.6
"""Least share of the uses of a word that one word follows which belongs to it: "gift card"."""
MAX_CONTINUED_SHARE = 0.6
"""A word is no thing by itself where a further word of a noun phrase, or an adverb as of a verb, follows it in more
than this share of its uses: "gluten" ("free")."""
MIN_KIND_SHARE, MIN_MODIFIERS = 0.1, 5
"""A word before a noun is a value where it stands before it in less than this share of its uses, and the noun has at
least this many others: in "lebanese restaurant", not in "rental car"."""
MIN_PLACE_SHARE = 0.5
"""Least share of the uses of a word after "in", "from" and the like, without a determiner, where it is a value."""
MIN_QUALITY_SHARE = 0.3
"""Least share of the uses of a word before a content word where it tells of what kind a thing is."""
MIN_NOUN_SHARE = 0.1
"""Least share of the uses of a word after a determiner, a preposition or a verb where it is a noun: not of "born"."""
MIN_DETERMINER_SHARE = 0.2
"""Least share of the uses of a noun that have its commonest determiner where a name has it."""
_BEFORE_NOUNS = DETERMINERS.union(
    PREPOSITIONS - {"to"},
    NUMBERS,
    REQUEST_VERBS,
    word_set("many much more most which what whose other same"),
)
"""Words that a noun may follow; after "to" mostly a verb stands."""
_PLACE_WORDS = word_set("in from at near called named")
"""Words before the names of places and things."""
MIN_CODE_LETTERS = 6
"""Least letters of a word in capitals that is a code of one thing ("IFOYYZ"), no abbreviation."""
_EDGE_PUNCTUATION = ".,;:!?()[]\"'“”"
"""Punctuation that is stripped from both ends of a word."""


class Usage:
    """How words are used, over all texts: how often each, how often two stand together, and how each is spelled."""

    def __init__(self, texts: Sequence[str]) -> None:
        # uses of each word: all, before a particle or a word of a noun phrase, and before each word
        self._words: Counter[str] = Counter()
        self._continued: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        # uses of each word where it stands as a noun, a place or thing with a name, or a person does
        self._as_nouns: Counter[str] = Counter()
        self._as_places: Counter[str] = Counter()
        self._as_people: Counter[str] = Counter()
        # uses of (the word before a noun phrase, a word of it), and spellings within sentences by word in lower case
        self._determiners: Counter[tuple[str, str]] = Counter()
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
        # the word that mostly stands before a word, or after it: both are parts of one term
        self._before = {
            second: (first,)
            for (first, second), count in self._pairs.items()
            if count >= max(2, FIXED_PAIR_SHARE * self._words[second])
            and is_content(first)
            and not is_participle(first)
        }
        self._after = {
            first: (second,)
            for (first, second), count in self._pairs.items()
            if count >= max(2, MIN_NEXT_SHARE * self._words[first])
            and is_content(second)
            and stem(second) not in VAGUE_STEMS
        }
        # number of different words that stand before a noun
        self._modifiers = Counter(
            second for first, second in self._pairs if is_content(first) and is_content(second)
        )

    def _note_uses(self, words: Sequence[str]) -> None:
        """Counts the words of a clause that stand as nouns, and as the names of places, things and people do.

        What counts is the word before the whole noun phrase: all words of "the rental car" stand after "the".
        """
        before = ""  # the last word that cannot stand in a noun phrase; "am" after "my name is"
        for previous, word in pairwise(("", *words)):
            self._as_people[word] += before == "am"
            if is_content(word) and (word not in REQUEST_VERBS or before in DETERMINERS):
                self._as_nouns[word] += before in _BEFORE_NOUNS
                self._as_places[word] += before in _PLACE_WORDS
                self._determiners[before, word] += 1
            else:
                before = "am" if (previous, word) == ("name", "is") else word

    def is_value(self, word: str) -> bool:
        """Returns whether a word is a name by its capital letters or by the places where it stands."""
        return self.is_name(word) or (
            self._as_places[word] >= max(2, MIN_PLACE_SHARE * self._words[word])
        )

    def is_proper(self, word: str) -> bool:
        """Returns whether a word is a value or stands for one person or thing."""
        return self.is_value(word) or self.is_individual(word)

    def is_individual(self, word: str) -> bool:
        """Returns whether a word stands for one person or thing: a name that somebody introduced themselves with ("I am
        Ben"), now and then in lower case, or a code of capital letters."""
        is_code = len(word) >= MIN_CODE_LETTERS and self.form(word).isupper()
        is_person = self._as_people[word] > 0 and self._capital_share(word) >= MIN_PERSON_SHARE
        return is_code or is_person

    def is_quality(self, word: str) -> bool:
        """Returns whether a word often stands before a noun: "european"."""
        return self._continued[word] >= MIN_QUALITY_SHARE * self._words[word]

    def is_quality_of(self, word: str, nouns: Iterable[str]) -> bool:
        """Returns whether a word often stands before one of these nouns: "nonstop" before "flight"."""
        count = sum(self._pairs[word, noun] for noun in nouns)
        return count >= max(2, MIN_QUALITY_SHARE * self._words[word])

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
        last = phrase.words[-1]
        return self._continued[last] <= FIXED_PAIR_SHARE * self._words[last] and all(
            self._pairs[pair] < FIXED_PAIR_SHARE * self._words[pair[1]] for pair in phrase.cut
        )

    def is_thing(self, word: str) -> bool:
        """Returns whether a word ends a noun phrase in most of its uses, so that it is no first half of a term."""
        return self._continued[word] <= MAX_CONTINUED_SHARE * self._words[word]

    def topic(self, noun: str) -> str:
        """Returns a noun with the word that mostly stands before it, in the plural where that is common, else with its
        commonest determiner where it often has one: "taxes", "my account", "the life support"."""
        words = (*self._before.get(noun, ()), noun)
        counts = {article: self._determiners[article, noun] for article in ("my", "the", "a", "an")}
        article = max(counts, key=counts.__getitem__)
        plurals = (f"{noun}s", f"{noun}es", f"{noun[:-1]}ies" if noun.endswith("y") else "")
        plural = max(plurals, key=self._words.__getitem__)
        if article != "my" and 4 * self._words[plural] >= self._words[noun]:
            return " ".join((*words[:-1], plural))
        if stem(noun) != noun or counts[article] < MIN_DETERMINER_SHARE * self._words[noun]:
            return " ".join(words)
        return " ".join((article if article[0] != "a" else indefinite_article(words[0]), *words))

    def terms(self, words: Sequence[str], named: Collection[str] = ()) -> list[str]:
        """Returns words, each with those that mostly stand before and after it ("remote control", "gift card"), which
        are no further words then; without the words that are named already ("cheap", not "cheap restaurant")."""
        full = [
            tuple(
                part
                for part in (*self._before.get(word, ()), word, *self._after.get(word, ()))
                if part not in named
            )
            for word in words
        ]
        terms = [term for term in full if not any(set(term) < set(other) for other in full)]
        return [" ".join(map(self.form, term)) for term in dict.fromkeys(terms)]

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
        return self._capital_share(word) >= MIN_NAME_SHARE

    def _capital_share(self, word: str) -> float:
        """Returns the share of the uses of a word within sentences, in [0, 1], that begin with a capital letter; 0 for
        one that is mostly written in capital letters, and for one that is no name."""
        spellings = self._forms.get(word)
        if not spellings or not is_content(word) or word in ADJECTIVES:
            return 0.0
        if spellings.most_common(1)[0][0].isupper():
            return 0.0
        capital = sum(count for form, count in spellings.items() if form[:1].isupper())
        return capital / spellings.total()
