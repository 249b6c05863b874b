"""Kinds of English words that phrases are read by: closed lists, stems, and the words that a noun phrase may contain.

The lists are named for the word class that they hold; only those say more whose name does not tell it. They are closed:
no word is added by what texts contain.
"""

from __future__ import annotations

import re
from functools import cache

MAX_CHARS = 3_000
"""Most characters of a text that are read."""
_TOKENS = re.compile(r"(?<!\w)[^\W\d_]+(?:['’\-][^\W\d_]+)*(?!\w)|\S+")
"""A word with its apostrophes and hyphens, or another run of characters: of an id no part is a word."""

SIGNS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Ranges of the signs of scripts without spaces (kana and Han), for a character class."""

_SPACELESS = re.compile(f"[{SIGNS}]")
"""Matches such a sign."""

_WORD = re.compile(r"[^\W\d_]+(?:[\-][^\W\d_]+)*(?:'s)?\Z")
"""A word of letters, with hyphens, that may be a possessive."""


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a list that is written as one text."""
    return frozenset(text.split())


PRONOUNS = word_set(
    "i me we us you he him she her it they them myself yourself itself ourselves themselves himself herself someone "
    "somebody anyone anybody everyone everybody something anything everything nothing mine yours one ones who whom "
    "whose what which this that these those there here"
)
DETERMINERS = word_set("a an the my our your his their its some any another all each every no")
AUXILIARIES = word_set(
    "am is are was were be been being do does did done have has had having will would shall should can could may "
    "might must ought cannot let"
)
PREPOSITIONS = word_set(
    "of in on at to from for with by about into onto over under between through during before after until till within "
    "without near around across against along among behind below beside beyond inside outside since toward towards "
    "upon via per as than like off out up down regarding concerning using including starting based"
)
CONJUNCTIONS = word_set(
    "and or but so because if when while where why how whether although though unless then else nor yet whereas"
)
ADVERBS = word_set(
    "also just really very too please kindly now soon later again already still only even ever never always maybe "
    "perhaps actually currently recently quickly immediately directly probably possibly simply instead back away "
    "today tomorrow tonight yesterday asap together anymore anyway however therefore rather quite pretty almost once "
    "twice not n't more most less least much many few several such same other else both either neither enough own "
    "next last first second ahead apart forward anywhere somewhere everywhere right else well further early late "
    "exactly definitely certainly especially ago"
)
INTERJECTIONS = word_set(
    "hi hello hey greetings ok okay yes yeah yep yup no nope sure thanks thank thankyou great good fine perfect nice "
    "cool awesome wonderful excellent alright correct right sorry oh wow well hmm um uh bye goodbye cheers sounds "
    "works work dear welcome lol haha pls plz"
)
NUMBERS = word_set(
    "zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen twenty thirty forty "
    "fifty sixty hundred thousand couple dozen half quarter pair"
)
TIMES = word_set(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december am pm noon midnight o'clock morning afternoon evening night week weekend "
    "month year day days weeks months years hour hours minute minutes tomorrows todays"
)
VERB_FORMS = word_set(
    "say says said get gets got gotten make makes made take takes took taken give gives gave given buy buys bought "
    "sell sells sold pay pays paid spend spends spent go goes went gone come comes came want wants wanted need needs "
    "needed know knows knew eat eats ate see sees saw seen find finds found tell tells told ask asks asked think "
    "thinks thought keep keeps kept become becomes became begin begins began bring brings brought put puts lets seem "
    "seems looking looked try tries tried use uses used include includes require requires write writes wrote contain "
    "contains built written known shown held proceed proceeds"
)
"""Forms of common verbs that are seldom a noun."""
FUNCTION_WORDS = PRONOUNS.union(
    DETERMINERS, AUXILIARIES, PREPOSITIONS, CONJUNCTIONS, ADVERBS, INTERJECTIONS, VERB_FORMS
)
"""Words that no noun phrase contains."""
REQUEST_VERBS = word_set(
    "add adjust analyse analyze apply arrange ask assess attend block book borrow bring browse build buy calculate "
    "call cancel change charge check choose clean clear close collect compare complete compute configure confirm "
    "connect contact convert cook copy count create debug decide delete deliver deposit describe design determine "
    "develop discuss display dispute download draft draw eat edit enable enter estimate exchange explain explore "
    "extend extract file fill filter find finish fix follow generate get give go grab guide hear hire identify "
    "implement import improve increase inquire install join keep learn leave list listen load locate look make manage "
    "map measure meet mix modify monitor move navigate open order organise organize pack pay pick plan play post "
    "practise practice prepare print purchase put query read receive recommend record recover redeem reduce refund "
    "register remind remove rename rent repair replace reply report request reschedule research reserve reset resolve "
    "restore retrieve return review rewrite ride run save schedule search see select sell send set share ship show "
    "sign solve sort speak split start stop store study submit subscribe suggest summarise summarize switch take talk "
    "teach tell test track train transfer translate travel try turn update upgrade upload use verify view visit wake "
    "watch withdraw write"
)
"""Verbs that begin a request, in the base form."""
ING_NOUNS = word_set(
    "meeting booking building training viewing wedding parking shopping evening morning listing setting rating "
    "painting clothing string ring spring king wing hearing housing writing reading cooking banking programming "
    "planning learning marketing engineering ceiling opening feeling savings dining sharing editing "
    "processing testing coding gaming accounting catering camping hiking fishing swimming skiing diving earring "
    "flooring lighting whitening cleansing living charging"
)
"""Nouns that end as verbs in -ing do."""
ED_NOUNS = word_set("bed feed seed speed need weed shed red breed med creed")
"""Words that end as participles in -ed do, and are none."""
MASS_NOUNS = word_set(
    "code software advice feedback music homework content data traffic food furniture"
)
"""Nouns that have no indefinite article."""
IE_PLURALS = word_set("movies cookies calories smoothies hoodies brownies selfies zombies")
LY_WORDS = word_set("family supply assembly friendly")
"""Words that end as adverbs in -ly do, and are none."""
_VAGUE_NOUNS = word_set(
    "thing things stuff lot bit kind kinds sort sorts type types way ways time times help assistance question "
    "questions request information info details detail option options example examples case anything idea ideas "
    "suggestion suggestions recommendation recommendations name number date place answer list problem issue "
    "reason look want need wants needs know think guess mean hope love prefer sense matter end part rest fact "
    "chance change changes difference differences pack pair piece bunch color colour inch people person guys sir "
    "madam user goal goals task tasks step steps turn order size style quality ounce set package id ids advice tip "
    "tips agent agents representative supervisor human"
)
"""Heads of noun phrases that say little."""
NOUNS_CLEAR_WITH_VERB = word_set("order item items orders size sizes")
"""Heads of noun phrases that say little alone and much with a verb: "cancel an order"."""
CHANGES = word_set("change update modify edit correct")
"""Verbs of one act, that changes something."""
CHANGED_NOUNS = word_set("name names date dates number color colour")
"""Heads of noun phrases that say little alone and much with a verb that changes something: "change the name"."""


