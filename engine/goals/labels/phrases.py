"""Phrases that say what somebody wants: "find a one-way flight", "cancel my order", "weather forecast".

Candidates for the label of a cluster are read from the users' own clauses by closed lists of words and without a
tagger. A clause is stripped of its request opening ("could you please help me to"), which shows that a verb follows; a
verb takes the noun phrase after it, and that may take one with a preposition. A noun phrase is a run of content words
that ends at a function word or at the end of a clause, so every ending of a run is a whole noun phrase: "a cheap
Asian restaurant" gives "Asian restaurant" and "restaurant" too. Scripts without spaces have a module of their own,
`engine.goals.labels.spaceless_phrases`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from engine.goals.labels.word_kinds import (
    ADVERBS,
    AUXILIARIES,
    DETERMINERS,
    ED_NOUNS,
    ING_NOUNS,
    MOST_CHARS,
    NUMBERS,
    PREPOSITIONS,
    REQUEST_VERBS,
    VAGUE_STEMS,
    is_content,
    stem,
    word_set,
)

MOST_WORDS = 6
"""Most words of a phrase."""
RUN = 3
"""Most content words of one noun phrase."""

_PLAIN = dict.fromkeys(
    ("give", "tell", "show", "provide", "know", "want", "need", "have"), "get"
) | {"put": "add"}
"""Verbs of what the other side does, by what the user then does."""
_LEARNED_AFTER = re.compile(
    r"\b(?:(?:want|need|like|love|wish|trying|looking|hoping|planning|how|going|task is) to"
    r"|(?:can|could|will|would) you(?: please)?|(?:help|let) (?:me|us)(?: to)?"
    r"|how (?:do|can|should) (?:i|we)) ([a-z]{2,14})\b"
)
"""What follows is a verb: of verbs that no list has, as in the jargon of a field."""

_ADVERB = r"(?:also |really |just |only |now |first |currently |still |kindly |urgently |please )*"
_I = rf"(?:i|we|the user|user) {_ADVERB}"
_AM = rf"(?:would |will |am |are |have been |was |were )?{_ADVERB}"
_OPENINGS = re.compile(
    "(?:"
    + "|".join(
        (
            rf"{_I}{_AM}(?:like|love|want|wanted|wants|need|needed|needs|wish|hope|hoping|plan|planning|prefer|try"
            r"|trying|going|decided|intend|ready|have|looking|about|able)"
            r"(?: (?:you|your help|help|some help|someone|assistance))? to",
            rf"{_I}{_AM}(?:interested in|thinking of|thinking about|looking into|considering|need help|need some help"
            r"|want help|need assistance)(?: (?:with|in|by))?",
            rf"(?:can|could|will|would|may|might|should) (?:you|i|we) {_ADVERB}"
            r"(?:be able to |want to |need to |like to )?",
            r"(?:would|do) you mind",
            r"(?:help|assist)(?: me| us)?(?: (?:to|with|in|by|out))?",
            r"let us|let me|remind me to|go ahead and|be sure to|make sure to|in order to",
            r"(?:is it|it is|it's) possible to|how (?:do|can|could|should|would) (?:i|we)|how to",
            r"(?:your|my|the|our) (?:task|goal|job|aim|objective|mission) (?:is|was)(?: to)?|your (?:task|goal)",
            r"you (?:need|have|are asked|are required|are|must|should|will|can)(?: to)?",
            r"please|kindly|pls|plz|just|also|then|now|well|ok|okay|hi|hello|hey|yes|sure|thanks|first|there|so|no|oh|to",
        )
    )
    + r")\b ?"
)
"""One part of what comes before the verb of a request; several follow each other."""
_STRONG = re.compile(
    rf"\b(?:{_I}{_AM}(?:like|love|want|wants|need|needs|hope|hoping|wish|trying|planning|plan|looking)\b"
    r"|(?:can|could|will|would) (?:you|i|we) |please |help me |how (?:do|can) i )"
)
"""Where a request may begin within a clause."""
_WISHES = re.compile(
    rf"(?:{_I})?{_AM}(?P<verb>looking for|searching for|in need of|want|wants|need|needs|like|love|require)"
    r" (?!to |you |me |us |help )"
)
"""What comes before a noun phrase that is wanted."""
_WISHED = {"looking for": ("look", "for"), "searching for": ("search", "for")}
_WHETHER = re.compile(
    r"(?:(?:will|is|was) (?:it|(?P<there>there)) (?:going to|gonna|supposed to|expected to) (?P<be>be )?"
    r"|will (?:it|(?P<there2>there)) (?P<be2>be )?|(?P<be3>is) it )(?:a |an |any )?"
)
"""What comes before the word that a yes-or-no question is about."""
_QUESTIONS = re.compile(
    r"(?:(?P<find>where (?:is|are)|is there any|are there|do you have|have you got|(?:which|what) are)"
    r"|what (?:is|was|will be)|what about|how (?:is|are)) "
)
"""What comes before a noun phrase that is asked for."""

_SENTENCES = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_CLAUSES = re.compile(
    r"[.!?;:,()\[\]{}\"“”<>|/\\…*#=+]+|\s[-–—]+\s|--+"
    r"|\b(?:and|but|so|because|if|when|while|or|then|which|who|where|as|since)\b"
)
_CONTRACTIONS = (
    (re.compile(r"[’`]"), "'"),
    (re.compile(r"\b(one|two) way\b", re.I), r"\1-way"),
    (re.compile(r"\bround trip\b", re.I), "round-trip"),
    (re.compile(r"(?<=\w)('d|'ll|'m|'re|'ve)\b", re.I), r" \1"),
    (re.compile(r"\bgimme\b", re.I), "give me"),
    (re.compile(r"\bwanna\b", re.I), "want to"),
    (re.compile(r"\bgonna\b", re.I), "going to"),
)
_SHORT = {"'m": "am", "'re": "are", "'ve": "have", "'d": "would", "'ll": "will"}


@dataclass(frozen=True, slots=True)
class Phrase:
    """A candidate for a label.

    Attributes:
        words: As they are written in the label, in lower case; 2 to `MOST_WORDS`.
        content: Stems of the content words without the verb.
        verb: The verb, empty for a noun phrase.
        place: Number of requests that the text made before this one; -1 if it was not part of a request.
        cut: Pairs (word left out, word that begins what was kept), where a noun phrase was shortened.
    """

    words: tuple[str, ...]
    content: frozenset[str]
    verb: str
    place: int
    cut: tuple[tuple[str, str], ...] = ()


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without blank ones."""
    return [one for part in _SENTENCES.split(text[:MOST_CHARS]) if (one := part.strip())]


