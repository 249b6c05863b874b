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
TOWNS = ("Leeds", "Utrecht", "Galway", "Lyon", "Graz", "Porto", "Malmö", "Brno", "Cork", "Ghent")


def person(rng: Random) -> str:
    """First and last name; now and then in another script."""
    if rng.random() < 0.06:
        return rng.choice(_CJK)
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def reference(rng: Random, length: int = 6) -> str:
    """Capital letters and digits that are hard to misread."""
    return "".join(rng.choices("ABCDEFGHJKMNPQRTUVWXYZ2346789", k=length))


def day(rng: Random, month: int | None = None) -> str:
    """A date of 2026 as YYYY-MM-DD."""
    return f"2026-{month or rng.randint(4, 11):02d}-{rng.randint(1, 28):02d}"
