"""Sample conversations in which an assistant fills in a form with a user, field by field, and files it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec

from engine.simulate.demo.script import Script, give_up, write_closing
from engine.simulate.demo.wording import PEOPLE, day, person, words_of


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form. Its value is one of `values`, a `number` from the first to the second with its `unit`, a day
    of a `year`, or what the `value` of this name in `_VALUES` makes.

    Attributes:
        ask: Template of the noun phrase with which the assistant asks for it.
        wrong: A value that the assistant rejects; empty for none.
        complaint: Template of what the assistant then answers.
    """

    label: str
    ask: str
    values: tuple[str, ...] = ()
    number: tuple[int, int] | None = None
    unit: str = ""
    year: int = 0
    value: str = ""
    wrong: str = ""
    complaint: str = ""

    def make(self, rng: Random) -> str:
        """Returns a random value."""
        if self.values:
            return rng.choice(self.values)
        if self.number:
            return f"{rng.randint(*self.number)}{self.unit}"
        if self.year:
            return f"{rng.randint(1, 28)} {rng.choice(PEOPLE.months)} {self.year}"
        return _VALUES[self.value](rng)


class _Form(msgspec.Struct, frozen=True):
    """A form; `intent` is the template of what the user wants."""

    intent: str
    fields: tuple[Field, ...]


class _Words(msgspec.Struct, frozen=True):
    """The forms by name, and groups that apply for a grant: kind -> (name, purpose)."""

    clubs: dict[str, tuple[str, str]]
    kinds: dict[str, _Form]


_WORDS = words_of("forms", _Words)


def _address(rng: Random) -> str:
    return f"{rng.choice(PEOPLE.streets)} {rng.randint(1, 99)}"


def _mail(rng: Random) -> str:
    name = rng.choice(("post", "hello", "k.ilves", "n.park", "team", "info"))
    return f"{name}{rng.randint(2, 9)}@example.net"


def _phone(rng: Random) -> str:
    return f"{rng.choice(('020', '030', '061'))} {rng.randint(100, 999)}"


def _plate(rng: Random) -> str:
    letters = f"{rng.choice('KLMPRT')}{rng.choice('ABDEG')}"
    return f"{letters}-{rng.randint(100, 999)}-{rng.choice('NSTXZ')}"


_VALUES: Mapping[str, Callable[[Random], str]] = {
    "person": person,
    "day": day,
    "address": _address,
    "e-mail": _mail,
    "phone": _phone,
    "plate": _plate,
}

_CORRECTABLE = ("Name", "Start", "From", "E-mail", "Phone", "Date", "Born")


def converse(script: Script) -> str:
    """Writes one conversation and returns its goal, the name of the form."""
    rng = script.rng
    kind = rng.choice(sorted(_WORDS.kinds))
    form = _WORDS.kinds[kind]
    fields = _entries(script, form.fields)
    values = {field.label: field.make(rng) for field in fields}
    town = rng.choice(PEOPLE.towns)
    if "Address" in values:
        values["Address"] += f", {town}"
    club = rng.choice(sorted(_WORDS.clubs))
    for label, text in zip(("Group", "Purpose"), _WORDS.clubs[club], strict=True):
        if label in values:
            values[label] = text
    labels = ", ".join(field.label.lower() for field in fields)
    if script.chance(0.5):
        script.say(
            "{Hello|Good day|Welcome to the service desk}{,|!} {which form shall we fill "
            "in|what would you like to file|which form is it}?"
        )
    script.user(
        "{Hi, |Hello, |Good morning. |} {I {want|need|would like} to|we have to|is it here "
        "that I can|help me to} "
        + form.intent
        + "{ in $town|, we live in $town|, office $town}{.|, please.|}",
        town=town,
        club=club,
    )
    script.mark_unfinished()
    _fill(
        script,
        fields,
        values,
        f"{{That form has|For this I need|It asks for}} {len(fields)} "
        f"{{entries|things|fields}}: {labels}.",
    )
    correctable = [field for field in fields if field.label in _CORRECTABLE]
    if correctable and script.chance(0.25):
        changed = rng.choice(correctable)
        values[changed.label] = changed.make(rng)
        script.reply(
            "{Wait|Oh|Correction|One change}{,|:} $label {should be|is} {rather|} $value{.|, "
            "sorry.|}",
            label=changed.label.lower(),
            value=values[changed.label],
        )
        script.mark_unfinished()
        if script.chance(0.6):
            script.report(
                "{Changed|Corrected|I put that in}: $label $value.",
                label=changed.label.lower(),
                value=values[changed.label],
            )
    if script.outcome == "failed":
        _reject(script, kind, values)
        return kind
    _file(script, kind, values)
    if script.outcome == "complete":
        write_closing(script)
    return kind


