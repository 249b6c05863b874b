"""Sample conversations in which an assistant fills in a form with a user, field by field, and files it.

Texts are templates: one of each `{a|b|c}` is chosen at random (an empty choice gives nothing; one that is written
several times is so much likelier), and `$name` is replaced by a value. `Script.user` and `Script.reply` add messages of
the user, `say` and `report` those of the assistant, `call` a tool call with its result; `mark_unfinished` says that a
broken-off conversation may end here. The random draws and their order must stay as they are, so that a seed always
gives the same conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec

from engine.simulate.demo.script import Script, give_up, write_closing
from engine.simulate.demo.wording import PEOPLE, day, person, words_of


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form, with one of four ways to make up the user's answer.

    Attributes:
        label: Name of the field in the form.
        ask: Template of the noun phrase with which the assistant asks for it.
        choices: Possible answers; empty if the answer is made in another way.
        number: Smallest and largest number that is an answer; None if the answer is made in another way.
        unit: Text that follows the number.
        year: The answer is a day of this year; 0 if it is made in another way.
        generator: Name in `_GENERATORS` of the function that makes the answer; used if no other way is given.
        wrong: An answer that the assistant does not accept; "" for none.
        complaint: Template of what the assistant then says.
    """

    label: str
    ask: str
    choices: tuple[str, ...] = ()
    number: tuple[int, int] | None = None
    unit: str = ""
    year: int = 0
    generator: str = ""
    wrong: str = ""
    complaint: str = ""

    def random_answer(self, rng: Random) -> str:
        """Returns a random answer."""
        if self.choices:
            return rng.choice(self.choices)
        if self.number:
            return f"{rng.randint(*self.number)}{self.unit}"
        if self.year:
            return f"{rng.randint(1, 28)} {rng.choice(PEOPLE.months)} {self.year}"
        return _GENERATORS[self.generator](rng)


class _Form(msgspec.Struct, frozen=True):
    """A form of `words.toml`.

    Attributes:
        intent: Template of what the user wants, as an infinitive without `to`.
        fields: The fields in the order in which the assistant asks for them.
    """

    intent: str
    fields: tuple[Field, ...]


class _Words(msgspec.Struct, frozen=True):
    """The section `forms` of `words.toml`.

    Attributes:
        clubs: Name and purpose of the groups that apply for a grant, by kind of group.
        kinds: The forms by name.
    """

    clubs: dict[str, tuple[str, str]]
    kinds: dict[str, _Form]


_WORDS = words_of("forms", _Words)
"""The words of this domain."""


def _random_address(rng: Random) -> str:
    """Returns a street and a number."""
    return f"{rng.choice(PEOPLE.streets)} {rng.randint(1, 99)}"


def _random_e_mail(rng: Random) -> str:
    """Returns an e-mail address."""
    name = rng.choice(("post", "hello", "k.ilves", "n.park", "team", "info"))
    return f"{name}{rng.randint(2, 9)}@example.net"


def _random_phone(rng: Random) -> str:
    """Returns a telephone number with an area code."""
    return f"{rng.choice(('020', '030', '061'))} {rng.randint(100, 999)}"


def _random_plate(rng: Random) -> str:
    """Returns the number of a car's licence plate."""
    letters = f"{rng.choice('KLMPRT')}{rng.choice('ABDEG')}"
    return f"{letters}-{rng.randint(100, 999)}-{rng.choice('NSTXZ')}"


_GENERATORS: Mapping[str, Callable[[Random], str]] = {
    "person": person,
    "day": day,
    "address": _random_address,
    "e-mail": _random_e_mail,
    "phone": _random_phone,
    "plate": _random_plate,
}
"""Functions that make an answer, by the name that `Field.generator` gives."""

_CORRECTABLE_LABELS = ("Name", "Start", "From", "E-mail", "Phone", "Date", "Born")
"""Labels in `words.toml` of the fields whose answers a user may correct afterward."""

