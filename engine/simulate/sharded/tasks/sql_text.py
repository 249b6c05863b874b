"""Queries as text: their tokens, DISTINCT dropped, and the values of one query put into another.

Literals are the values: strings in single or double quotes, and numbers. Double quotes may also name a column or a
table; SQLite decides that by the schema, and so does the caller, with `names`.
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
    """A piece of a query. The texts of all its tokens, joined, are the query."""

    kind: Kind
    text: str


def tokens(query: str, names: Set[str] = frozenset()) -> list[Token]:
    """The tokens of a query.

    Args:
        names: Columns and tables in small letters; what stands in double quotes and is none of them is a value.
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
    """A query as it is run: one line, no fence, no split signs, and the year of the data for the current year."""
    bare = query.replace("```sql", "").replace("```", "")
    # Comments would swallow what follows once the lines are joined.
    line = " ".join(
        "".join(" " if one.kind == "space" else one.text for one in tokens(bare)).split(" ")
    )
    for split, joined in _SPLIT_SIGNS:
        line = line.replace(split, joined)
    return _THIS_YEAR.sub("2020", line).strip().removesuffix(";").strip()


def without_distinct(query: str) -> str:
    """The query without the word DISTINCT, wherever it stands."""
    return "".join(one.text for one in tokens(query) if not _is(one, "distinct"))


def is_ordered(query: str) -> bool:
    """Whether ORDER BY stands anywhere in a query."""
    words = [one for one in tokens(query) if one.kind != "space"]
    return any(_is(first, "order") and _is(second, "by") for first, second in pairwise(words))


def variants(query: str, gold: str, names: Set[str], limit: int) -> Iterator[str]:
    """The query, then the query with its values replaced by those of `gold` in every way, `limit` of them at most.

    A slot is tried first with the value it has, if the gold query has that too, then with the others in their order.
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
