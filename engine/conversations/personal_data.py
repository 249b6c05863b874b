"""Finds personal data in texts, and replaces it.

Personal data are e-mail addresses, phone numbers, payment cards, bank accounts and IP addresses. Each is found by a
pattern and, where there is one, by its checksum. Names, postal addresses and dates of birth have no pattern that could
be relied on: they are not found.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["email", "phone", "card", "iban", "ip"]
"""A kind of personal data."""
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds of personal data that are found."""

KIND_NAMES: Mapping[str, str] = {
    "email": "e-mail address",
    "phone": "phone number",
    "card": "payment card",
    "iban": "bank account (IBAN)",
    "ip": "IP address",
}
"""What each kind of personal data is called in sentences."""

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9À-ɏ.+-])[A-Za-z0-9À-ɏ](?:[\wÀ-ɏ.+-]{0,62}[\wÀ-ɏ+-])?"
    r"@(?:[A-Za-z0-9À-ɏ-]{1,63}\.)+[A-Za-z]{2,24}(?![A-Za-z0-9@])",
    re.ASCII,  # Chinese and Japanese put no space before an address
)
"""Matches an e-mail address, such as `ann.lee+news@mail.example.org`; underscores around it mark it in Markdown."""

_IBAN = re.compile(
    r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)
"""Matches what looks like a bank account: country, two check digits, and groups of four, such as
`DE89 3704 0044 0532 0130 00`."""

_CARD = re.compile(
    r"(?<![\w.,+#/-])[2-6]\d{3}(?:([ -]?)\d{4}\1\d{4}\1\d{1,7}|([ -])\d{6}\2\d{5})(?![\w/-]|[.,]\d)"
)
"""Matches what looks like the number of a payment card, 13 to 19 digits: groups of four of which the last may be longer
or shorter, or groups of four, six and five (American Express)."""

_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\w)")
"""Matches four numbers with dots, such as `192.0.2.17`; also `999.1.2.3`, which is no address."""

_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?![\w:]|\.\w)"
)
"""Matches hexadecimal numbers with at least two colons, such as `2001:db8::17` and `::ffff:192.0.2.17`; also the time
`12:30:45`."""

_PHONE = re.compile(
    r"(?<![\w.,+#/$€£-])(?:"
    r"\+[1-9]\d{0,2}(?:[ .-]?\(\d{1,4}\))?(?:[ .-]?\d){8,12}"  # with the code of a country
    r"|00[1-9]\d{0,2}[ -](?:\d[ -]?){6,11}\d"
    r"|\(\d{3}\)[ .-]?\d{3}[ .-]\d{4}"  # (555) 123-4567
    r"|\d{3}([ .-])\d{3}\1\d{4}"  # 555-123-4567
    r"|1([ .-])\d{3}\2\d{3}\2\d{4}"
    r")(?:[ ]?(?:x|ext\.?)[ ]?\d{1,6})?(?!\w|[.,/-]\d)"  # an extension
)
"""Matches a phone number that is written as one, such as `+49 30 1234567`, `0044 20 79460000` or `1-555-123-4567`."""

_SPOKEN_PHONE = re.compile(
    r"\b(?:phone|telephone|tel|mobile|cell|cellphone|whatsapp|call me (?:at|on|back at)|fax)\b"
    r"(?:[ ]?(?:number|no|nr|num|#))?\.?(?:[ ]?(?:is|:|=|at|->))?[\s\"']{0,3}"
    r"(?P<number>\+?\(?\d(?:[ .()-]{0,2}\d){6,14})(?![\w-]|[.,]\d)",
    re.IGNORECASE,
)
"""Matches digits with spaces, dots, hyphens or parentheses after words that say that they are a phone number, such as
`phone` or `call me at`."""

_IPV6_UNICAST = ipaddress.ip_network("2000::/3")
"""The IPv6 addresses that lead to one machine (IANA, IPv6 global unicast address assignments)."""

