"""Makes lines of text, sentences, tables and JSON of the features that go with one of two sides, called A and B."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from engine.base.number_format import counted
from engine.base.report_table import ReportTable, tab_separated, text_table
from engine.base.sign import ANY_SIGN, Sign
from engine.base.text import one_line
from engine.conversations.filters import Term
from engine.results.associations.records import (
    FALSE_DISCOVERY_RATE,
    MOST_TROUBLE,
    PROBABLE_FAILURE,
    Association,
    Associations,
    Feature,
    Place,
    Speaker,
    WordFeature,
)
from engine.results.comparison.formatting import sign_clauses

MAX_ROWS = 15
"""Most associations of a side that text lists; JSON and screens list all."""

CHANCE_MARK, CHANCE_WORDS = "?", ", which may be chance"
"""Stands behind odds whose range includes 1, and at the end of a sentence on them."""

MAX_EXAMPLES = 5
"""Most conversations of an association in JSON."""

MAX_NEAR_EQUAL = 3
"""Most near-equal features of an association that are named."""

_FEATURE_CHARACTERS = 60

_SPEAKER_NAMES = {
    "system": "system prompt",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool result",
}

_SENTENCES: dict[tuple[Speaker, Place], str] = {
    ("system", "anywhere"): "the system prompt has",
    ("user", "anywhere"): "the user says",
    ("user", "first"): "the user's first message has",
    ("user", "last"): "the user's last message has",
    ("assistant", "anywhere"): "the assistant says",
    ("assistant", "last"): "the assistant's last message has",
    ("tool", "anywhere"): "a result of a tool has",
    ("tool", "last"): "the last result of a tool has",
}
"""Beginning of a sentence on words, by who says them where; the words follow."""

_PLACE_NAMES = {"anywhere": "", "first": ", first message", "last": ", last message"}
"""Name of each place, which follows that of the speaker; `tool result, last message` is the last result."""


def feature_text(feature: Feature) -> str:
    """Returns a feature in words: a term as a filter writes it, with the words of a sign behind, or words with who says
    them where."""
    if isinstance(feature, Term):
        if feature.field == "sign":
            return f"{feature} ({Sign(feature.values[0]).words})"
        return one_line(str(feature), _FEATURE_CHARACTERS)
    speaker = f"{_SPEAKER_NAMES[feature.speaker]}{_PLACE_NAMES[feature.place]}"
    return f"{speaker}: “{one_line(feature.text, _FEATURE_CHARACTERS)}”"


def plainest_feature(row: Association) -> str:
    """Returns, in words, the one of near-equal features that tells a reader most; empty where all are single words.

    A sign of trouble is preferred to other terms of a filter, and these to the longest phrase.
    """
    features = (row.feature, *row.near_equal)
    terms = [feature for feature in features if isinstance(feature, Term)]
    signs = [Sign(term.values[0]).words for term in terms if term.field == "sign"]
    phrases = [feature for feature in features if isinstance(feature, WordFeature)]
    longest = max(phrases, key=lambda phrase: len(phrase.text.split()), default=None)
    if terms:
        return signs[0] if signs else feature_text(terms[0])
    return "" if longest is None or " " not in longest.text else feature_text(longest)


def association_cells(row: Association) -> tuple[str, str, str, str]:
    """Returns a feature, its shares of both sides, and the odds with their interval."""
    first, second = (f"{share:.0%}" for share in row.shares)
    return feature_text(row.feature), first, second, _odds_text(row)


def near_equal_text(row: Association) -> str:
    """Returns the first near-equal features that have a new word, and the number of the others; empty without any."""
    named = _named_near_equal(row)
    more = len(row.near_equal) - len(named)
    return " · ".join([*map(feature_text, named), *([f"{more:,} more"] if more else [])])


def _named_near_equal(row: Association) -> list[Feature]:
    """Returns the first near-equal features that have a new word, at most `MAX_NEAR_EQUAL`."""
    words = _feature_words(row.feature)
    named: list[Feature] = []
    for feature in row.near_equal:
        if len(named) < MAX_NEAR_EQUAL and not _feature_words(feature) <= words:
            named.append(feature)
            words |= _feature_words(feature)
    return named


def _feature_words(feature: Feature) -> set[str]:
    """Returns the words of a feature; a term counts as one word."""
    return {str(feature)} if isinstance(feature, Term) else set(feature.text.split())


def side_lines(result: Associations) -> tuple[str, str]:
    """Returns a line on each side with its number of conversations, what they did where that is known, and its
    filter."""
    split = result.split
    filters = str(split.first) or "all", str(split.second) or "all the others"
    first, second = (
        f"{letter}  {counted(size, 'conversation')} that {verb} ({text})"
        if split.outcome
        else f"{letter}  {text}: {counted(size, 'conversation')}"
        for letter, text, size, verb in zip(
            "AB",
            (one_line(text, _FEATURE_CHARACTERS) for text in filters),
            result.sizes,
            split.verbs,
            strict=True,
        )
    )
    return first, second


def conclusion(result: Associations) -> str:
    """Returns sentences on each goal that is on the first side only, on how many features go with a side, and on signs
    of trouble that differ over all goals."""
    verb, without = result.split.verbs
    only = "".join(
        f"{size:,} of the {result.sizes[0]:,} that {verb} are in the goal “{one_line(label, _FEATURE_CHARACTERS)}”,"
        f" where none {without}. "
        for label, size in result.first_only
    )
    return only + _counts_of_features(result) + _unlisted_signs(result)


def _unlisted_signs(result: Associations) -> str:
    """Returns a sentence on the signs of trouble that comparisons of the sides name and no row does; empty where there
    are none."""
    listed = {
        feature.values[0]
        for row in result.rows
        for feature in (row.feature, *_named_near_equal(row))
        if isinstance(feature, Term) and feature.field == "sign"
    }
    if listed:  # then they say what signs in general would
        listed.add(ANY_SIGN)
    clauses = sign_clauses([each for each in result.sign_changes if each.sign not in listed])
    return f" By signs alone, A against B: {'; '.join(clauses)}." if clauses else ""


def _counts_of_features(result: Associations) -> str:
    """Returns a sentence on how many features go with a side."""
    tested = f"{result.tested:,} words, phrases and properties"
    if not result.rows:
        compared = "Within goals nothing" if result.goals else "Nothing"
        return f"{compared} goes with A or B: none of {tested} differs more than chance explains."
    lines = (
        f", in {counted(len(result.rows), 'line')}" if len(result.rows) < result.significant else ""
    )
    return f"{result.significant:,} of {tested} go with A or B{lines}."


def notes(result: Associations) -> list[str]:
    """Returns sentences on how to read the figures."""
    lines = []
    if result.split.outcome == MOST_TROUBLE:
        lines.append(
            f"{result.split.shortage or 'No outcome is known.'} A are those with the most signs of trouble, which say"
            " where to look, not who failed."
        )
    elif result.split.shortage:
        lines.append(result.split.shortage)
    if result.split.outcome == PROBABLE_FAILURE:
        lines.append(
            "Who failed is predicted from your verdicts, signs and words (`success`), so what the prediction goes by is"
            " listed too. More verdicts say who did."
        )
    if result.goals:
        lines.append(
            f"Compared within {counted(result.goals, 'goal')}; those of few conversations count as one."
            " Shares are as if the goals of B were as frequent as those of A."
        )
    if result.one_sided:
        lines.append(
            f"{counted(result.one_sided, 'conversation')} of goals with one side only are left out;"
            " without regard to goals (`--within none`, `w` on the screen) they count."
        )
    by_goal = any(side.of("goal") for side in (result.split.first, result.split.second))
    if result.rows and not result.goals and not by_goal:
        lines.append("Not compared within goals, so that a difference may be one of goals.")
    if result.rows:
        lines += [
            "odds: of being on this side with the feature, divided by those without it; in brackets their 95% range.",
            f"At most {FALSE_DISCOVERY_RATE:.0%} of what is listed is expected to be chance."
            " Conversations count as independent. What goes with a side need not cause it.",
        ]
    if any(row.may_be_chance for row in result.rows):
        lines.append("odds with ?: the range includes 1, so this may be chance.")
    return lines


def association_tables(result: Associations, most: int = MAX_ROWS) -> Iterator[ReportTable]:
    """Yields a table of the features that go with each side, the clearest first; none for a side without features.

    Args:
        most: Most rows of a table.
    """
    for side, letter in enumerate("AB"):
        rows = [row for row in result.rows if row.side == side]
        if rows:
            yield text_table(
                f"Goes with {letter}"
                + (f", the clearest {most} of {len(rows)}" if len(rows) > most else ""),
                ("what", "A", "B", "odds (range)", "and in nearly the same conversations"),
                [
                    (*association_cells(row), near_equal_text(row))
                    for row in clearest_rows(rows, most)
                ],
                figures=(1, 2),
            )


def clearest_rows(rows: list[Association], most: int) -> list[Association]:
    """Returns the clearest rows, in their order; of the rows that are terms up to two thirds of `most`, because a
    property tells a reader more than one more word."""
    terms = [row for row in rows if isinstance(row.feature, Term)][: 2 * most // 3]
    others = [row for row in rows if row not in terms][: most - len(terms)]
    return [row for row in rows if row in terms or row in others]


def association_lines(result: Associations) -> list[str]:
    """Returns lines on the sides and on all features that go with each, with columns separated by tabs, and notes."""
    lines = [*side_lines(result), "", conclusion(result)]
    for table in association_tables(result, len(result.rows)):
        lines += ["", table.title, tab_separated(table, table.rows)]
    return [*lines, "", *notes(result)]


def as_json(result: Associations, names: dict[int, str]) -> dict[str, Any]:
    """Returns the result as JSON values.

    Args:
        names: Names of the conversations of `example_ids`, by id.
    """
    filters = (str(result.split.first), str(result.split.second))
    return {
        "sides": [
            {"filter": text, "conversations": size}
            for text, size in zip(filters, result.sizes, strict=True)
        ],
        "goals": result.goals,
        "one_sided": result.one_sided,
        "first_only": [{"goal": label, "conversations": size} for label, size in result.first_only],
        "tested": result.tested,
        "significant": result.significant,
        "notes": notes(result),
        "sign_changes": [asdict(change) for change in result.sign_changes],
        "associations": [
            {
                "side": "ab"[row.side],
                **_feature_json(row.feature),
                "counts": list(row.counts),
                "shares": list(row.shares),
                "odds": row.odds.value,
                "low": row.odds.low,
                "high": row.odds.high,
                "may_be_chance": row.may_be_chance,
                "p": row.p,
                "near_equal": [feature_text(feature) for feature in row.near_equal],
                "examples": [names[key] for key in row.ids[:MAX_EXAMPLES] if key in names],
            }
            for row in result.rows
        ],
    }


def example_ids(result: Associations) -> list[int]:
    """Returns the ids of the conversations that `as_json` names as examples, ascending."""
    return sorted({key for row in result.rows for key in row.ids[:MAX_EXAMPLES]})


def marked_words(row: Association) -> list[str]:
    """Returns the words to mark in the conversations of an association: those of the feature, or, where it is a term,
    those of its first near-equal features."""
    features = (row.feature, *row.near_equal[:MAX_NEAR_EQUAL])
    words = [feature.text for feature in features if not isinstance(feature, Term)]
    return words if isinstance(row.feature, Term) else words[:1]


def _feature_json(feature: Feature) -> dict[str, str | None]:
    """Returns a feature as JSON values: the filter of a term, or the words, who says them and where."""
    if isinstance(feature, Term):
        return {"filter": str(feature), "words": None, "speaker": None, "place": None}
    return {
        "filter": None,
        "words": feature.text,
        "speaker": feature.speaker,
        "place": feature.place,
    }


def feature_sentence(row: Association, result: Associations) -> str:
    """Returns an association as a sentence that begins with the side with which the feature goes.

    The shares are those of tables; where these are within goals, the sentence says so.

    Args:
        result: The comparison that the association is of.
    """
    feature = row.feature
    if isinstance(feature, Term) and feature.field == "sign":
        holds = f"there is a sign of trouble: {Sign(feature.values[0]).words}"
    elif isinstance(feature, Term) and feature.field == "tool":
        holds = f"the tool {feature.values[0]} is called"
    elif isinstance(feature, Term):
        holds = f"{feature_text(feature)} holds"
    else:
        words = one_line(feature.text, _FEATURE_CHARACTERS)
        holds = f"{_SENTENCES[feature.speaker, feature.place]} “{words}”"
    side, other, verbs = row.side, 1 - row.side, result.split.verbs
    opening = "Within goals, in" if result.goals else "In"
    return (
        f"{opening} {row.shares[side]:.0%} of the conversations that {verbs[side]} and {row.shares[other]:.0%} of"
        f" those that {verbs[other]} {holds}{CHANCE_WORDS * row.may_be_chance}."
    )


def _odds_text(row: Association) -> str:
    """Returns odds with their interval, and whether they may be chance."""
    value, low, high = (
        f"{odds:,.1f}" if odds < 100 else f"{odds:,.0f}"
        for odds in (row.odds.value, row.odds.low, row.odds.high)
    )
    return f"{value}{CHANCE_MARK * row.may_be_chance} ({low} to {high})"