def verbs_of(texts: list[str]) -> frozenset[str]:
    """The request verbs of a language's list, and words that follow request openings in at least three of the texts."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in set(_LEARNED_AFTER.findall(text[:MOST_CHARS].casefold())):
            counts[word] = counts.get(word, 0) + 1
    learned = {w for w, n in counts.items() if n >= 3 and is_content(w) and not w.endswith("ing")}
    return (REQUEST_VERBS | learned) - AUXILIARIES


def phrases(text: str, verbs: frozenset[str]) -> Iterator[Phrase]:
    """The candidates in a text, in its order.

    Args:
        verbs: Base forms that may begin a request, see `verbs_of`.
    """
    requests = 0
    for sentence in sentences(text):
        for clause in clauses(sentence):
            found = list(_of_clause(clause, verbs, requests))
            requests += any(one.place >= 0 for one in found)
            yield from found


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence in lower case, with contractions written out."""
    for pattern, instead in _CONTRACTIONS:
        sentence = pattern.sub(instead, sentence)
    plain = " ".join(_SHORT.get(word, word) for word in sentence.casefold().split())
    return [one for part in _CLAUSES.split(plain) if (one := part.strip())]


def _of_clause(clause: str, verbs: frozenset[str], place: int) -> Iterator[Phrase]:
    opened, rest = _opened(clause)
    words = rest.split()
    if wish := _WISHES.match(f"{rest} "):
        verb = _WISHED.get(wish["verb"], ("get",))
        yield from _with_verb(verb, words[len(wish[0].split()) :], verbs, place)
    elif whether := _WHETHER.match(f"{rest} "):
        yield from _whether(whether, words[len(whether[0].split()) :], place)
    elif asked := _QUESTIONS.match(f"{rest} "):
        verb = ("find",) if asked["find"] else ("get",)
        yield from _with_verb(verb, words[len(asked[0].split()) :], verbs, place)
    elif words and (verb_word := _base(words[0], verbs, opened=opened)):
        yield from _with_verb((_PLAIN.get(verb_word, verb_word),), words[1:], verbs, place)
    yield from _noun_phrases(words)