_VERSION = re.compile(r"(?:\bv|version|release|build|chapter|section)[ =:]*$", re.IGNORECASE)
"""Matches the end of a text after which four numbers with dots are a version and no IP address."""

_VERSION_CHARACTERS = 12
"""Number of characters before an address in which `_VERSION` is looked for."""

_CARD_DIGITS = range(13, 19 + 1)
"""Numbers of digits that a payment card may have (ISO/IEC 7812-1)."""

_PHONE_DIGITS = range(7, 15 + 1)
"""Numbers of digits that a phone number may have; 15 at most (ITU-T E.164)."""

_FOUR_DIGITS = re.compile(r"\d[ ().-]{0,3}\d[ ().-]{0,3}\d[ ().-]{0,3}\d")
"""Finds four digits close together, without which a text has no IPv4 address."""

_SEVEN_DIGITS = re.compile(r"\d(?:[ ().-]{0,3}\d){6}")
"""Finds seven digits close together, without which a text has no card, bank account or phone number."""

_COLONS = re.compile(r":[0-9A-Fa-f]{0,4}:")
"""Finds two colons close together, without which a text has no IPv6 address."""

_COUNTRIES_BY_IBAN_LENGTH = {
    15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
"""Number of characters of an IBAN -> the codes of the countries whose IBANs have that many (SWIFT, IBAN registry)."""

_IBAN_LENGTH_BY_COUNTRY = {
    code: length for length, codes in _COUNTRIES_BY_IBAN_LENGTH.items() for code in codes.split()
}
"""Number of characters of an IBAN by the code of its country."""

PSEUDONYM_DIGITS = 6
"""Hexadecimal digits of a pseudonym: of 1,000 addresses two have the same one with a probability of .03."""


@dataclass(frozen=True, slots=True)
class PersonalData:
    """A piece of personal data in a text.

    Attributes:
        kind: What it is.
        start: Position of its first character in the text.
        end: Position after its last character.
    """

    kind: Kind
    start: int
    end: int


def find_personal_data(text: str) -> list[PersonalData]:
    """Returns the personal data in a text, in order; pieces do not overlap."""
    pieces: list[PersonalData] = []
    if "@" in text:
        pieces += (PersonalData("email", *match.span()) for match in _EMAIL.finditer(text))
    # most texts hold no long number, and these patterns take ten times as long as looking for one
    if _COLONS.search(text):
        pieces += (PersonalData("ip", *span) for span in _find_ips(_IPV6, text))
    if _FOUR_DIGITS.search(text):
        pieces += (PersonalData("ip", *span) for span in _find_ips(_IPV4, text))
        if _SEVEN_DIGITS.search(text):
            pieces += (PersonalData("card", *span) for span in _find_cards(text))
            pieces += (PersonalData("iban", *span) for span in _find_ibans(text))
            pieces += (PersonalData("phone", *span) for span in _find_phones(text))
    pieces.sort(key=lambda piece: (piece.start, -piece.end))
    disjoint: list[PersonalData] = []
    for piece in pieces:
        if not disjoint or piece.start >= disjoint[-1].end:
            disjoint.append(piece)
    return disjoint


def find_kinds(text: str) -> set[Kind]:
    """Returns the kinds of personal data that a text contains."""
    return {piece.kind for piece in find_personal_data(text)}


class Redactor:
    """Replaces personal data by pseudonyms: the same address is `[email 1]` wherever it occurs, or `[email 3f2a9c]`
    with a secret, by which other runs give it the same one and nobody else can find it by trying addresses.

    Attributes:
        counts: Number of different pieces of each kind that were replaced.
    """

    def __init__(self, secret: str = "") -> None:
        """Replaces nothing yet.

        Args:
            secret: Makes pseudonyms that are the same in other runs; without it they are numbers in the order of the
                texts.
        """
        self._secret = secret.encode()
        self._names: dict[tuple[Kind, str], str] = {}
        self.counts: dict[Kind, int] = {}

    def text(self, text: str) -> str:
        """Returns the text with its personal data replaced."""
        parts, position = [], 0
        for piece in find_personal_data(text):
            pseudonym = self._pseudonym(piece.kind, text[piece.start : piece.end])
            parts += [text[position : piece.start], pseudonym]
            position = piece.end
        return "".join([*parts, text[position:]]) if parts else text

    def value(self, value: Any) -> Any:
        """Returns a JSON value with the personal data in all of its texts and names of fields replaced.

        A text that is JSON itself, such as the arguments of a call, is replaced as a text. Numbers stay.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def _pseudonym(self, kind: Kind, data: str) -> str:
        """Returns the pseudonym of a piece of personal data.

        Case makes no difference, nor does the form of an IP address, nor spaces, dots, hyphens and parentheses in
        numbers.
        """
        if kind == "ip":
            address = ipaddress.ip_address(data)
            plain_form = str(getattr(address, "ipv4_mapped", None) or address)
        elif kind == "email":
            plain_form = data.lower()
        else:
            plain_form = re.sub(r"[ ().-]", "", data).lower()
        key = kind, plain_form
        if key not in self._names:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            name = str(self.counts[kind])
            if self._secret:
                digest = hmac.digest(self._secret, plain_form.encode(), "sha256")
                name = digest.hex()[:PSEUDONYM_DIGITS]
            self._names[key] = f"[{kind} {name}]"
        return self._names[key]


def passes_luhn(digits: str) -> bool:
    """Returns whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    total = 0
    for position, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + position % 2)  # each second digit from the right is doubled
        total += value - 9 * (value > 9)  # the sum of the digits of 10 to 18
    return total % 10 == 0


