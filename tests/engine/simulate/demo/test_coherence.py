"""The text of a sample conversation agrees with the results of its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from engine.base.conversation import Conversation
from tests.engine.simulate.demo.corpus import corpus, in_domain, truth, with_outcome


def said(conversation: Conversation, *roles: str) -> str:
    return "\n".join(m.content for m in conversation.messages if m.role in roles)


def answers(conversation: Conversation, name: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Arguments and parsed answers of one tool; answers that are no JSON are left out."""
    for message, after in zip(conversation.messages, conversation.messages[1:], strict=False):
        for call in message.tool_calls:
            if call.name == name and after.content.startswith("{"):
                yield json.loads(call.arguments), json.loads(after.content)


class TestShopping:
    def test_totals_add_up(self) -> None:
        """The items charged into a cart and the shipping make the total of the order."""
        orders = 0
        for c in in_domain("shopping"):
            shown = said(c, "tool")
            carts = [float(value) for value in re.findall(r"Cart \(\d+\): \$(\d+\.\d\d)", shown)]
            assert carts == sorted(carts)
            match = re.search(r"Items: \$(\S+)\nShipping: \$(\S+)\nTotal: \$(\S+)", shown)
            if match:
                orders += 1
                items, shipping, total = map(float, match.groups())
                assert abs(items + shipping - total) < 0.005
                assert items == carts[-1]
        assert orders >= 2

    def test_order_numbers_that_are_named_exist(self) -> None:
        """The assistant names only orders that the shop's tool confirmed."""
        named = 0
        for c in in_domain("shopping"):
            numbers = set(re.findall(r"\d{3}-\d{3}", said(c, "assistant")))
            named += len(numbers)
            assert numbers <= set(re.findall(r"\d{3}-\d{3}", said(c, "tool")))
        assert named >= 5

    def test_what_is_bought_is_within_the_price_asked_for(self) -> None:
        """No purchase costs more than the highest limit in the request."""
        for c in in_domain("shopping"):
            first = next(m.content for m in c.messages if m.role == "user")
            limits = [int(value) for value in re.findall(r"(\d+) d\w+s", first)]
            for price in re.findall(r"Charged \$(\d+\.\d\d)", said(c, "tool")):
                assert float(price) <= max(limits, default=10**6)


class TestTravel:
    def test_a_receipt_names_what_was_paid(self) -> None:
        """The receipt is the price of the booking and everything charged since."""
        receipts = 0
        for c in in_domain("travel"):
            booked = {asked["booking"]: a for asked, a in answers(c, "get_booking")}
            charged = sum(
                answer.get("charged", 0)
                for tool in ("change_flight", "add_bag")
                for _, answer in answers(c, tool)
            )
            for arguments, answer in answers(c, "send_receipt"):
                if "total" not in answer:
                    continue
                receipts += 1
                assert answer["total"] == booked[arguments["booking"]]["paid"] + charged
        assert receipts >= 3

    def test_a_refund_follows_the_policy(self) -> None:
        """A refund is full for flex, less 60 for standard, and none for basic."""
        cancelled = 0
        for c in in_domain("travel"):
            fares = {asked["booking"]: a for asked, a in answers(c, "get_booking")}
            for arguments, answer in answers(c, "cancel"):
                cancelled += 1
                booking = fares[arguments["booking"]]
                fee = {"flex": 0, "standard": 60}[booking["fare"]]
                assert answer["refund"] == booking["paid"] - fee
        assert cancelled >= 1


class TestUnderwriting:
    def test_premiums_are_base_times_rate(self) -> None:
        """The rater's premium follows from its own terms and from the account."""
        rated = 0
        for c in in_domain("underwriting"):
            accounts = [answer for _, answer in answers(c, "get_account")]
            for arguments, answer in answers(c, "rate"):
                if "premium" not in answer:
                    continue
                rated += 1
                assert answer["premium"] == round(arguments["base"] * answer["rate"], 2)
                key = "insured_m" if arguments["line"] == "property" else "revenue_m"
                assert arguments["base"] == accounts[0][key]
        assert rated >= 5


class TestTerminalAndSql:
    def test_counts_agree_with_listings(self) -> None:
        """Searching for a word gives as many files as the answer says."""
        checked = 0
        for c in in_domain("terminal"):
            for before, after in zip(c.messages, c.messages[1:], strict=False):
                match = re.search(r"this many files: (\d+)|(\d+) of the files", after.content)
                if match and before.role == "tool" and before.content.isdigit():
                    checked += 1
                    assert int(match.group(1) or match.group(2)) == int(before.content)
        assert checked >= 1

    def test_a_corrected_row_reads_back_corrected(self) -> None:
        """After an update the database really holds the new value."""
        checked = 0
        for c in in_domain("sql"):
            text = "\n".join(
                m.content + "".join(call.arguments for call in m.tool_calls) for m in c.messages
            )
            for town, rest in re.findall(r"SET town = '(\w+)'(.*)", text, re.DOTALL):
                if "SELECT id, name, town" in rest:
                    checked += 1
                    assert town in rest.split("SELECT id, name, town", 1)[1]
        assert checked >= 2


class TestForms:
    def test_what_is_filed_was_given(self) -> None:
        """Every entry of a submitted form occurs in the user's messages."""
        filed = 0
        for c in in_domain("forms"):
            given = said(c, "user").lower()
            for arguments, _ in answers(c, "submit_form"):
                filed += 1
                for value in arguments["fields"].values():
                    assert str(value).lower() in given
        assert filed >= 8


class TestOutcomes:
    def test_failures_show_why(self) -> None:
        """A failed conversation states that something was not possible."""
        plain = re.compile(
            r"not |n't|cannot|no |nothing|sold out|unavailable|out of stock|declined|refused|refuses"
            r"|rejects|error|down|timeout",
            re.IGNORECASE,
        )
        for c in with_outcome("failed"):
            assert any(plain.search(m.content) for m in c.messages[-5:] if m.role != "user")

    def test_broken_off_conversations_stop_before_the_filing_or_the_last_order(self) -> None:
        """In an interrupted conversation no form is submitted and no cart checked out."""
        for c in corpus():
            if truth(c, "outcome") == "broken_off":
                shown = said(c, "tool")
                assert '"status": "received"' not in shown
                assert "Ship to:" not in shown
