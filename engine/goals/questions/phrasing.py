"""Known goals in words: names of labels and texts of tasks as what comes after "The user wants to"."""

from __future__ import annotations

import re

MOST_CHARS = 120

_VERBS = frozenset(
    [
        "add", "adjust", "archive", "ask", "book", "buy", "calculate", "call", "cancel", "change", "check", "compare",
        "compress", "compute", "copy", "correct", "count", "create", "delete", "determine", "display", "execute",
        "extract", "find", "fix", "generate", "get", "give", "go", "list", "locate", "make", "mark", "move", "order",
        "output", "pack", "pay", "pick", "plan", "print", "read", "remove", "rename", "rent", "replace", "report",
        "reserve", "return", "run", "save", "schedule", "search", "send", "set", "show", "sort", "store", "tell",
        "transfer", "turn", "update", "use", "write",
    ]
)  # fmt: skip
_WANTS = re.compile(
    r"\b(?:you|i|we)(?:'m| am| are|'d| would)?(?: just| also)? "
    r"(?P<verb>want|need|like|wish|looking for|look for)(?P<to> to)?\s+(?P<what>[^\n.?!]{8,})",
    re.I,
)
_AIM = re.compile(r"\b(?:goal|objective)(?: is)?:?\s+(?:to )?(?P<what>[^\n.?!]{8,})", re.I)
_QUESTION = re.compile(r"(?:what|which|who|where|when|why|how)\b", re.I)
_POLITE = re.compile(r"(?:(?:please|kindly|(?:can|could|would|will) you)\b[, ]*)+", re.I)
_ADDRESSED = {
    "you": "they", "your": "their", "yours": "theirs", "yourself": "themselves", "i": "they", "my": "their",
    "me": "them", "mine": "theirs", "we": "they", "our": "their", "us": "them",
}  # fmt: skip
_ADDRESS = re.compile(rf"\b(?:{'|'.join(_ADDRESSED)})\b", re.I)
_ENTITY = re.compile(r"[<>{}\[\]`*\"“”]")


def words_of(goal: str) -> str:
    """A goal's name in plain words: `travel/seat` is `seat`, `hotel_book+weather` is `hotel book and weather`."""
    parts = [part for part in re.split(r"\s*\+\s*", goal.rsplit("/", 1)[-1]) if part]
    spaced = (re.sub(r"(?<=[a-z])(?=[A-Z])", " ", part.replace("_", " ")) for part in parts)
    return " and ".join(" ".join(part.split()) for part in spaced)


def named(goal: str) -> str:
    """What a user with a goal of this name wants to do: `ride_book` is `book a ride`, `weather` `get help with it`."""
    phrases = []
    for part in words_of(goal).split(" and "):
        words = part.lower().split()
        if words and words[0] in _VERBS:
            phrases.append(" ".join(words))
        elif len(words) > 1 and words[-1] in _VERBS:
            article = "an" if words[0][0] in "aeiou" else "a"
            phrases.append(" ".join([words[-1], article, *words[:-1]]))
        else:
            phrases.append(f"get help with {' '.join(words)}")
    return " and ".join(phrases)[:MOST_CHARS]


def as_wish_phrase(goal: str, text: str | None) -> str:
    """What a user wants to do, as the task they were given tells it, else after the goal's name.

    Args:
        text: The task in words, written to or by the user.
    """
    what = _told(text or "")
    return _third_person(_first_sentence(what)) if what else named(goal)


def commanded(text: str) -> str:
    """A command of the user, as what somebody else still has to do: `cancel my booking` is `cancel their booking`."""
    return _third_person(text)


def _told(text: str) -> str:
    if (found := _AIM.search(text)) is not None:
        return _told_in(found["what"])
    if (found := _WANTS.search(text)) is not None:
        what = found["what"].strip()
        return what if found["to"] else f"get {what}"
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return _told_in(first) if len(first.split()) > 2 else ""


def _told_in(sentence: str) -> str:
    """A command or a question as what somebody wants to do; empty where it is neither."""
    plain = _POLITE.sub("", sentence, count=1) if _POLITE.match(sentence) else sentence
    if _QUESTION.match(plain):
        return f"know {_lower_first(plain)}"
    opening, _, rest = plain.partition(" ")
    verb = opening.lower().rstrip(",")
    if verb.endswith("ly"):
        return _lower_first(plain)
    for bare in (verb, verb.removesuffix("s"), verb.removesuffix("ies") + "y"):
        if bare in _VERBS:
            return f"{bare} {rest}"
    return ""


def _lower_first(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\w)[.?!](?:\s|$)|, and price", " ".join(text.split()))[0]


def _third_person(text: str) -> str:
    turned = _ADDRESS.sub(lambda m: _ADDRESSED[m.group().lower()], text)
    plain = " ".join(_ENTITY.sub("", turned).split()).rstrip(".?!")
    if len(plain) > MOST_CHARS:
        plain = plain[:MOST_CHARS].rsplit(" ", 1)[0]
    return plain.strip(" ,;:-")
