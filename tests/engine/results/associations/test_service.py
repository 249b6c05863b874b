"""What goes with one of two sides of made-up projects: an airline's desk, a terminal, goals that differ in success."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message, ToolCall, Verdict
from engine.base.errors import NotFound, UsageError
from engine.base.sign import Sign, SignReading
from engine.conversations.filters import parse_filter
from engine.formats.records import Parsed
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from engine.results.associations.formatting import (
    association_cells,
    association_tables,
    conclusion,
    feature_sentence,
    feature_text,
    notes,
    side_lines,
)
from engine.results.associations.records import Associations, Split, WordFeature
from engine.results.associations.service import AssociationService
from engine.results.comparison.differences import SignChange
from engine.signs import tables as signs
from tests.engine.goals.service.goal_project import cluster
from tests.engine.project.support import fill, give_scores, talk

NAMES = ("ann", "bo", "cy", "di", "ed", "flo", "gus", "hal", "ida", "jo")


def service_of(project: Project) -> AssociationService:
    """The associations of a project."""
    return AssociationService(project, MergeQueueCache(project, DecisionLog(project)))


def record(name: str, messages: Sequence[Message], reward: float, **meta: str) -> Parsed:
    """A record with a reward."""
    conversation = Conversation(name, tuple(messages), meta, truth={"reward": reward})
    return Parsed(None, name.encode(), conversation)


def call(tool: str, result: str) -> tuple[Message, Message]:
    """A call of a tool, and its result."""
    calls = (ToolCall(tool, "{}", "1"),)
    return Message("assistant", "", tool_calls=calls), Message(
        "tool", result, name=tool, tool_call_id="1"
    )


def desk(number: int) -> Parsed:
    """One of two kinds at an airline's desk: a booking, which mostly fails, or a refusal, which is mostly right."""
    books, exception = number % 2, number % 10 == 0
    opening = Message(
        "user",
        f"Hello, I am {NAMES[(number // 2 + number // 20) % 10]} and my flight is number {number}.",
    )
    if books:
        messages = (
            opening,
            *call("book_reservation", '{"payment_id": "card"}'),
            Message("assistant", "Your reservation is booked."),
            Message("user", "Please proceed with that."),
        )
    else:
        messages = (
            opening,
            Message("assistant", "I am unable to change that, by our policy."),
            *call("transfer_to_human_agents", "Transfer successful"),
            Message("assistant", "I transferred you."),
        )
    reward = float(not books) if not exception else 0.0
    return record(
        f"desk{number}",
        messages,
        reward,
        channel=("web", "phone")[number % 3 == 0],
        way="wp"[number % 3 == 0],
    )


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A hundred conversations at the desk."""
    with Project.open(tmp_path_factory.mktemp("airline") / "airline.wb", create=True) as opened:
        fill(opened, [desk(number) for number in range(100)])
        yield opened


FAILED = Split(parse_filter("truth.reward<1"), parse_filter("truth.reward>=1"))


def names_of(result: Associations, side: int) -> set[str]:
    """What goes with a side, near-equal features included."""
    return {
        feature_text(feature)
        for row in result.rows
        if row.side == side
        for feature in (row.feature, *row.near_equal)
    }


class TestAssociations:
    def test_bookings_go_with_failure_and_handing_over_with_success(self, airline: Project) -> None:
        """Tools and words of both speakers and of results are found on their sides, with what nothing goes with left
        out."""
        result = service_of(airline).associations(FAILED)
        assert result.sizes == (60, 40)
        failed, succeeded = names_of(result, 0), names_of(result, 1)
        assert {
            "tool:book_reservation",
            "user: “please proceed”",
            "tool result: “payment_id”",
        } <= failed
        assert {
            "tool:transfer_to_human_agents",
            "assistant: “am unable to”",
            "assistant: “policy”",
        } <= succeeded
        assert not {
            name for name in failed | succeeded if "channel" in name or "ann" in name.split()
        }

    def test_it_counts_and_names_the_conversations_behind(self, airline: Project) -> None:
        """An association has its counts of both sides, odds above 1 with an interval, and the ids of its side."""
        row = next(row for row in service_of(airline).associations(FAILED).rows if row.side == 1)
        assert row.counts == (10, 40)
        assert len(row.ids) == 40
        assert 1 < row.odds.low < row.odds.value < row.odds.high
        assert row.p < 0.05

    def test_sides_and_signs_are_told_in_words(self, airline: Project) -> None:
        """A line on a side says what its conversations did, before the filter; a sign is told as lists tell it."""
        split = Split(FAILED.first, FAILED.second, "failure", ("failed", "succeeded"))
        lines = side_lines(service_of(airline).associations(split))
        assert lines == (
            "A  60 conversations that failed (truth.reward<1)",
            "B  40 conversations that succeeded (truth.reward>=1)",
        )
        (term,) = parse_filter("sign:refused-last").terms
        assert feature_text(term) == "sign:refused-last (refusal or apology in the last answer)"

    def test_odds_whose_range_includes_even_ones_may_be_chance(self, airline: Project) -> None:
        """The cell, the sentence, the notes and JSON say so of such a row, and nothing of the others."""
        result = service_of(airline).associations(FAILED)
        row = replace(result.rows[0], odds=replace(result.rows[0].odds, low=0.9))
        doubtful = replace(result, rows=(row, *result.rows[1:]))
        assert "? (0.9 to" in association_cells(row)[3]
        assert feature_sentence(row, doubtful).endswith(", which may be chance.")
        assert "may be chance" in notes(doubtful)[-1]
        found = service_of(airline).as_json(doubtful)["associations"]
        assert [each["may_be_chance"] for each in found] == [True] + [False] * (len(found) - 1)
        assert "may be chance" not in " ".join(notes(result))

    def test_near_equal_features_are_one_row(self, airline: Project) -> None:
        """Of what the same conversations have one feature is a row, a property before words."""
        result = service_of(airline).associations(FAILED)
        assert len(result.rows) <= 3
        row, word = result.rows[0], WordFeature("user", "anywhere", "hello")
        many = replace(result, rows=(*[replace(row, feature=word)] * 20, row))
        assert next(association_tables(many)).rows[-1].cells[0] == "tool:book_reservation"
        assert feature_text(result.rows[0].feature) == "tool:book_reservation"
        assert result.significant > 20

    def test_what_a_side_is_chosen_by_and_truth_are_no_features(self, airline: Project) -> None:
        """A split by a tool names neither tools nor rewards; one by words not those words."""
        service = service_of(airline)
        by_tool = service.associations(
            Split(parse_filter("tool:book_reservation"), parse_filter(""))
        )
        assert not {
            name
            for name in names_of(by_tool, 0) | names_of(by_tool, 1)
            if name.startswith(("tool:", "truth"))
        }
        by_word = service.associations(Split(parse_filter('"policy"'), parse_filter("")))
        assert "assistant: “policy”" not in names_of(by_word, 0)
        assert "tool:transfer_to_human_agents" in names_of(by_word, 0)
        by_way = service.associations(Split(parse_filter("meta.channel:phone"), parse_filter("")))
        assert by_way.rows == ()  # the field `way` says the same

    def test_a_split_at_random_shows_nothing_and_says_so(self, airline: Project) -> None:
        """Where nothing differs the sentence says how much was tested, and which signs a comparison names."""
        result = service_of(airline).associations(Split(parse_filter("draw<.5"), parse_filter("")))
        assert result.rows == ()
        assert f"none of {result.tested} words" in conclusion(result)
        changes = (SignChange("errors", (0, 79, 12, 84), 0.01), SignChange("long", (1, 9, 2, 9), 1))
        assert conclusion(replace(result, sign_changes=changes)).endswith(
            "By signs alone, A against B: “error” in 14% against 0%."
        )

    def test_sides_must_be_large_and_apart(self, airline: Project) -> None:
        """Too few conversations, and conversations on both sides, are refused with what to do."""
        service = service_of(airline)
        with pytest.raises(UsageError, match="has 1 conversation"):
            service.associations(Split(parse_filter("name:desk55"), parse_filter("")))
        with pytest.raises(UsageError, match="on both sides"):
            service.associations(Split(parse_filter("truth.reward<1"), parse_filter("tool:any")))


def test_errors_in_results_go_with_failure(tmp_path: Path) -> None:
    """At a terminal that answers failed commands with errors, these are found in the results."""
    with Project.open(tmp_path / "terminal.wb", create=True) as project:
        records = [
            record(
                f"shell{number}",
                (
                    Message("user", f"List file {number}"),
                    *call("bash", "Error: no such file" if number % 3 else f"file {number}"),
                    Message("assistant", "submit"),
                ),
                float(number % 3 == 0 or number % 7 == 0),
            )
            for number in range(90)
        ]
        fill(project, records)
        result = service_of(project).associations(FAILED)
        assert "tool result: “error”" in names_of(result, 0)
        assert not names_of(result, 1)


def test_what_only_tells_goals_apart_is_no_association_within_them(tmp_path: Path) -> None:
    """Words of a goal that fails more often go with failure, but not within goals; what fails in both does."""
    wishes = (
        "book a flight ticket, plane seat to {}",
        "order a large pizza with extra cheese for {}",
    )
    with Project.open(tmp_path / "goals.wb", create=True) as project:
        records = []
        for number in range(160):
            goal, nth = number % 2, number // 2
            fails = nth % 4 != 0 if goal else nth % 4 == 0
            sorry = fails and nth % 8 != 1
            answer = f"{'Sorry, impossible.' if sorry else 'Done.'} {NAMES[nth % 7]}"
            messages = (
                Message("user", wishes[goal].format(NAMES[nth % 10])),
                Message("assistant", answer + f" {number}"),
            )
            records.append(record(f"c{number}", messages, float(not fails)))
        fill(project, records)
        cluster(project, k=2)
        service = service_of(project)
        apart = service.associations(FAILED, within_goals=False)
        within = service.associations(FAILED)
        assert (apart.goals, within.goals) == (0, 2)
        assert "user: “pizza”" in names_of(apart, 0)
        assert "user: “pizza”" not in names_of(within, 0)
        assert "assistant: “sorry”" in names_of(within, 0)
        assert "within 2 goals" in notes(within)[0]
        for row in within.rows:
            first, second = association_cells(row)[1:3][:: -1 if row.side else 1]
            sentence = feature_sentence(row, within)
            assert sentence.startswith(f"Within goals, in {first} of")
            assert f"and {second} of" in sentence


def test_a_goal_that_only_failed_is_a_finding(tmp_path: Path) -> None:
    """Where all conversations of a goal are on the first side, a sentence and JSON say so."""
    with Project.open(tmp_path / "goals.wb", create=True) as project:
        records = []
        for number in range(60):
            wish = ("book a flight seat to {}", "order a large pizza for {}")[number % 2]
            message = Message("user", wish.format(NAMES[number % 7]) + f" {number}")
            records.append(record(f"c{number}", [message], float(number % 6 in (1, 3))))
        fill(project, records)
        cluster(project, k=2)
        service = service_of(project)
        result = service.associations(FAILED)
        ((label, size),) = result.first_only
        found = f"30 of the 40 that are in A are in the goal “{label}”, where none are in B. "
        assert (size, conclusion(result).startswith(found)) == (30, True)
        assert service.as_json(result)["first_only"] == [{"goal": label, "conversations": 30}]
        assert service.associations(FAILED, within_goals=False).first_only == ()


class TestSplit:
    def test_the_best_known_outcome_is_taken(self, tmp_path: Path) -> None:
        """Imported outcomes go before states; without any it is said what is missing."""
        with Project.open(tmp_path / "a.wb", create=True) as project:
            fill(project, [talk(f"t{number}", f"hello {number}", "bye") for number in range(30)])
            with pytest.raises(NotFound, match="No outcome is known of 10"):
                service_of(project).split()
            give_scores(project, {number: number % 2 for number in range(1, 31)})
            assert str(service_of(project).split().first) == "state:broken-off"
            fill(project, [desk(number) for number in range(40)], "b.jsonl")
            split = service_of(project).split()
            assert (str(split.first), split.outcome) == ("truth.reward<1", "failure")

    def test_without_an_outcome_the_most_trouble_is_a_side(self, tmp_path: Path) -> None:
        """Without verdicts and imported outcomes the conversations with the most signs of trouble stand against all
        others, by a filter that lists can repeat; without signs there is no such side."""
        with Project.open(tmp_path / "a.wb", create=True) as project:
            fill(project, [talk(f"t{number}", f"hello {number}", "bye") for number in range(150)])
            complaint = SignReading(Sign.COMPLAINT, 1, (0,), "user: useless")
            signs_by_id = {key: [complaint] if key <= 15 else [] for key in range(1, 151)}
            project.write(lambda conn: signs.put(conn, signs_by_id))
            project.write(signs.compare)
            split = service_of(project).split()
            assert (str(split.first), str(split.second)) == ("trouble>=3.0", "")
            result = service_of(project).associations(split)
            assert "not who failed" in notes(result)[0]
            assert result.sign_changes == ()
            by_chance = Split(parse_filter("draw<.5"), parse_filter(""))
            (_, change) = service_of(project).associations(by_chance).sign_changes
            assert (change.sign, change.counts[1] + change.counts[3]) == ("complaint", 150)
            for key in (1, 2, 3):
                TriageService(project).give(key, Verdict.NO)
            assert service_of(project).split().shortage == (
                "3 conversations that failed are known (succeeded:no) and 0 that succeeded, 10 of each are needed."
            )
            TriageService(project).undo()
            project.write(lambda conn: conn.execute("UPDATE trouble SET total = 0"))
            with pytest.raises(NotFound, match="2 conversations that failed are known"):
                service_of(project).split()

    def test_sides_are_named_by_filters_or_by_a_question(self, airline: Project) -> None:
        """A question has its answers no and yes as sides; naming both, or an unknown question, is refused."""
        service = service_of(airline)
        assert str(service.split(question="succeeded").second) == "succeeded:yes"
        with pytest.raises(UsageError, match="Only the second side"):
            service.split(second=parse_filter("turns>1"))
        with pytest.raises(UsageError, match="A question and filters"):
            service.split(parse_filter("turns>1"), question="succeeded")
        with pytest.raises(UsageError, match="no question “sunny”"):
            service.split(question="sunny")