def _whether(match: re.Match[str], words: list[str], place: int) -> Iterator[Phrase]:
    """The question whether it will be so, or whether there will be something."""
    if match["there"] or match["there2"]:
        found = _noun_phrase(words, 0)
        for one in found.forms() if found else ():
            written = ("will", "there", "be", *one.written)
            yield from _phrase(written, "will", one.content, place, one.cut)
    elif words and is_content(words[0]) and not words[0].endswith(("ing", "ed")):
        be = ("be",) if match["be"] or match["be2"] or match["be3"] else ()
        yield from _phrase(("will", "it", *be, words[0]), "will", (words[0],), place)


def _opened(clause: str) -> tuple[bool, str]:
    """Whether a clause begins as a request, and what comes after its openings."""
    strong = _STRONG.search(clause)
    rest = clause[strong.start() :] if strong else clause
    opened = False
    while rest and not _WISHES.match(f"{rest} ") and (found := _OPENINGS.match(f"{rest} ")):
        rest, opened = rest[found.end() :].lstrip(), True
    return opened, rest


def _base(word: str, verbs: frozenset[str], *, opened: bool) -> str:
    """The base form of a verb that begins a request; empty if the word is no known verb."""
    if word in verbs:
        return word
    if opened and word.endswith("ing") and len(word) > 5:
        bare = word[:-3]
        for form in (bare, f"{bare}e", bare[:-1]):
            if form in verbs:
                return form
    return ""


class _Form(NamedTuple):
    """An ending of a noun phrase: with its determiner, its content words, and (word left out, word after it)."""

    written: tuple[str, ...]
    content: tuple[str, ...]
    cut: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _NounPhrase:
    """A run of content words with what stands before it; `end` is the place of the word after it."""

    determiner: str
    run: tuple[str, ...]
    end: int

    def forms(self, most: int = RUN) -> Iterator[_Form]:
        """Every ending of the run, the longest first."""
        for count in range(min(most, len(self.run)), 0, -1):
            tail = self.run[-count:]
            if _AFTER.issuperset(tail):
                return
            if not self.determiner and tail[0].endswith("ed") and tail[0] not in ED_NOUNS:
                continue  # "priced restaurant", of "moderately priced restaurant"
            determiner = self.determiner
            if determiner in ("a", "an"):
                vowel = tail[0][0] in "aeiou" and not tail[0].startswith(
                    ("uni", "use", "one", "eu")
                )
                determiner = "an" if vowel else "a"
                if tail[-1].endswith("s") and stem(tail[-1]) != tail[-1]:
                    determiner = ""
            cut = ((self.run[-count - 1], tail[0]),) if count < len(self.run) else ()
            yield _Form((determiner, *tail) if determiner else tail, tail, cut)


_AFTER = word_set("online offline abroad live")
"""Adverbs that may end a phrase but are none: "watch a movie online"."""
ADJECTIVES = word_set(
    "available possible cheap cheaper cheapest good better best new free different nearby near close closest nearest "
    "lower higher big small large certain specific particular single double full main able sure interested due "
    "important necessary easy hard difficult fast quick quickest fastest short long old young great expensive "
    "inexpensive local largest smallest lowest biggest oldest newest latest youngest longest shortest larger smaller "
    "older newer following historical dr mr mrs"
)
"""Adjectives; a noun phrase does not end with one."""
_LEADING = word_set("take send bring drive lead direct guide navigate")
"""Verbs of which "me to" makes "go to"."""
_DETERMINER = {
    "1": "a", "one": "a", "another": "a", "a": "a", "an": "a", "my": "my", "our": "our",
    "the": "the", "this": "the", "that": "the", "these": "the", "those": "the", "your": "the",
}  # fmt: skip


def _noun_phrase(words: list[str], at: int) -> _NounPhrase | None:
    determiner = ""
    while at < len(words) and (
        words[at] in DETERMINERS
        or words[at] in NUMBERS
        or words[at] in _DETERMINER
        or words[at].isdigit()
    ):
        determiner = _DETERMINER.get(words[at], "") or determiner * words[at].isalpha()
        at += 1
    run: list[str] = []
    while at < len(words) and is_content(words[at]):
        word = words[at]
        if word.endswith("ing") and word not in ING_NOUNS:
            break
        if run and word.endswith("ed") and word not in ED_NOUNS:
            break
        run.append(word)
        at += 1
    if words[at : at + 1] in (["one"], ["ones"]):
        return None  # "count the WARN ones", which lacks its noun
    while run and run[-1] in ADJECTIVES:
        run.pop()
    return _NounPhrase(determiner, tuple(run), at) if run else None


