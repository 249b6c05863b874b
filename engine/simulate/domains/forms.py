"""An assistant that fills in a form with someone, field by field, and files it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from engine.simulate.domains.people import STREETS, TOWNS, day, person
from engine.simulate.script import Script, close, give_up

Maker = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: its label, how it is asked for, a maker of values, and a wrong value with the complaint."""

    label: str
    ask: str
    make: Maker
    wrong: str = ""
    complaint: str = ""


def _pick(*values: str) -> Maker:
    return lambda rng: rng.choice(values)


def _number(low: int, high: int, unit: str = "") -> Maker:
    return lambda rng: f"{rng.randint(low, high)}{unit}"


_NAME = _Field(
    "Name", "{your full name|the name of the applicant|your first and last name}", person
)
_PHONE = _Field(
    "Phone",
    "{a phone number|a number to reach you}",
    lambda rng: (
        f"+{rng.choice((31, 32, 44, 351))} {rng.randint(20, 79)} {rng.randint(100, 999)} "
        f"{rng.randint(1000, 9999)}"
    ),
    "it's in the file",
    "{I need the digits|The form wants digits}",
)
_MAIL = _Field(
    "E-mail",
    "{an e-mail address|the e-mail for replies}",
    lambda rng: (
        f"{rng.choice(('post', 'hello', 'k.ilves', 'n.park', 'team', 'info'))}{rng.randint(2, 99)}@example.net"
    ),
    "post at example",
    "{There is no @ in it|That's not a complete address}",
)
_ADDRESS = _Field(
    "Address",
    "{the address|street, number and town}",
    lambda rng: f"{rng.choice(STREETS)} {rng.randint(1, 99)}",
)

_CLUBS = {
    "garden": (
        "Allotment 12b",
        "New soil, two raised beds and a bench that a wheelchair can reach",
    ),
    "choir": ("Low Street Choir", "Sheet music for forty singers and the hall on six Sundays"),
    "chess club": (
        "Castle Chess",
        "Clocks and boards for the juniors, plus travel to the league",
    ),
    "repair café": (
        "Repair Café Noord",
        "Tools: soldering stations, a sewing machine, safety goggles",
    ),
}
"""What kind of group, its name, and what it wants the money for."""

_FORMS: dict[str, tuple[str, tuple[_Field, ...]]] = {
    "dog licence": (
        "register {our|a|my} {new|} dog with the town",
        (
            _NAME,
            _ADDRESS,
            _Field(
                "Breed",
                "{the breed|the breed or mix}",
                _pick("whippet", "mixed, part collie", "Schnauzer", "poodle cross", "Shiba 柴犬"),
            ),
            _Field(
                "Chip number",
                "{the chip number|the 15 digits of the chip}",
                lambda rng: str(rng.randint(10**14, 10**15 - 1)),
                "98114",
                "{A chip has 15 digits|That's too short}",
            ),
            _Field(
                "Born",
                "{the day it was born|the date of birth}",
                lambda rng: f"2024-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
                "last spring",
                "{I need a date|Year, month, day please}",
            ),
            _PHONE,
        ),
    ),
    "small grant": (
        "apply for the {small|neighbourhood} grant for our $club",
        (
            _Field("Group", "{the name of the group|the group that applies}", _pick(*_CLUBS)),
            _NAME,
            _Field(
                "Amount",
                "{the amount|the sum you ask for}",
                _number(4, 48, "50 EUR"),
                "as much as possible",
                "{It has to be a number|Please one sum in EUR}",
            ),
            _Field("Purpose", "{one or two sentences on the purpose|the purpose}", _pick(*_CLUBS)),
            _Field("Start", "{the first day|the starting date}", day),
            _MAIL,
        ),
    ),
    "incident report": (
        "{file|report} {an incident|an accident} at work",
        (
            _NAME,
            _Field(
                "Date",
                "{the date it happened|the day of the incident}",
                lambda rng: f"2026-02-{rng.randint(1, 28):02d}",
                "on Tuesday",
                "{Which date exactly|I need the calendar date}",
            ),
            _Field(
                "Place",
                "{the exact spot|the place}",
                _pick(
                    "loading bay 3",
                    "canteen kitchen",
                    "stairwell B, second floor",
                    "paint shop",
                    "car park by the gate",
                ),
            ),
            _Field(
                "What happened",
                "{a sentence on what happened|a short account}",
                _pick(
                    "A pallet slid off the fork and hit the rail, nobody underneath",
                    "I slipped on wet tiles and caught the rail with my wrist",
                    "The guard of the saw came loose while it was running down",
                    "Box cutter went through the glove, cut of about 2 cm on the thumb",
                ),
            ),
            _Field(
                "Injury",
                "{any injuries|the injuries, if any}",
                _pick(
                    "bruised wrist",
                    "none",
                    "small cut, dressed on site",
                    "sore back, saw the doctor",
                ),
            ),
            _Field("Witness", "{a witness|the name of a witness}", person),
        ),
    ),
    "parking permit": (
        "get a {resident|resident's|yearly} parking permit",
        (
            _NAME,
            _ADDRESS,
            _Field(
                "Plate",
                "{the number plate|the registration}",
                lambda rng: (
                    f"{rng.choice('KLMPRT')}{rng.choice('ABDEG')}-{rng.randint(100, 999)}-{rng.choice('NSTXZ')}"
                ),
                "a blue Skoda",
                "{The plate, not the car|I need the letters and digits}",
            ),
            _Field("From", "{the first day|the day it should start}", day),
            _Field(
                "Emissions",
                "{the emission class|the euro class}",
                _pick("Euro 5", "Euro 6", "electric", "Euro 4"),
            ),
        ),
    ),
    "patent outline": (
        "{submit|hand in|record} {an invention|the outline of an invention}",
        (
            _NAME,
            _Field(
                "Title",
                "{a title|the name of the invention}",
                _pick(
                    "Foldable beet lifter",
                    "Self-levelling tray for prams",
                    "Kettle lid that counts minutes",
                    "Hinge with a printed spring",
                ),
            ),
            _Field(
                "Category",
                "{the category|the fields it touches}",
                _pick(
                    "agriculture", "household", "mobility and transport", "mechanics; 3D printing"
                ),
            ),
            _Field(
                "Conceived",
                "{the date of conception|the day you had the idea}",
                lambda rng: f"2025-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
                "a while ago",
                "{A date is required|Roughly is not enough for the office}",
            ),
            _Field(
                "Advantage",
                "{the gain over what exists|its advantage}",
                _pick(
                    "Half the weight, and one person can carry it down a furrow",
                    "Nothing spills on slopes up to 20°, no battery in it",
                    "It prints in one piece, so there are no screws to lose",
                    "Cheap enough to throw into every box",
                ),
            ),
            _MAIL,
        ),
    ),
}


