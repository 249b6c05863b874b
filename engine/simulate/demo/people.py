"""Random names, places and references that several domains use."""

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
    """Returns a first and a last name, in about 6% of draws a name in Chinese, Japanese or Korean script."""
    if rng.random() < 0.06:
        return rng.choice(_CJK)
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def reference(rng: Random, length: int = 5) -> str:
    """Returns capital letters and digits, without those that are easily misread (0, 1, 5, I, L, O, S)."""
    return "".join(rng.choices("ABCDEFGHJKMNPQRTUVWXYZ2346789", k=length))


def day(rng: Random) -> str:
    """Returns a day from April to November as people write it: `12 May`."""
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS[3:11])}"