def _with_verb(
    verb: tuple[str, ...], words: list[str], verbs: frozenset[str], place: int
) -> Iterator[Phrase]:
    at = 0
    if at < len(words) and words[at] in ("me", "us"):
        at += 1
        if verb[0] in _LEADING and words[at : at + 1] == ["to"]:
            verb = ("go",)
    while at < len(words) and words[at] in ADVERBS:
        at += 1
    while len(verb) < 3 and at < len(words) and words[at] in PREPOSITIONS:
        verb = (*verb, words[at])
        at += 1
    if at < len(words) and words[at] in ("me", "us"):
        at += 1
    if (
        len(verb) > 1
        and verb[1] not in _PARTICLES
        and (verb[0] in ("get", "find") or verb[1] == "in")
    ):
        return
    if (
        len(verb) == 2
        and verb[1] not in _PARTICLES
        and verb[0] in REQUEST_VERBS - _TAKE_PREPOSITION
    ):
        return  # "generate for a schema", where the object stands after it or nowhere
    first = _noun_phrase(words, at)
    if first is None:
        return
    for one in first.forms():
        yield from _phrase((*verb, *one.written), verb[0], one.content, place, one.cut)
        if len(one.content) > 1:
            yield from _phrase(one.content, "", one.content, place, one.cut)
    link = words[first.end] if first.end < len(words) else ""
    if link not in _LINKS:
        return
    then = words[first.end + 1 : first.end + 2]
    links: tuple[str, ...] = (link,)
    if link == "to" and then and then[0] in verbs:
        links = (link, then[0])
    second = _noun_phrase(words, first.end + len(links))
    for one in first.forms(2):
        for other in second.forms(2) if second else ():
            yield from _phrase(
                (*verb, *one.written, *links, *other.written),
                verb[0],
                (*one.content, *other.content),
                place,
                one.cut + other.cut,
            )


_TAKE_PREPOSITION = word_set(
    "apply ask browse check connect cook drive enter go hear inquire learn leave listen look meet move navigate pay "
    "plan practise practice prepare read register reply report return ride run search shop sign speak start stay study "
    "subscribe switch talk transfer travel try turn upgrade withdraw write"
)
"""Request verbs that a preposition may follow at once: "look for a flight", but not "generate for a schema"."""
_NO_NOUNS = word_set(
    "add analyse analyze apply arrange assess attend borrow bring calculate choose collect complete configure confirm "
    "create decide delete deliver describe determine develop enter explain explore extract generate get give go hear "
    "identify implement improve install join learn locate modify navigate organise organize prepare receive recommend "
    "recover redeem reduce register remind remove replace reschedule resolve restore retrieve see select sell send "
    "solve speak submit subscribe suggest summarise summarize take teach tell translate upload verify withdraw write"
)
"""Request verbs that no noun is spelled like, so that no noun phrase begins with one."""
_PARTICLES = word_set("up out off on down back over")
_LINKS = word_set("of for at in to from with on about")


def _noun_phrases(words: list[str]) -> Iterator[Phrase]:
    at = 0
    while at < len(words):
        found = _noun_phrase(words, at)
        if found is None:
            at += 1
            continue
        for one in found.forms():
            if len(one.content) > 1:
                yield from _phrase(one.content, "", one.content, -1, one.cut)
        if found.end < len(words) and words[found.end] in _LINKS:
            second = _noun_phrase(words, found.end + 1)
            own = found.run[-1:]
            if own[0] in _NO_NOUNS or (own[0].endswith("ed") and own[0] not in ED_NOUNS):
                second = None  # "generate for a schema", "listed in the item"
            for one in second.forms(2) if second else ():
                link = words[found.end]
                content = (*own, *one.content)
                yield from _phrase((*own, link, *one.written), "", content, -1, one.cut)
        at = found.end


def _phrase(
    words: tuple[str, ...],
    verb: str,
    content: tuple[str, ...],
    place: int,
    cut: tuple[tuple[str, str], ...] = (),
) -> Iterator[Phrase]:
    reduced = tuple(map(stem, content))
    told = [word for word in words if word not in DETERMINERS]
    if (
        not 2 <= len(words) <= MOST_WORDS
        or len(set(told)) < len(told)  # "get the route to get home"
        or stem(content[-1]) in VAGUE_STEMS
        or content[-1].endswith("'s")
    ):
        return
    yield Phrase(words, frozenset(reduced), verb, place, cut)
