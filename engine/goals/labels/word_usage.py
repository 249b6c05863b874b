"""How words are used over all texts: how often, beside which others, as nouns or values, and how they are spelled.

No tagger is asked: what a word is follows from the share of its uses that have a mark, such as a capital letter or the
word before it. A label says what many people want, so it leaves out what differs between them.

| Notion | A word or phrase that ... | Example | Not |
|---|---|---|---|
| name (`is_name`) | begins with a capital letter, mostly | Paris | SQL, city |
| value (`is_value`) | is a name, or follows "in", "from", ..., mostly | Paris, jfk ("from jfk") | flight |
| individual (`is_individual`) | is a code, or the name of a person | IFOYYZ, Ben ("I am Ben") | Paris, SQL |
| noun (`is_noun`) | follows a determiner, a preposition or a verb | flight ("the flight") | born |
| modifier (`is_modifier`) | has another word after it, often | european ("european hotels") | hotel |
| head (`is_head`) | ends noun phrases, mostly | restaurant | gluten ("gluten free") |
| phrase with a value (`has_value`) | has a word that differs between people | lebanese restaurant | rental car |
| whole phrase (`is_whole`) | lacks no word of a fixed term | gas station | station, of "gas station" |

"Mostly" and "often" are the shares below. A word without uses is a noun, a modifier and a head, but no value.
"""

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
"""A word is a name if at least this share of its uses within sentences begin with a capital letter."""
MIN_PERSON_SHARE = 0.3
"""A word that a person gave as their name is one if at least this share of its uses begin with a capital letter."""
FIXED_PAIR_SHARE = 0.75
"""Two words are a fixed term if at least this share of the uses of the second follow the first: "gas station", not
"cheap restaurant". A phrase does not end with a word if a further one follows more than this share of its uses: "pick"
("up")."""
MIN_NEXT_SHARE = 0.6
"""A word has a fixed next one if that follows at least this share of its uses: "gift" ("card")."""
MAX_CONTINUED_SHARE = 0.6
"""A word is a head if a particle or a further word of a noun phrase follows at most this share of its uses."""
MIN_KIND_SHARE, MIN_MODIFIERS = 0.1, 5
"""A word before a noun differs between people if fewer than this share of the noun's uses follow it, and if the noun
follows at least this many different words: "lebanese restaurant", not "rental car"."""
MIN_PLACE_SHARE = 0.5
"""A word is a value if at least this share of its uses follow "in", "from" and the like, without a determiner."""
MIN_MODIFIER_SHARE = 0.3
"""A word is a modifier if a particle or a further word of a noun phrase follows at least this share of its uses."""
MIN_NOUN_SHARE = 0.1
"""A word is a noun if at least this share of its uses follow a determiner, a preposition or a verb."""
MIN_DETERMINER_SHARE = 0.2
"""A noun has its commonest determiner in a label if at least this share of its uses have it: "my account"."""
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
"""A word in capitals is a code of one thing ("IFOYYZ"), and no abbreviation, if it has at least this many letters."""
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
                    # "you are a helpful assistant" says nothing of what people want
                    if is_role(clause):
                        continue
                    words = clause.split()
                    self._words.update(words)
                    for first, second in pairwise(words):
                        self._pairs[first, second] += 1
                        self._continued[first] += int(second in PARTICLES or is_content(second))
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

        What counts is the word before the whole noun phrase: in "book the rental car", "rental" and "car" both stand
        after "the". In "my name is Ben", "is" counts as the "am" of "I am Ben", so both times "Ben" is a person.
        """
        before = ""  # the last word that cannot stand in a noun phrase
        for previous, word in pairwise(("", *words)):
            self._as_people[word] += int(before == "am")
            if is_content(word) and (word not in REQUEST_VERBS or before in DETERMINERS):
                self._as_nouns[word] += int(before in _BEFORE_NOUNS)
                self._as_places[word] += int(before in _PLACE_WORDS)
                self._determiners[before, word] += 1
            else:
                before = "am" if (previous, word) == ("name", "is") else word

    def is_value(self, word: str) -> bool:
        """Returns whether a word is a name, or stands where the names of places and things do: "from jfk"."""
        return self.is_name(word) or (
            self._as_places[word] >= max(2, MIN_PLACE_SHARE * self._words[word])
        )

    def is_individual(self, word: str) -> bool:
        """Returns whether a word stands for one person or thing: a name that a person gave as their own ("I am Ben"),
        not always with a capital letter, or a code of capital letters."""
        is_code = len(word) >= MIN_CODE_LETTERS and self.spelling(word).isupper()
        is_person = self._as_people[word] > 0 and self._capital_share(word) >= MIN_PERSON_SHARE
        return is_code or is_person

    def is_modifier(self, word: str) -> bool:
        """Returns whether a further word often follows a word: a noun ("european hotels") or a particle ("pick up")."""
        return self._continued[word] >= MIN_MODIFIER_SHARE * self._words[word]

    def is_modifier_of(self, word: str, nouns: Iterable[str]) -> bool:
        """Returns whether a word often stands before one of these nouns: "nonstop" before "flight"."""
        count = sum(self._pairs[word, noun] for noun in nouns)
        return count >= max(2, MIN_MODIFIER_SHARE * self._words[word])

    def is_noun(self, word: str) -> bool:
        """Returns whether a word stands where nouns do: "flight" in "the flight"."""
        return self._as_nouns[word] >= MIN_NOUN_SHARE * self._words[word]

    def has_varying_word(self, phrase: Phrase) -> bool:
        """Returns whether a word before a noun of a phrase is one of many that stand there: "lebanese" before
        "restaurant", or any adjective before a noun that has many modifiers."""
        return any(
            (first in ADJECTIVES or self._pairs[first, noun] < MIN_KIND_SHARE * self._words[noun])
            and self._modifiers[noun] >= MIN_MODIFIERS
            for first, noun in pairwise(phrase.words)
            if stem(first) in phrase.content and stem(noun) in phrase.content
        )

    def is_whole(self, phrase: Phrase) -> bool:
        """Returns whether a phrase lacks no word of a fixed term: none of those that were cut off before it ("gas", of
        "gas station"), and none after its last word ("up", of "pick up")."""
        last = phrase.words[-1]
        return self._continued[last] <= FIXED_PAIR_SHARE * self._words[last] and all(
            self._pairs[pair] < FIXED_PAIR_SHARE * self._words[pair[1]] for pair in phrase.cut
        )

    def is_head(self, word: str) -> bool:
        """Returns whether a word ends a noun phrase in most of its uses, so that it is no first half of a term."""
        return self._continued[word] <= MAX_CONTINUED_SHARE * self._words[word]

    def topic(self, noun: str) -> str:
        """Returns a noun, after the word that mostly stands before it, in the form that texts have most often.

        The first rule that fits decides. The plural, if that has at least a quarter as many uses as the noun, and "my"
        is not the commonest determiner of the noun: "taxes". No determiner, if the noun is not its own stem or rarely
        has one. Else its commonest determiner: "my account", "the life support".
        """
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

    def terms_around(self, words: Sequence[str], named: Collection[str] = ()) -> list[str]:
        """Returns the term of each word: with the words that mostly stand before and after it ("remote control", "gift
        card"), but without those that are `named` elsewhere ("cheap", not "cheap restaurant").

        A term whose words all stand in a longer one is left out.
        """
        full = [
            tuple(
                part
                for part in (*self._before.get(word, ()), word, *self._after.get(word, ()))
                if part not in named
            )
            for word in words
        ]
        terms = [term for term in full if not any(set(term) < set(other) for other in full)]
        return [" ".join(map(self.spelling, term)) for term in dict.fromkeys(terms)]

    def spelling(self, word: str) -> str:
        """Returns a word as most texts write it within sentences ("SQL", "Paris"); in lower case where it has a capital
        letter and is no name."""
        spellings = self._forms.get(word)
        if not spellings or not is_content(word) or word in ADJECTIVES:
            return word
        commonest = spellings.most_common(1)[0][0]
        return word if commonest.istitle() and not self.is_name(word) else commonest

    def has_value(self, phrase: Phrase) -> bool:
        """Returns whether a phrase has a word that differs between people who want the same: a value ("Paris"), a word
        in capitals after a preposition ("a flight from JFK"), or one of many modifiers ("lebanese restaurant")."""
        after_preposition = False
        for word in phrase.words:
            after_preposition = after_preposition or word in PREPOSITIONS
            if self.is_value(word) or (after_preposition and self.spelling(word).isupper()):
                return True
        return self.has_varying_word(phrase)

    def is_name(self, word: str) -> bool:
        """Returns whether most uses of a word within sentences begin with a capital letter and are not all capitals:
        "Paris", not "SQL"."""
        return self._capital_share(word) >= MIN_NAME_SHARE

    def _capital_share(self, word: str) -> float:
        """Returns the share of the uses of a word within sentences, in [0, 1], that begin with a capital letter; 0 for
        one that is mostly written in capital letters, and for one that is no content word."""
        spellings = self._forms.get(word)
        if not spellings or not is_content(word) or word in ADJECTIVES:
            return 0.0
        if spellings.most_common(1)[0][0].isupper():
            return 0.0
        capital = sum(count for form, count in spellings.items() if form[:1].isupper())
        return capital / spellings.total()