_CLUB_LABELS = ("Group", "Purpose")
"""Labels in `words.toml` of the fields whose answers a club of `_Words.clubs` gives, in the order of its texts."""


def converse(script: Script) -> str:
    """Writes one conversation and returns its goal, the name of the form."""
    rng = script.rng
    kind = rng.choice(sorted(_WORDS.kinds))
    form = _WORDS.kinds[kind]
    fields = _choose_fields(script, form.fields)
    answers = {field.label: field.random_answer(rng) for field in fields}
    town = rng.choice(PEOPLE.towns)
    if "Address" in answers:
        answers["Address"] += f", {town}"
    # Name and purpose of a group must fit each other and the intent, so those that were drawn are replaced.
    club = rng.choice(sorted(_WORDS.clubs))
    for label, text in zip(_CLUB_LABELS, _WORDS.clubs[club], strict=True):
        if label in answers:
            answers[label] = text
    labels = ", ".join(field.label.lower() for field in fields)
    _open_conversation(script, form.intent, town=town, club=club)
    _ask_for_fields(
        script,
        fields,
        answers,
        f"{{That form has|For this I need|It asks for}} {len(fields)} "
        f"{{entries|things|fields}}: {labels}.",
    )
    _maybe_correct_an_answer(script, fields, answers)
    if script.outcome == "failed":
        _fail_to_submit(script, kind, answers)
        return kind
    _submit_form(script, kind, answers)
    if script.outcome == "complete":
        write_closing(script)
    return kind


def _open_conversation(script: Script, intent: str, *, town: str, club: str) -> None:
    """Adds a greeting of the assistant, or none, and what the user wants."""
    if script.chance(0.5):
        script.say(
            "{Hello|Good day|Welcome to the service desk}{,|!} {which form shall we fill "
            "in|what would you like to file|which form is it}?"
        )
    script.user(
        "{Hi, |Hello, |Good morning. |} {I {want|need|would like} to|we have to|is it here "
        "that I can|help me to} "
        + intent
        + "{ in $town|, we live in $town|, office $town}{.|, please.|}",
        town=town,
        club=club,
    )
    script.mark_unfinished()


def _maybe_correct_an_answer(
    script: Script, fields: Sequence[Field], answers: dict[str, str]
) -> None:
    """Adds that the user corrects an answer, which is changed in `answers` too, or adds nothing."""
    rng = script.rng
    correctable = [field for field in fields if field.label in _CORRECTABLE_LABELS]
    if correctable and script.chance(0.25):
        changed = rng.choice(correctable)
        answers[changed.label] = changed.random_answer(rng)
        script.reply(
            "{Wait|Oh|Correction|One change}{,|:} $label {should be|is} {rather|} $value{.|, "
            "sorry.|}",
            label=changed.label.lower(),
            value=answers[changed.label],
        )
        script.mark_unfinished()
        if script.chance(0.6):
            script.report(
                "{Changed|Corrected|I put that in}: $label $value.",
                label=changed.label.lower(),
                value=answers[changed.label],
            )


def _choose_fields(script: Script, fields: Sequence[Field]) -> list[Field]:
    """Returns the fields to ask for: all in a long conversation, otherwise two or three."""
    if script.size != "usual":
        return list(fields)
    count = script.rng.choice((2, 3, 3))
    return [fields[index] for index in sorted(script.rng.sample(range(len(fields)), count))]


