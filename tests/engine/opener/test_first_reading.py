"""Which conversations to read first, and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from engine.base.conversation import Verdict
from engine.conversations.filters import parse_filter
from engine.opener.key_figures import MAX_TO_READ, conversations_to_read
from engine.opener.open_project import OpenProject
from engine.signs.stages import SignStage
from tests.engine.goals.service.goal_project import PLACES, TOPICS, cluster, run
from tests.engine.project.support import fill, talk


def test_the_most_trouble_without_a_verdict_is_read_first(tmp_path: Path) -> None:
    """At most five conversations with signs are named, the most trouble first, each with its signs in words; one that
    has a verdict is not, unless judged failures are asked for. A filter has its own."""
    records = [talk(f"quiet {n}", f"Where is Rome {n}?", "In Italy.") for n in range(20)]
    records += [
        talk(f"refused {n}", f"Where is {n}?", "I am sorry, I do not know.") for n in range(6)
    ]
    records.append(talk("worst", "Where?", "I cannot say.", "That is wrong, why do you not know?"))
    with OpenProject(tmp_path / "p.wb", create=True) as project:
        fill(project.project, records)
        run(project.project, [SignStage(project.project)])
        readings = conversations_to_read(project)
        assert len(readings) == MAX_TO_READ
        assert readings[0].row.external_id == "worst"
        assert "the user has the last word" in readings[0].reason
        assert "user: wrong, why do you not know" in readings[0].reason
        project.triage.give(readings[0].row.id, Verdict.NO)
        judged, *_ = conversations_to_read(project, failures=True)
        assert judged.row.external_id == "worst"
        assert judged.reason.startswith("judged failed · ")
        names = [reading.row.external_id for reading in conversations_to_read(project)]
        assert all(name.startswith("refused") for name in names)
        assert conversations_to_read(project, parse_filter("Rome")) == []
        (last,) = conversations_to_read(project, parse_filter('"Where is 5"'))
        assert last.row.external_id == "refused 5"


def test_goals_of_one_name_have_their_own_share(tmp_path: Path) -> None:
    """Two of each goal are read first, also where two goals have the same name."""
    records = [
        talk(f"{topic}-{place}", wordings[0].format(place), "Sorry, I cannot." if at < 3 else "ok")
        for topic, wordings in TOPICS.items()
        for at, place in enumerate(PLACES)
    ]
    with OpenProject(tmp_path / "p.wb", create=True) as project:
        fill(project.project, records)
        run(project.project, [SignStage(project.project)])
        cluster(project.project, k=4)
        project.project.write(lambda conn: conn.execute("UPDATE cluster_label SET label = 'Do it'"))
        names = [reading.row.external_id for reading in conversations_to_read(project)]
    assert sorted(Counter(name.split("-")[0] for name in names).values()) == [1, 2, 2]
