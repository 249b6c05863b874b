"""The forms of the `forms` domain: their fields, with a generator of random values for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from engine.simulate.demo.people import MONTHS, STREETS, day, person

Maker = Callable[[Random], str]
"""Generates a random value of a field."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Attributes:
        ask: Template of the noun phrase with which the assistant asks for it.
        make: Generates its value.
        wrong: A value that the assistant rejects; empty for none.
        complaint: Template of what the assistant then answers.
    """

    label: str
    ask: str
    make: Maker
    wrong: str = ""
    complaint: str = ""


def _pick(*values: str) -> Maker:
    return lambda rng: rng.choice(values)


def _number(low: int, high: int, unit: str = "") -> Maker:
    return lambda rng: f"{rng.randint(low, high)}{unit}"


def _date(year: int) -> Maker:
    return lambda rng: f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {year}"


_NAME = Field("Name", "{your full name|the name of the applicant|your first and last name}", person)
_PHONE = Field(
    "Phone",
    "{a phone number|a number to reach you}",
    lambda rng: f"{rng.choice(('020', '030', '061'))} {rng.randint(100, 999)}",
    "it's in the file",
    "{I need the digits|The form wants digits}",
)
_MAIL = Field(
    "E-mail",
    "{an e-mail address|the e-mail for replies}",
    lambda rng: (
        f"{rng.choice(('post', 'hello', 'k.ilves', 'n.park', 'team', 'info'))}{rng.randint(2, 9)}@example.net"
    ),
    "post at example",
    "{There is no @ in it|That's not a complete address}",
)
_ADDRESS = Field(
    "Address",
    "{the address|street, number and town}",
    lambda rng: f"{rng.choice(STREETS)} {rng.randint(1, 99)}",
)

CLUBS = {
    "garden": (
        "Allotment 12b",
        "New soil, two raised beds and a bench",
    ),
    "choir": ("Low Street Choir", "Sheet music and the hall on six Sundays"),
    "chess club": (
        "Castle Chess",
        "Clocks and boards for the juniors",
    ),
    "repair café": (
        "Repair Café Noord",
        "A sewing machine and safety goggles",
    ),
}
"""Kind of group -> (its name, the purpose of the grant that it applies for)."""

FORMS: dict[str, tuple[str, tuple[Field, ...]]] = {
    "dog licence": (
        "register {our|a|my} {new|} dog with the town",
        (
            _NAME,
            _ADDRESS,
            Field(
                "Breed",
                "{the breed|the breed or mix}",
                _pick("whippet", "mixed, part collie", "Schnauzer", "poodle cross", "Shiba 柴犬"),
            ),
            Field(
                "Chip number",
                "{the chip number|the last six digits of the chip}",
                lambda rng: str(rng.randint(100_000, 999_999)),
                "981",
                "{I need six digits|That's too short}",
            ),
            Field(
                "Born",
                "{the day it was born|the date of birth}",
                _date(2024),
                "last spring",
                "{I need a date|Year, month, day please}",
            ),
            _PHONE,
        ),
    ),
    "small grant": (
        "apply for the {small|neighbourhood} grant for our $club",
        (
            Field("Group", "{the name of the group|the group that applies}", _pick(*CLUBS)),
            _NAME,
            Field(
                "Amount",
                "{the amount|the sum you ask for}",
                _number(4, 48, "50 EUR"),
                "as much as possible",
                "{It has to be a number|Please one sum in EUR}",
            ),
            Field("Purpose", "{one or two sentences on the purpose|the purpose}", _pick(*CLUBS)),
            Field("Start", "{the first day|the starting date}", day),
            _MAIL,
        ),
    ),
    "incident report": (
        "{file|report} {an incident|an accident} at work",
        (
            _NAME,
            Field(
                "Date",
                "{the date it happened|the day of the incident}",
                lambda rng: f"{rng.randint(1, 28)} Feb",
                "on Tuesday",
                "{Which date exactly|I need the calendar date}",
            ),
            Field(
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
            Field(
                "What happened",
                "{a sentence on what happened|a short account}",
                _pick(
                    "A pallet slid off the fork, nobody underneath",
                    "I slipped on wet tiles",
                    "The guard of the saw came loose",
                    "Box cutter went through the glove",
                ),
            ),
            Field(
                "Injury",
                "{any injuries|the injuries, if any}",
                _pick(
                    "bruised wrist",
                    "none",
                    "small cut, dressed on site",
                    "sore back, saw the doctor",
                ),
            ),
            Field("Witness", "{a witness|the name of a witness}", person),
        ),
    ),
    "parking permit": (
        "get a {resident|resident's|yearly} parking permit",
        (
            _NAME,
            _ADDRESS,
            Field(
                "Plate",
                "{the number plate|the registration}",
                lambda rng: (
                    f"{rng.choice('KLMPRT')}{rng.choice('ABDEG')}-{rng.randint(100, 999)}-{rng.choice('NSTXZ')}"
                ),
                "a blue Skoda",
                "{The plate, not the car|I need the letters and digits}",
            ),
            Field("From", "{the first day|the day it should start}", day),
            Field(
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
            Field(
                "Title",
                "{a title|the name of the invention}",
                _pick(
                    "Foldable beet lifter",
                    "Self-levelling tray for prams",
                    "Kettle lid that counts minutes",
                    "Hinge with a printed spring",
                ),
            ),
            Field(
                "Category",
                "{the category|the fields it touches}",
                _pick(
                    "agriculture", "household", "mobility and transport", "mechanics; 3D printing"
                ),
            ),
            Field(
                "Conceived",
                "{the date of conception|the day you had the idea}",
                _date(2025),
                "a while ago",
                "{A date is required|Roughly is not enough for the office}",
            ),
            Field(
                "Advantage",
                "{the gain over what exists|its advantage}",
                _pick(
                    "Half the weight, so one person can carry it",
                    "Nothing spills on slopes up to 20°",
                    "It prints in one piece, without screws",
                    "Cheap enough to throw into every box",
                ),
            ),
            _MAIL,
        ),
    ),
}
"""Name of the form -> (template of what the user wants, the fields)."""
