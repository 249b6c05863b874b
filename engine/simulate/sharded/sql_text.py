"""Edits queries as text: splits them into tokens, removes DISTINCT, and replaces values by those of another query.

Values are the literals: numbers, and strings in single or double quotes. Double quotes may also enclose the name of a
column or a table. SQLite decides that by the schema; here the argument `names` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<name>`[^`]*`|\[[^\]]*\]|[^\W\d][\w$]*)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_SPLIT_SIGNS = (("> =", ">="), ("< =", "<="), ("! =", "!="))
_THIS_YEAR = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)

Kind = Literal["space", "name", "value", "sign"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a query. The joined texts of all tokens are the query."""

    kind: Kind
    text: str


def tokens(query: str, names: Set[str] = frozenset()) -> list[Token]:
    """Returns the tokens of a query.

    Args:
        names: Names of columns and tables in lower case; a text in double quotes that is not among them is a value.
    """
    found: list[Token] = []
    for match in _TOKEN.finditer(query):
        text = match.group()
        match match.lastgroup:
            case "string" | "number":
                found.append(Token("value", text))
            case "quoted":
                is_name = text[1:-1].replace('""', '"').lower() in names
                found.append(Token("name" if is_name else "value", text))
            case "name":
                found.append(Token("name", text))
            case "space":
                found.append(Token("space", text))
            case _:
                found.append(Token("sign", text))
    return found


def tidy(query: str) -> str:
    """Returns a query ready to run: on one line, without fence, operators such as `> =` joined, and the current year
    replaced by the year of the data."""
    bare = query.replace("```sql", "").replace("```", "")
    # Removed, because on one line a comment would hide the rest of the query.
    line = " ".join(
        "".join(" " if one.kind == "space" else one.text for one in tokens(bare)).split(" ")
    )
    for split, joined in _SPLIT_SIGNS:
        line = line.replace(split, joined)
    return _THIS_YEAR.sub("2020", line).strip().removesuffix(";").strip()


def without_distinct(query: str) -> str:
    """Returns the query without any DISTINCT."""
    return "".join(one.text for one in tokens(query) if not _is(one, "distinct"))


def is_ordered(query: str) -> bool:
    """Whether ORDER BY occurs anywhere in a query."""
    words = [one for one in tokens(query) if one.kind != "space"]
    return any(_is(first, "order") and _is(second, "by") for first, second in pairwise(words))


def variants(query: str, gold: str, names: Set[str], limit: int) -> Iterator[str]:
    """Yields the query, then the query with its values replaced by those of `gold` in all ways, at most `limit` in all.

    Each place is filled first with its own value, if `gold` has it too, then with the other values in order.
    """
    yield query
    values = list(dict.fromkeys(one.text for one in tokens(gold, names) if one.kind == "value"))
    parts = tokens(query, names)
    slots = [at for at, one in enumerate(parts) if one.kind == "value"]
    choices = [_own_first(parts[at].text, values) for at in slots]
    if not slots or not values:
        return
    for count, chosen in enumerate(product(*choices), 2):
        if count > limit:
            return
        texts = [one.text for one in parts]
        for at, value in zip(slots, chosen, strict=True):
            texts[at] = value
        if (varied := "".join(texts)) != query:
            yield varied


def _own_first(own: str, values: Sequence[str]) -> list[str]:
    return [*(one for one in values if one == own), *(one for one in values if one != own)]


def _is(token: Token, word: str) -> bool:
    return token.kind == "name" and token.text.lower() == word