def _entries(script: Script, possible: Sequence[Field]) -> list[Field]:
    """Returns the fields to ask for: all in a long conversation, otherwise two or three."""
    if script.size != "usual":
        return list(possible)
    count = script.rng.choice((2, 3, 3))
    return [possible[index] for index in sorted(script.rng.sample(range(len(possible)), count))]


def _fill(script: Script, fields: Sequence[Field], values: dict[str, str], announced: str) -> None:
    rng = script.rng
    lead = announced
    left = list(fields)
    sizes = (1, 2, 2) if script.size == "usual" else (1, 1, 1, 2)
    while left:
        batch = [left.pop(0) for _ in range(min(len(left), rng.choice(sizes)))]
        nouns = " and ".join(rng.choice((field.ask, field.ask)) for field in batch)
        script.say(
            f"{lead} "
            + rng.choice(
                (
                    "{Please give me|Please tell me|I need} " + nouns + "{ now|}.",
                    "{What about|May I have|Could you give me} " + nouns + "?",
                    "{Next:|Now|Then} " + nouns + ".",
                    "{Go on with|Let's continue with|Enter} " + nouns + ".",
                )
            )
        )
        lead = (
            ""
            if script.chance(0.6)
            else "{Noted.|Got it.|Thank you!|Saved.|Good.|Thanks, that fits.}"
        )
        script.mark_unfinished()
        doubtful = batch[0] if batch[0].wrong and script.chance(0.3) else None
        if doubtful:
            script.user("{$wrong|well, $wrong|I think $wrong}{.|?|}", wrong=doubtful.wrong)
            script.say(doubtful.complaint + "{.|, please.|: " + doubtful.ask + "?}")
            script.mark_unfinished()
        extra = left.pop(0) if left and script.chance(0.25) else None
        given = [*batch, extra] if extra else batch
        joined = rng.choice((", ", "; ", "\n", " / ")).join(
            f"{field.label.lower()}: {values[field.label]}"
            if script.chance(0.3)
            else values[field.label]
            for field in given
        )
        script.user(
            "{|||||Sure.|Ok.|Of course,|Thanks.|Thank you.} {it's|that's|||||} $values{.|||}",
            values=joined,
        )


def _table(values: dict[str, str]) -> str:
    return "\n".join(
        ["| field | entry |", "|---|---|", *(f"| {k} | {v} |" for k, v in values.items())]
    )


def _file(script: Script, kind: str, values: dict[str, str]) -> None:
    rng = script.rng
    number = f"{kind[:2].upper()}-{rng.randint(100, 999)}"
    if script.chance(0.25):
        script.say(
            "{This is what I have|Please check|So far}:\n\n$table\n\n{Send it?|May I file "
            "it?|If it is right I send it.}",
            table=_table(values),
        )
        script.mark_unfinished()
        script.reply(
            "{yes|correct, send it|all right|that's right|looks fine, $name}{.|}",
            name=values.get("Name", ""),
        )
    style = rng.random()
    if style < 0.7:
        script.call(
            "submit_form",
            {"form": kind, "fields": values},
            {"status": "received", "reference": number},
        )
        if style < 0.3:
            return
    script.report(
        "{The $kind form is|Your $kind form is|It's} {filed now|with the office|handed in}{,|:} "
        "{reference|number|under} $number{. A letter follows in {two|three} weeks.|.|. Fee: none.}",
        kind=kind,
        number=number,
    )


def _reject(script: Script, kind: str, values: dict[str, str]) -> None:
    reason = script.rng.choice(
        (
            "period closed on 28 Feb",
            "duplicate of an entry from 2025",
            "service not reachable (503)",
            "address outside the district",
        )
    )
    script.call(
        "submit_form", {"form": kind, "fields": values}, {"status": "rejected", "reason": reason}
    )
    script.say(
        "{The office rejects it|It was not accepted|The form came back}: $reason. {I can't "
        "file it.|There is nothing I can change about that.|So it isn't filed.}",
        reason=reason,
    )
    give_up(script, [])
