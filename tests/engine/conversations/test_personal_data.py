"""Personal data in texts: what is found, what is not, and that nothing found survives redaction."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversations.personal_data import Redactor, find_kinds, find_personal_data

# numbers that are printed as examples by those who issue such numbers; no person has them
FOUND = [
    ("email", "write to jane.doe+shop@mail.example.co.uk, please", "jane.doe+shop@mail.example.co.uk"),
    ("email", "[mail](mailto:jo@example.com)", "jo@example.com"),
    ("email", "bei zoë_müller@example.de!", "zoë_müller@example.de"),
    ("email", "_jo@example.com_", "jo@example.com"),
    ("phone", "call (555) 123-4567 now", "(555) 123-4567"),
    ("phone", "call 555-123-4567.", "555-123-4567"),
    ("phone", "work: (213)445-0399x85208", "(213)445-0399x85208"),
    ("phone", "from abroad: +44 20 7946 0958", "+44 20 7946 0958"),
    ("phone", "dial 0049 30 901820", "0049 30 901820"),
    ("phone", "My phone number is 09700166582", "09700166582"),
    ("card", "card 4111 1111 1111 1111, exp 04/30", "4111 1111 1111 1111"),
    ("card", "amex 3782-822463-10005", "3782-822463-10005"),
    ("card", "5555555555554444", "5555555555554444"),
    ("iban", "IBAN GB82 WEST 1234 5698 7654 32 PLEASE", "GB82 WEST 1234 5698 7654 32"),
    ("iban", "AT61 1904 3002 3457 3201 MINE", "AT61 1904 3002 3457 3201"),
    ("iban", "DE89370400440532013000", "DE89370400440532013000"),
    ("ip", "from 142.250.80.46.", "142.250.80.46"),
    ("ip", "host 2001:4860:4860::8888 answers", "2001:4860:4860::8888"),
]  # fmt: skip
# the examples of the SWIFT IBAN registry, one for each country
IBANS = """
AD1200012030200359100100 AE070331234567890123456 AL47212110090000000235698741 AT611904300234573201
AZ21NABZ00000000137010001944 BA391290079401028494 BE68539007547034 BG80BNBG96611020345678 BH67BMAG00001299123456
BI4210000100010000332045181 BR1800360305000010009795493C1 BY13NBRB3600900000002Z00AB00 CH9300762011623852957
CR05015202001026284066 CY17002001280000001200527600 CZ6508000000192000145399 DE89370400440532013000
DJ2100010000000154000100186 DK5000400440116243 DO28BAGR00000001212453611324 EE382200221020145685
EG380019000500000000263180002 ES9121000418450200051332 FI2112345600000785 FK88SC123456789012 FO6264600001631634
FR1420041010050500013M02606 GB29NWBK60161331926819 GE29NB0000000101904917 GI75NWBK000000007099453 GL8964710001000206
GR1601101250000000012300695 GT82TRAJ01020000001210029690 HN88CABF00000000000250005469 HR1210010051863000160
HU42117730161111101800000000 IE29AIBK93115212345678 IL620108000000099999999 IQ98NBIQ850123456789012
IS140159260076545510730339 IT60X0542811101000000123456 JO94CBJO0010000000000131000302
KW81CBKU0000000000001234560101 KZ86125KZT5004100100 LB62099900000001001901229114 LC55HEMM000100010012001200023015
LI21088100002324013AA LT121000011101001000 LU280019400644750000 LV80BANK0000435195001 LY83002048000020100120361
MC5811222000010123456789030 MD24AG000225100013104168 ME25505000012345678951 MK07250120000058984 MN121234123456789123
MR1300020001010000123456753 MT84MALT011000012345MTLCAST001S MU17BOMM0101101030300200000MUR
NI45BAPR00000013000003558124 NL91ABNA0417164300 NO9386011117947 OM810180000001299123456 PK36SCBL0000001123456702
PL61109010140000071219812874 PS92PALS000000000400123456702 PT50000201231234567890154 QA58DOHB00001234567890ABCDEFG
RO49AAAA1B31007593840000 RS35260005601001611379 RU0304452522540817810538091310419 SA0380000000608010167519
SC18SSCB11010000000000001497USD SD8811123456789012 SE4550000000058398257466 SI56263300012039086
SK3112000000198742637541 SM86U0322509800000000270100 SO211000001001000100141 ST23000100010051845310146
SV62CENR00000000000000700025 TL380080012345678910157 TN5910006035183598478831 TR330006100519786457841326
UA213223130000026007233566001 VA59001123000012345678 VG96VPVG0000012345678901 XK051212012345678906
YE15CBYE0001018861234567891234
"""
NOT_FOUND = [
    "order 4111111111111112",  # no valid check digit
    "find . -size +1048576",
    "it costs 1,234,567.89 dollars, or $5551234567",
    "version 1.2.3.4 and 10.0.0.1 and 127.0.0.1",
    "1.0.0.127.in-addr.arpa",
    "2026-11-23 12:30:45 and 12:30:45:00",
    "1700000000 seconds, id 550e8400-e29b-41d4-a716-446655440000",
    "GB82 WEST 1234 5698 7654 33",
    "ff02::1 and fe80::1",
    "a::b and dad::cafe are code",
    "reservation HATHAT, flight HAT170, ticket 0000-000-0000",
    "user@localhost and @name and a@b",
    "3.14159265358979",
    "EN63 001 49.8285 22.6494",
]


@pytest.mark.parametrize(("kind", "text", "piece"), FOUND)
def test_found(kind: str, text: str, piece: str) -> None:
    """Each kind is found in the ways that it is written, from its first character to its last."""
    (one,) = find_personal_data(text)
    assert (one.kind, text[one.start : one.end]) == (kind, piece)


@pytest.mark.parametrize("iban", IBANS.split())
def test_iban_of_each_country(iban: str) -> None:
    """The IBAN of each country is redacted as it is stored and as it is printed, in groups of four."""
    printed = " ".join(iban[start : start + 4] for start in range(0, len(iban), 4))
    assert Redactor().text(f"pay to {iban} or {printed}, today") == (
        "pay to [iban 1] or [iban 1], today"
    )


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    """Prices, versions, times, ids and numbers with a wrong check digit are no personal data."""
    assert find_personal_data(text) == []


# JSON inside a text may write other letters as escapes, which make another piece of an address
pieces = st.sampled_from([piece for _, _, piece in FOUND if piece.isascii()])
words = st.text('abc xyz,.\n"\\ü', max_size=12)


@settings(max_examples=20)
@given(st.lists(st.tuples(words, pieces), max_size=6), words)
def test_nothing_survives(parts: list[tuple[str, str]], end: str) -> None:
    """After redaction no text, field name or text inside JSON holds what was found, and the rest is unchanged."""
    text = " ".join(f"{before} {piece} " for before, piece in parts) + end
    redactor = Redactor()
    value = {"a": [text, {text: 1}], "arguments": json.dumps({"note": text})}
    redacted = json.dumps(redactor.value(value), ensure_ascii=False)
    assert find_kinds(redacted) == set()
    assert sum(redactor.counts.values()) == len(
        {
            re.sub(r"[ ().-]", "", text[one.start : one.end]).lower()
            for one in find_personal_data(text)
        }
    )
    assert Redactor().value({"n": 5, "t": "no data", "x": None}) == {
        "n": 5,
        "t": "no data",
        "x": None,
    }


def test_the_same_gets_the_same_name() -> None:
    """An address has one pseudonym however its letters and spaces are written, another address another one."""
    redactor = Redactor()
    assert redactor.text("a@x.org A@X.org b@x.org") == "[email 1] [email 1] [email 2]"
    assert redactor.text("+44 20 7946 0958, +442079460958") == "[phone 1], [phone 1]"
    assert redactor.text("8.88.1.1 88.8.1.1 ::ffff:8.88.1.1") == "[ip 1] [ip 2] [ip 1]"
    assert redactor.text("2A00:1450::200e 2a00:1450:0::200E") == "[ip 3] [ip 3]"
    assert redactor.counts == {"email": 2, "phone": 1, "ip": 3}