@cache
def stem(word: str) -> str:
    """Returns a word of lower case without the ending of a plural or a possessive: "cities" is "city", "boxes" "box",
    "cars" "car"; "bus" and "class" stay."""
    word = word.removesuffix("'s")
    if len(word) > 4 and word.endswith("ies") and word not in IE_PLURALS:
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


VAGUE_STEMS = frozenset(map(stem, _VAGUE_NOUNS))
"""Stems of heads that say little; a noun phrase of them alone is no label."""


def words_of(text: str) -> set[str]:
    """Returns the words of a text in lower case, each once."""
    return {word.casefold() for word in _TOKENS.findall(text[:MAX_CHARS])}


def stems(text: str) -> set[str]:
    """Returns the stems of the content words of a text."""
    return {stem(word) for word in words_of(text) if is_content(word)}


@cache
def is_content(word: str) -> bool:
    """Returns whether a word of lower case can stand in a noun phrase: letters of a script with spaces, and no function
    word, number, time, or adverb by its ending -ly."""
    return (
        len(word) > 1
        and _WORD.match(word) is not None
        and not _SPACELESS.search(word)
        and word.removesuffix("'s") not in FUNCTION_WORDS
        and word not in NUMBERS
        and word not in TIMES
        and not (word.endswith("ly") and len(word) > 4 and word not in LY_WORDS)
    )


def is_participle(word: str) -> bool:
    """Returns whether a word of lower case ends as a participle does and is no noun: "priced", "lasting"."""
    return (word.endswith("ing") and word not in ING_NOUNS) or (
        word.endswith("ed") and word not in ED_NOUNS
    )