def converse(script: Script) -> str:
    """Writes one conversation; returns the label of its goal."""
    rng = script.rng
    kind = rng.choice(sorted(_FORMS))
    intent, fields = _FORMS[kind]
    values = {field.label: field.make(rng) for field in fields}
    town = rng.choice(TOWNS)
    if "Address" in values:
        values["Address"] += f", {town}"
    club = rng.choice(sorted(_CLUBS))
    if "Group" in values:
        values["Group"], values["Purpose"] = _CLUBS[club]
    labels = ", ".join(field.label.lower() for field in fields)
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
    script.pending()
    _fill(
        script,
        fields,
        values,
        f"{{That form has|For this I need|It asks for}} {len(fields)} "
        f"{{entries|things|fields}}: {labels}.",
    )
    if script.chance(0.3):
        changed = rng.choice(
            [
                f
                for f in fields
                if f.label in ("Name", "Start", "From", "E-mail", "Phone", "Date", "Born")
            ]
        )
        values[changed.label] = changed.make(rng)
        script.reply(
            "{Wait|Oh|Correction|One change}{,|:} $label {should be|is} {rather|} $value{.|, "
            "sorry.|}",
            label=changed.label.lower(),
            value=values[changed.label],
        )
        script.pending()
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
        close(script)
    return kind


def _fill(
    script: Script, fields: tuple[_Field, ...], values: dict[str, str], announced: str
) -> None:
    rng = script.rng
    lead = announced
    left = list(fields)
    while left:
        batch = [left.pop(0) for _ in range(min(len(left), rng.choice((1, 1, 2, 3))))]
        asked = " and ".join(rng.choice((field.ask, field.ask)) for field in batch)
        script.say(
            f"{lead} "
            + rng.choice(
                (
                    "{Please give me|Please tell me|I need} " + asked + "{ now|}.",
                    "{What about|May I have|Could you give me} " + asked + "?",
                    "{Next:|Now|Then} " + asked + ".",
                    "{Go on with|Let's continue with|Enter} " + asked + ".",
                )
            )
        )
        lead = (
            ""
            if script.chance(0.6)
            else "{Noted.|Got it.|Thank you!|Saved.|Good.|Thanks, that fits.}"
        )
        script.pending()
        doubtful = batch[0] if batch[0].wrong and script.chance(0.3) else None
        if doubtful:
            script.user("{$wrong|well, $wrong|I think $wrong}{.|?|}", wrong=doubtful.wrong)
            script.say(doubtful.complaint + "{.|, please.|: " + doubtful.ask + "?}")
            script.pending()
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
    number = f"{kind[:2].upper()}-{rng.randint(2600, 2699)}-{rng.randint(100, 999)}"
    if script.chance(0.4):
        script.say(
            "{This is what I have|Please check|So far}:\n\n$table\n\n{Send it?|May I file "
            "it?|If it is right I send it.}",
            table=_table(values),
        )
        script.pending()
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
            "period closed on 2026-02-28",
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