def passes_mod97(iban: str) -> bool:
    """Returns whether the check digits of an IBAN without spaces are right (ISO 7064, mod 97-10)."""
    rotated = iban[4:] + iban[:4]  # letters count as 10 to 35
    return int("".join(str(int(char, 36)) for char in rotated)) % 97 == 1


def _find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each number of a payment card whose check digit is right."""
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if len(digits) in _CARD_DIGITS and len(set(digits)) > 1 and passes_luhn(digits):
            yield match.span()


def _find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each bank account (IBAN) whose length and check digits are right."""
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTH_BY_COUNTRY.get(match[0][:2], 0)
        # words of capitals can follow it, which the pattern takes too
        iban = re.match(rf"(?:[ -]?\w){{{length}}}", match[0])
        if length and iban and passes_mod97(re.sub(r"[ -]", "", iban[0])):
            yield match.start(), match.start() + iban.end()


def _find_ips(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each public IP address that a pattern finds."""
    for match in pattern.finditer(text):
        if _VERSION.search(text, max(0, match.start() - _VERSION_CHARACTERS), match.start()):
            continue
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            continue
        if isinstance(address, ipaddress.IPv6Address):
            # others are not given to anybody, such as `a::b`, which is code
            if address.ipv4_mapped is None and address not in _IPV6_UNICAST:
                continue
            address = address.ipv4_mapped or address
        # addresses of a private network, of a group or of an example lead to nobody
        if address.is_global and not address.is_multicast:
            yield match.span()


def _find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each phone number; one number may come twice."""
    for match in _PHONE.finditer(text):
        if len(set(re.sub(r"\D", "", match[0]))) > 2:  # 000-000-0000 stands for none
            yield match.span()
    for match in _SPOKEN_PHONE.finditer(text):
        if len(re.sub(r"\D", "", match["number"])) in _PHONE_DIGITS:
            yield match.span("number")


def format_replaced(counts: Mapping[Kind, int]) -> str:
    """Returns sentences on how many different pieces of each kind were replaced, and on what cannot be found."""
    parts = [f"{KIND_NAMES[kind]}: {counts[kind]:,}" for kind in KINDS if kind in counts]
    return (
        f"Replaced {', '.join(parts) or 'nothing'}. Names of people and postal addresses are not found: look before you"
        " hand it on."
    )