def _ask_for_fields(
    script: Script, fields: Sequence[Field], answers: dict[str, str], announcement: str
) -> None:
    """Adds the questions of the assistant for all fields, one or two at a time, and the answers of the user.

    Args:
        answers: The user's answer for each field, by label.
        announcement: Template of what the assistant says before the first question.
    """
    rng = script.rng
    before_question = announcement
    remaining = list(fields)
    # A size that stands here several times is so much likelier.
    batch_sizes = (1, 2, 2) if script.size == "usual" else (1, 1, 1, 2)
    while remaining:
        batch = [remaining.pop(0) for _ in range(min(len(remaining), rng.choice(batch_sizes)))]
        # Both choices are the same text; the draw keeps the conversations of a seed as they are.
        nouns = " and ".join(rng.choice((field.ask, field.ask)) for field in batch)
        script.say(
            f"{before_question} "
            + rng.choice(
                (
                    "{Please give me|Please tell me|I need} " + nouns + "{ now|}.",
                    "{What about|May I have|Could you give me} " + nouns + "?",
                    "{Next:|Now|Then} " + nouns + ".",
                    "{Go on with|Let's continue with|Enter} " + nouns + ".",
                )
            )
        )
        before_question = (
            ""
            if script.chance(0.6)
            else "{Noted.|Got it.|Thank you!|Saved.|Good.|Thanks, that fits.}"
        )
        script.mark_unfinished()
        rejected_field = batch[0] if batch[0].wrong and script.chance(0.3) else None
        if rejected_field:
            script.user("{$wrong|well, $wrong|I think $wrong}{.|?|}", wrong=rejected_field.wrong)
            script.say(rejected_field.complaint + "{.|, please.|: " + rejected_field.ask + "?}")
            script.mark_unfinished()
        volunteered = remaining.pop(0) if remaining and script.chance(0.25) else None
        script.user(
            "{|||||Sure.|Ok.|Of course,|Thanks.|Thank you.} {it's|that's|||||} $values{.|||}",
            values=_answer_text(script, [*batch, volunteered] if volunteered else batch, answers),
        )


def _answer_text(script: Script, fields: Sequence[Field], answers: Mapping[str, str]) -> str:
    """Returns the answers to some fields as one text, some with their labels."""
    return script.rng.choice((", ", "; ", "\n", " / ")).join(
        f"{field.label.lower()}: {answers[field.label]}"
        if script.chance(0.3)
        else answers[field.label]
        for field in fields
    )


def _markdown_table(answers: dict[str, str]) -> str:
    """Returns a table with a row for each field."""
    return "\n".join(
        [
            "| field | entry |",
            "|---|---|",
            *(f"| {label} | {answer} |" for label, answer in answers.items()),
        ]
    )


def _submit_form(script: Script, kind: str, answers: dict[str, str]) -> None:
    """Adds that the assistant submits the form: with a tool call, with a report, or with both."""
    rng = script.rng
    reference = f"{kind[:2].upper()}-{rng.randint(100, 999)}"
    if script.chance(0.25):
        script.say(
            "{This is what I have|Please check|So far}:\n\n$table\n\n{Send it?|May I file "
            "it?|If it is right I send it.}",
            table=_markdown_table(answers),
        )
        script.mark_unfinished()
        script.reply(
            "{yes|correct, send it|all right|that's right|looks fine, $name}{.|}",
            name=answers.get("Name", ""),
        )
    # 30% only a tool call, 40% a tool call and a report, 30% only a report.
    style = rng.random()
    if style < 0.7:
        script.call(
            "submit_form",
            {"form": kind, "fields": answers},
            {"status": "received", "reference": reference},
        )
        if style < 0.3:
            return
    script.report(
        "{The $kind form is|Your $kind form is|It's} {filed now|with the office|handed in}{,|:} "
        "{reference|number|under} $number{. A letter follows in {two|three} weeks.|.|. Fee: none.}",
        kind=kind,
        number=reference,
    )


def _fail_to_submit(script: Script, kind: str, answers: dict[str, str]) -> None:
    """Adds that the assistant submits the form in vain, and that the user gives up."""
    reason = script.rng.choice(
        (
            "period closed on 28 Feb",
            "duplicate of an entry from 2025",
            "service not reachable (503)",
            "address outside the district",
        )
    )
    script.call(
        "submit_form", {"form": kind, "fields": answers}, {"status": "rejected", "reason": reason}
    )
    script.say(
        "{The office rejects it|It was not accepted|The form came back}: $reason. {I can't "
        "file it.|There is nothing I can change about that.|So it isn't filed.}",
        reason=reason,
    )
    give_up(script, left=())
