"""The report of a source is kept as text, and comes back as it was."""

from __future__ import annotations

from engine.formats.records import Account, Detection, SourceReport, Unread


def test_a_report_comes_back_whole() -> None:
    """Every part of an account, with each kind of example in it, is the same after it was written and read."""
    unread = Unread(2, 30, "an example")
    account = Account(
        {"messages": 10, "nowhere": 1}, {"a.b": unread}, {"audio": unread}, out_of_order=1
    )
    account.hidden["truth-field reward"] = unread
    account.ids["session_id"] = unread
    report = SourceReport("a.jsonl", Detection("openai", "it says so"), 1, 2, 3, account, {"no": 3})
    again = SourceReport.from_json(report.to_json())
    assert again == report
    assert all(
        isinstance(one, Unread)
        for kind in (
            again.account.lost,
            again.account.unknown,
            again.account.hidden,
            again.account.ids,
        )
        for one in kind.values()
    )
