"""Words templates at random, and gives each simulated user a style: a register, typos, politeness.

A template has choices `{a|b}`, which may be nested, and places for values `$name`.
"""

from __future__ import annotations

import re
from random import Random
from string import Template

_CHOICE = re.compile(r"\{([^{}]*)\}")
_SPACES = re.compile(r" {2,}")
_BEFORE_POINT = re.compile(r" +([,.?!;:])(?=[\s]|$)")
_WORD = re.compile(r"(?<![$\w/.*_@-])[a-z]{5,}(?![\w/*_@-]|\.\w)")
_ARTICLE = re.compile(r"\b(?:the|a|an) (?=[a-z$])")
_STARTS = re.compile(r"(^|[.?!]\s+|(?:^|\n)(?:\d[.)] |- )?)([a-z])")

REGISTERS = ("plain", "plain", "terse", "hurried", "chatty", "formal", "foreign")

_ASIDES = (
    "{Sorry, typing|Writing} {this|} {on my phone|from the {bus|train|kitchen}|between two "
    "meetings}.",
    "{My colleague|My sister|A neighbour|My boss} {said|tells me|swears} you {can do|are good "
    "at} {this|that sort of thing}.",
    "{It's been|What} {a long|quite a|a mad} {day|week|morning} {here|} {already|}{.|!|, "
    "believe me.}",
    "{I did this|I tried} {once before|last {year|month}} and {made a mess of it|gave up "
    "halfway|got lost}.",
    "{No rush|Take your time}, {but|though} {today would be nice|I'd like it off my "
    "list|before {four|five|lunch} is best}.",
    "{My {son|daughter}|The dog|The cat} is {asleep|at my feet|shouting}, so {I have "
    "{ten|twenty} minutes|bear with me}.",
    "{I hope|Hopefully} {this makes sense|that is clear|I'm in the right place} 🙂",
    "{Been|I've been} {putting|pushing} {this|it} off {for {days|weeks}|since "
    "{January|Monday|the holidays}}.",
)

_ACKS = (
    "{ok|OK|okay}.",
    "{Great|Good|Perfect|Nice}{.|!|, thanks.|, thank you!|. Thanks.}",
    "{Thanks|Thank you|thx|Cheers}{.|, that helps.|!|, good to know.}",
    "{Right|Alright|Fine|Sure}.",
    "{Hm|Hmm|Ah}, {ok|I see|fine}.",
    "{Got it|Understood|Makes sense|Sounds good}{.|!|, thanks.}",
)

_ANSWERS = (
    "{ok|OK|okay|Sure|Of course|Hm|Ah}.",
    "{Thanks|Thank you|Good question|Good that you ask}{.|!}",
    "{Let me see|One moment|Wait|Yes, so}{.|...}",
)


def expand(rng: Random, template: str, **values: object) -> str:
    """Returns `template` with one of each `{a|b}` chosen, the innermost first, and each `$name` replaced by its value.

    Raises:
        KeyError: A `$name` has no value.
    """
    return Template(_tidy(_choose(rng, template))).substitute(values)


class Voice:
    """The style of one user, the same in the whole conversation.

    Attributes:
        register: One of `REGISTERS`.
        polite: Whether the user often thanks or reacts before asking for the next thing.
    """

    def __init__(self, rng: Random) -> None:
        self.register = rng.choice(REGISTERS)
        self.polite = rng.random() < 0.6
        self._rng = rng
        self._said = 0
        self._typos = {"hurried": 0.05, "foreign": 0.02}.get(self.register, 0.004)
        self._asides = rng.sample(_ASIDES, 2) if self.register == "chatty" else []

    def say(self, template: str, **values: object) -> str:
        """Returns `template` expanded in this user's style; values are inserted unchanged."""
        return Template(self._styled(_tidy(_choose(self._rng, template)))).substitute(values)

    def reply(self, template: str, asked: bool, **values: object) -> str:
        """Returns the same as `say`, sometimes after a short reaction such as `ok, thanks`.

        Args:
            asked: Whether the message before asks the user something; then the reaction fits a question.
        """
        words = _ANSWERS if asked else _ACKS
        ack = self._rng.choice(words) if self._rng.random() < (0.55 if self.polite else 0.2) else ""
        return self.say(f"{ack} {template}", **values)

    def _styled(self, text: str) -> str:
        rng = self._rng
        self._said += 1
        if self._asides and self._said <= 3 and rng.random() < 0.5:
            aside = _tidy(_choose(rng, self._asides.pop()))
            ended = text if text[-1] in ".?!:" else text + "."
            text = f"{aside} {text}" if rng.random() < 0.4 else f"{ended} {aside}"
        if self.register == "foreign":
            text = _ARTICLE.sub(lambda m: "" if rng.random() < 0.5 else m.group(), text)
        text = _WORD.sub(lambda m: self._typed(m.group()), text)
        if self.register == "hurried":
            text = re.sub(r"(?<![$\w])[A-Z](?=[a-z' ])", lambda m: m.group().lower(), text)
            return text.replace("'", "").rstrip(".")
        return _STARTS.sub(lambda m: m.group(1) + m.group(2).upper(), text)

    def _typed(self, word: str) -> str:
        if self._rng.random() >= self._typos:
            return word
        at = self._rng.randrange(1, len(word) - 2)
        if self._rng.random() < 0.5:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + word[at + 1 :]


def _choose(rng: Random, template: str) -> str:
    while match := _CHOICE.search(template):
        chosen = rng.choice(match.group(1).split("|"))
        template = template[: match.start()] + chosen + template[match.end() :]
    return template


def _tidy(text: str) -> str:
    return _BEFORE_POINT.sub(r"\1", _SPACES.sub(" ", text)).strip()
