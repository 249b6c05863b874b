"""Phrases that say what somebody wants: "find a one-way flight", "cancel my order".

Candidates for the label of a cluster are read from the users' own clauses by closed lists of words and without a
tagger. A clause is stripped of its request opening ("could you please help me to"), which shows that a verb follows; a
verb takes the noun phrase after it, and that may take one with a preposition. A noun phrase is a run of content words
that ends at a function word or at the end of a clause, so every ending of a run is a whole noun phrase: "a cheap
Asian restaurant" gives "Asian restaurant" and "restaurant" too. Scripts without spaces have a module of their own,
`engine.goals.labels.spaceless_phrases`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from engine.goals.labels.word_kinds import (
    ADVERBS,
    AUXILIARIES,
    CHANGED_NOUNS,
    CHANGES,
    DETERMINERS,
    ED_NOUNS,
    MASS_NOUNS,
    MAX_CHARS,
    NOUNS_CLEAR_WITH_VERB,
    NUMBERS,
    PREPOSITIONS,
    REQUEST_VERBS,
    VAGUE_STEMS,
    is_content,
    is_participle,
    stem,
    word_set,
)

MAX_PHRASE_WORDS = 6
MAX_CONTENT_WORDS = 3
"""Most content words of one noun phrase."""
MAX_REMEMBERED_SENTENCES = 40_000
"""Sentences whose clauses stay in memory: texts are passed over twice, and once more for the names of merged groups."""

_USER_VERBS = dict.fromkeys(
    ("give", "tell", "show", "provide", "know", "want", "need", "have", "pick"), "get"
) | {"put": "add"}
"""The verb of a label by the verb of the request: "give me a list" asks to get one."""
_VERB_AFTER_OPENING = re.compile(
    r"\b(?:(?:want|need|like|love|wish|trying|looking|hoping|planning|how|task is) to"
    r"|(?:can|could|will|would) you(?: please)?|(?:help|let) (?:me|us)(?: to)?"
    r"|how (?:do|can|should) (?:i|we)) ([a-z]{2,14})\b"
)
"""Finds openings that a verb follows, with the verb: "could you provision". So verbs are found that no list has, as in
the jargon of a field."""

# The words of these patterns are followed by a space, because a clause is matched with one after it.
_ADVERB = r"(?:also |really |just |only |now |first |currently |still |kindly |urgently |please )*"
"""Adverbs before a verb, or none: "also really "."""
_USER = rf"(?:i|we|the user|user) {_ADVERB}"
"""Who wants something: "i just "."""
_AUX = rf"(?:would |will |am |are |have been |was |were )?{_ADVERB}"
"""An auxiliary verb, or none: "would really "."""
_OPENINGS = re.compile(
    "(?:"
    + "|".join(
        (
            rf"{_USER}{_AUX}(?:like|love|want|wanted|wants|need|needed|needs|wish|hope|hoping|plan|planning|prefer|try"
            r"|trying|going|decided|intend|ready|have|looking|about|able)"
            r"(?: (?:you|your help|help|some help|someone|assistance))? to",
            rf"{_USER}{_AUX}(?:interested in|thinking of|thinking about|looking into|considering|need help"
            r"|need some help|want help|need assistance)(?: (?:with|in|by))?",
            rf"(?:can|could|will|would|may|might|should) (?:you|i|we) {_ADVERB}"
            r"(?:be able to |want to |need to |like to )?",
            r"(?:would|do) you mind",
            r"(?:help|assist)(?: me| us)?(?: (?:to|with|in|by|out))?",
            r"let us|let me|remind me to|go ahead and|be sure to|make sure to|in order to",
            r"(?:is it|it is|it's) possible to|how (?:do|can|could|should|would) (?:i|we)|how to",
            r"(?:your|my|the|our) (?:task|goal|job|aim|objective|mission) (?:is|was)(?: to)?|your (?:task|goal)",
            r"you (?:need|have|are asked|are required|must|should)(?: to)?",
            r"please|kindly|pls|plz|just|also|then|now|well|ok|okay|hi|hello|hey|yes|sure|thanks|first|there|so|no|oh|to",
        )
    )
    + r")\b ?"
)
"""Matches one part of what comes before the verb of a request, as "please" or "i would like to"; several follow each
other."""
_REQUEST_START = re.compile(
    rf"\b(?:{_USER}{_AUX}(?:like|love|want|wants|need|needs|hope|hoping|wish|trying|planning|plan|looking)\b"
    r"|(?:can|could|will|would) (?:you|i|we) |please |help me |how (?:do|can) i )"
)
"""Finds where a request may begin within a clause: "i want", "could you", "how do i"."""
_WISHES = re.compile(
    rf"(?:{_USER})?{_AUX}(?P<verb>looking for|searching for|in need of|want|wants|need|needs|like|love|require)"
    r" (?!to |you |me |us |help )"
)
"""Matches what comes before a noun phrase that is wanted: "i am looking for", "need"."""
_WISH_VERBS = {"looking for": ("look", "for"), "searching for": ("search", "for")}
"""The words of a verb in a wish; the others become "get"."""
_QUESTIONS = re.compile(
    r"(?:(?P<find>where (?:is|are)|(?:is|are) there|do you have|have you got|(?:which|what) are)"
    r"|(?P<count>how many)|what (?:is|was|will be)|what about|how (?:is|are)) "
)
"""Matches what comes before a noun phrase that is asked for: "where is", "how many", "what about"."""

_ROLE = re.compile(
    r"(?:you are|you're|act as|imagine you are|pretend (?:to be|you are)|i want you to act as) an? "
)
"""Matches the words that tell a model to play a role: "you are a", "act as an"."""

_SENTENCES = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
"""What separates sentences: space after punctuation, CJK punctuation, and line ends."""
_CLAUSES = re.compile(
    r"\.(?!\w)|[!?;:,()\[\]{}\"“”<>|/\\…*#=+]+|\s[-–—]+\s|--+"
    r"|\b(?:and|but|so|because|if|when|while|or|then|which|who|where|as|since)\b"
)
"""What separates clauses: punctuation, dashes and conjunctions."""
_DENIED = re.compile(r"(?:\bnot|\bnever|n['’]t)\b.*\bor (\w+)")
"""A verb that a negation before it concerns: "I do not smoke or use tobacco"."""
_QUANTITIES = "all|some|any|one|two|both|most|many|several|each|a few|a couple"
"""What stands before "of my flights" and says how many."""
_CONTRACTIONS = (
    (re.compile(r"[’`]"), "'"),
    (re.compile(r"\b(one|two) way\b", re.I), r"\1-way"),
    (re.compile(r"\bround trip\b", re.I), "round-trip"),
    (re.compile(r"(?<=\w)('d|'ll|'m|'re|'ve)\b", re.I), r" \1"),
    (re.compile(rf"\b(?:{_QUANTITIES}) of (?=(?:my|our|the|these|those|your)\b)", re.I), ""),
    (re.compile(r"\bmake (?:(?:a|any|some) )?changes? (?:to|in|on)\b", re.I), "change"),
    (re.compile(r"\bgimme\b", re.I), "give me"),
    (re.compile(r"\bwanna\b", re.I), "want to"),
    (re.compile(r"\bgonna\b", re.I), "going to"),
)
"""Patterns of quantities, other spellings and contractions with what replaces them, applied in order."""
_WRITTEN_OUT = {"'m": "am", "'re": "are", "'ve": "have", "'d": "would", "'ll": "will"}
"""The full words of the endings that `_CONTRACTIONS` cuts off."""

_FINAL_ADVERBS = word_set("online offline abroad live")
"""Adverbs that may end a phrase but are none: "watch a movie online"."""

ADJECTIVES = word_set(
    "available possible cheap cheaper cheapest good better best new free different nearby near close closest nearest "
    "lower higher big small large certain specific particular single double full main able sure interested due "
    "important necessary easy hard difficult fast quick quickest fastest short long old young great expensive "
    "inexpensive friendly local largest smallest lowest biggest oldest newest latest youngest longest shortest larger "
    "smaller ancient healthy simple common similar safe high low non above below soft organic "
    "black white red blue green grey gray pink brown purple yellow "
    "total original current recent future previous additional older newer following historical ready expert "
    "autonomous intelligent helpful comprehensive dr mr mrs"
)
"""Adjectives; a noun phrase does not end with one."""

_LEADING_VERBS = word_set("take send bring drive lead direct guide navigate")
"""Verbs of which "me to" makes "go to"."""

_DETERMINER = {
    "1": "a", "one": "a", "another": "a", "a": "a", "an": "a", "my": "my", "our": "our",
    "the": "the", "no": "no", "this": "the", "that": "the", "these": "the", "those": "the", "your": "the",
}  # fmt: skip
"""The determiner that a label has for one in the text."""

_ASSENTS = word_set("proceed continue")
"""Verbs that agree to what the other side proposes, and ask for nothing new."""

_LEADING_PARTICIPLES = word_set("upcoming existing remaining following")
"""Participles that stand before a noun as adjectives do, and say nothing of it."""

_TAKE_PREPOSITION = word_set(
    "apply ask browse check connect cook drive enter go hear inquire learn leave listen look meet move navigate pay "
    "plan practise practice prepare read register reply report return ride run search shop sign speak start stay study "
    "subscribe switch talk transfer travel try turn upgrade withdraw write"
)
"""Request verbs that a preposition may follow at once: "look for a flight", but not "generate for a schema"."""

PARTICLES = word_set("up out off on down back over")
"""Adverbs that belong to a verb: "check out"."""

_LINKS = word_set("of for at in to from with on about")
"""Prepositions that may join two noun phrases."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A candidate for a label.

    Attributes:
        words: As they are written in the label, in lower case; 2 to `MAX_PHRASE_WORDS`.
        content: Stems of the content words without the verb.
        verb: The verb, empty for a noun phrase.
        request_index: Number of requests that the text made before this one; -1 if it was not part of a request.
        cut: Pairs (word left out, word that begins what was kept), where a noun phrase was shortened.
        verb_length: Number of words before the object: 2 of "look for a flight".
    """

    words: tuple[str, ...]
    content: frozenset[str]
    verb: str
    request_index: int
    cut: tuple[tuple[str, str], ...] = ()
    verb_length: int = 0

    @property
    def verb_words(self) -> tuple[str, ...]:
        """The words before the object: "look for"; none for a noun phrase."""
        return self.words[: self.verb_length]

    @property
    def object_words(self) -> tuple[str, ...]:
        """The object with what follows it; all words of a noun phrase."""
        return self.words[self.verb_length :]


def sentences(text: str) -> list[str]:
    """Returns the sentences and lines of a text, without blank ones."""
    return [sentence for part in _SENTENCES.split(text[:MAX_CHARS]) if (sentence := part.strip())]


def verbs_of(texts: list[str]) -> frozenset[str]:
    """Returns the request verbs of the word list, and words that follow request openings in at least three of the
    texts."""
    counts = Counter(
        word
        for text in texts
        for word in set(_VERB_AFTER_OPENING.findall(text[:MAX_CHARS].casefold()))
    )
    learned = {w for w, n in counts.items() if n >= 3 and is_content(w) and not w.endswith("ing")}
    return (REQUEST_VERBS | learned) - AUXILIARIES - _ASSENTS


def phrases(text: str, verbs: frozenset[str]) -> Iterator[Phrase]:
    """Yields the candidates in a text, in its order.

    Args:
        verbs: Base forms that may begin a request, see `verbs_of`.
    """
    requests = 0
    for sentence in sentences(text):
        denied = _DENIED.search(sentence.casefold())
        for clause in clauses(sentence):
            own_verbs = verbs - {denied[1]} if denied else verbs
            clause_phrases = list(_phrases_of_clause(clause, own_verbs, requests))
            requests += any(phrase.request_index >= 0 for phrase in clause_phrases)
            yield from clause_phrases


@lru_cache(MAX_REMEMBERED_SENTENCES)
def clauses(sentence: str) -> tuple[str, ...]:
    """Returns the clauses of a sentence in lower case, with contractions written out."""
    for pattern, instead in _CONTRACTIONS:
        sentence = pattern.sub(instead, sentence)
    plain = " ".join(_WRITTEN_OUT.get(word, word) for word in sentence.casefold().split())
    return tuple(stripped for part in _CLAUSES.split(plain) if (stripped := part.strip()))


def indefinite_article(word: str) -> str:
    """Returns the indefinite article before a word, by its first letters."""
    has_vowel = word[0] in "aeiou" and not word.startswith(("uni", "use", "one", "eu"))
    return "an" if has_vowel else "a"


def is_role(clause: str) -> bool:
    """Returns whether a clause tells a model a role to play."""
    return _ROLE.match(clause) is not None


def _phrases_of_clause(clause: str, verbs: frozenset[str], request_index: int) -> Iterator[Phrase]:
    """Yields the candidates of a clause: those of its request, its wish or its question."""
    if is_role(clause):
        return
    opened, rest = _strip_openings(clause)
    words = rest.split()
    if wish := _WISHES.match(f"{rest} "):
        verb, start = _WISH_VERBS.get(wish["verb"], ("get",)), len(wish[0].split())
    elif question := _QUESTIONS.match(f"{rest} "):
        verb = ("find",) if question["find"] else ("count",) if question["count"] else ("get",)
        start = len(question[0].split())
    elif words and (verb_word := _base_form(words[0], verbs, opened=opened)):
        is_plain = PARTICLES.isdisjoint(words[1:2])  # "pick up" is no "pick"
        verb, start = (_USER_VERBS.get(verb_word, verb_word) if is_plain else verb_word,), 1
    else:
        return
    yield from _verb_phrases(verb, words[start:], verbs, request_index)


def _strip_openings(clause: str) -> tuple[bool, str]:
    """Returns whether a clause begins as a request, and what comes after its openings."""
    start = _REQUEST_START.search(clause)
    rest = clause[start.start() :] if start else clause
    opened = False
    while rest and not _WISHES.match(f"{rest} ") and (opening := _OPENINGS.match(f"{rest} ")):
        rest, opened = rest[opening.end() :].lstrip(), True
    return opened, rest


def _base_form(word: str, verbs: frozenset[str], *, opened: bool) -> str:
    """Returns the base form of a verb that begins a request; empty if the word is no known verb."""
    if word in verbs:
        return word
    if opened and word.endswith("ing") and len(word) > 5:
        forms = (word[:-3], f"{word[:-3]}e", word[:-4])
        return next((form for form in forms if form in verbs), "")
    return ""


class _Form(NamedTuple):
    """An ending of a noun phrase.

    Attributes:
        written: Its words with the determiner.
        content: Its content words.
        cut: The pair (word left out, word after it), if a word before the ending was left out.
    """

    written: tuple[str, ...]
    content: tuple[str, ...]
    cut: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _NounPhrase:
    """A run of content words with the determiner before it; `end` is the index of the word after it."""

    determiner: str
    run: tuple[str, ...]
    end: int

    def forms(self, most: int = MAX_CONTENT_WORDS) -> Iterator[_Form]:
        """Yields every ending of the run of at most so many words, the longest first."""
        for count in range(min(most, len(self.run)), 0, -1):
            tail = self.run[-count:]
            if _FINAL_ADVERBS.issuperset(tail):
                return
            if not self.determiner and tail[0].endswith("ed") and tail[0] not in ED_NOUNS:
                continue  # "priced restaurant", of "moderately priced restaurant"
            determiner = self.determiner
            if determiner in ("a", "an"):
                determiner = indefinite_article(tail[0])
                if stem(tail[-1]) != tail[-1] or tail[-1] in MASS_NOUNS:
                    determiner = ""
            cut = ((self.run[-count - 1], tail[0]),) if count < len(self.run) else ()
            yield _Form((determiner, *tail) if determiner else tail, tail, cut)


def _read_noun_phrase(words: list[str], index: int) -> _NounPhrase | None:
    """Returns the noun phrase that begins at a word; None if there is none."""
    determiner, number = "", ""
    while index < len(words) and (
        words[index] in DETERMINERS
        or words[index] in NUMBERS
        or words[index] in _DETERMINER
        or words[index] in _LEADING_PARTICIPLES
        or words[index].isdigit()
    ):
        determiner = _DETERMINER.get(words[index], "") or determiner * words[index].isalpha()
        number = words[index] if words[index] in NUMBERS or words[index].isdigit() else ""
        index += 1
    if determiner and words[index + 2 :] and _is_manner(words[index]):
        index += 2 if is_participle(words[index + 1]) else 1  # "a moderately priced restaurant"
    run: list[str] = []
    while index < len(words) and is_content(words[index]):
        word = words[index]
        if is_participle(word) and (run or word.endswith("ing")):
            break
        run.append(word)
        index += 1
    if words[index : index + 1] in (["one"], ["ones"]):
        return None  # "count the WARN ones", which lacks its noun
    while run and run[-1] in ADJECTIVES:
        run.pop()
    if number and len(run) > 1 and stem(run[0]) == run[0]:
        run, determiner = run[1:], "a"  # "2 bedroom apartment", which is not any bedroom apartment
    return _NounPhrase(determiner, tuple(run), index) if run else None


def _is_manner(word: str) -> bool:
    """Returns whether a word is an adverb that may stand before an adjective: "moderately"."""
    return word in ("very", "really", "quite") or (word.endswith("ly") and not is_content(word))


def _verb_phrases(
    verb: tuple[str, ...], words: list[str], verbs: frozenset[str], request_index: int
) -> Iterator[Phrase]:
    """Yields the verb with the noun phrase after it, then with a second one that a preposition joins to it."""
    index = 0
    if index < len(words) and words[index] in ("me", "us"):
        index += 1
        if verb[0] in _LEADING_VERBS and words[index : index + 1] == ["to"]:
            verb = ("go",)
    while index < len(words) and words[index] in ADVERBS:
        index += 1
    while len(verb) < 3 and index < len(words) and words[index] in PREPOSITIONS:
        verb = (*verb, words[index])
        index += 1
    takes_preposition = verb[0] in _TAKE_PREPOSITION or verb[0] not in REQUEST_VERBS
    if len(verb) > 1 and verb[1] not in PARTICLES and (verb[1] == "in" or not takes_preposition):
        return  # "generate for a schema", where the object stands after it or nowhere
    object_phrase = _read_noun_phrase(words, index)
    if object_phrase is None:
        return
    for form in object_phrase.forms():
        yield from _checked_phrase(
            (*verb, *form.written), verb, form.content, request_index, form.cut
        )
    link = words[object_phrase.end] if object_phrase.end < len(words) else ""
    if link not in _LINKS:
        return
    next_words = words[object_phrase.end + 1 : object_phrase.end + 2]
    links = (link, *next_words) if link == "to" and verbs.issuperset(next_words) else (link,)
    second_phrase = _read_noun_phrase(words, object_phrase.end + len(links))
    for form in object_phrase.forms(2):
        for second_form in second_phrase.forms(2) if second_phrase else ():
            yield from _checked_phrase(
                (*verb, *form.written, *links, *second_form.written),
                verb,
                (*form.content, *second_form.content),
                request_index,
                form.cut + second_form.cut,
            )


def _checked_phrase(
    words: tuple[str, ...],
    verb: tuple[str, ...],
    content: tuple[str, ...],
    request_index: int,
    cut: tuple[tuple[str, str], ...],
) -> Iterator[Phrase]:
    """Yields one phrase unless it is too short or long, repeats a word, or ends vaguely."""
    stems = tuple(map(stem, content))
    non_determiners = [word for word in words if word not in DETERMINERS]
    if (
        not 2 <= len(words) <= MAX_PHRASE_WORDS
        or len(set(non_determiners)) < len(non_determiners)  # "get the route to get home"
        or (stems[-1] in VAGUE_STEMS and not _is_clear_with(verb[0], content[-1]))
        or content[-1].endswith("'s")
        or is_participle(content[-1])
    ):
        return
    yield Phrase(words, frozenset(stems), verb[0], request_index, cut, len(verb))


def _is_clear_with(verb: str, noun: str) -> bool:
    """Returns whether a noun that says little alone says enough with a verb: "cancel an order", "change the name"."""
    return noun in NOUNS_CLEAR_WITH_VERB or (verb in CHANGES and noun in CHANGED_NOUNS)
