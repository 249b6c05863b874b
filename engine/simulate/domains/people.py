"""Names, places and references that several worlds share."""

from __future__ import annotations

from random import Random

_FIRST = (
    *("Marta", "Jonas", "Priya", "Owen", "Zoë", "Søren", "Noémie"),
    *("Tomáš", "Aisha", "Kenji", "Lucía", "Declan", "Ines", "Bartosz"),
    *("Mei", "Yusuf", "Greta", "Hamish", "Renata", "Oluwaseun", "Chloe"),
    *("Viktor", "Nadia", "Pablo", "Ingrid", "Farid", "Leonie", "Samuel"),
)
_LAST = (
    *("Okafor", "Lindqvist", "Brennan", "Dvořák", "Tanaka", "Moreau", "Castillo"),
    *("Haddad", "Novak", "Petrov", "Whitlock", "Iyer", "Sørensen", "Baptiste"),
    *("Kowalczyk", "Greene", "Nakamura", "Ferrari", "Osei", "Müller", "Halloran"),
    *("Quintero", "Park", "Ilves"),
)
_CJK = ("李娜", "山本 結衣", "김서연", "陈伟")
STREETS = (
    "Mill Lane",
    "Harbour Street",
    "Quarry Road",
    "Rue des Tanneurs",
    "Lindenstraße",
    "Calle Olmo",
    "Orchard Close",
    "Station Road",
)
MONTHS = ("Jan", "Feb", "March", "April", "May", "June", "July", "Aug", "Sept", "Oct", "Nov", "Dec")
TOWNS = ("Leeds", "Utrecht", "Galway", "Lyon", "Graz", "Porto", "Malmö", "Brno", "Cork", "Ghent")


def person(rng: Random) -> str:
    """First and last name; now and then in another script."""
    if rng.random() < 0.06:
        return rng.choice(_CJK)
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def reference(rng: Random, length: int = 5) -> str:
    """Capital letters and digits that are hard to misread."""
    return "".join(rng.choices("ABCDEFGHJKMNPQRTUVWXYZ2346789", k=length))


def day(rng: Random) -> str:
    """A day of the coming months as people write it, `12 May`."""
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS[3:11])}"
