"""The report: what it says of a small project, and that it is one safe file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from engine.base.conversation import SUCCEEDED, Message
from engine.base.errors import ProjectError, UsageError
from engine.base.report_table import ReportColumn, ReportRow, ReportTable, text_table
from engine.conversations.filters import Filter, ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.opener.report import write_report
from engine.project.project import Project
from engine.questions.question import read_built_in
from engine.questions.records import NewAnswer
from engine.results.document import Document, Paragraph, Quote, Section, to_html
from engine.signs.stages import SignStage
from tests.engine.goals.service.goal_project import cluster, fill_topics, run
from tests.engine.project.support import fill, talk
from tests.plain_html import plain_text
from tests.screens.trees.tree_project import give_trees

HOSTILE = "<script>alert(1)</script> [x](javascript:y) | `a` \x1b[31m"
ALONE = {"meta", "rect", "line", "br"}


class Checker(HTMLParser):
    """Collects what a browser would: open elements, ids, addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element."""
        self.seen.add(tag)
        if tag not in ALONE:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src", "xlink:href"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element without content."""
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        """Closes the innermost element, which has to be this one."""
        assert self.open.pop() == tag


def checked(text: str) -> Checker:
    """The file, read by a strict parser."""
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert checker.seen.isdisjoint({"script", "link", "img", "iframe"})
    assert all(address.startswith("#s") for address in checker.addresses)
    return checker


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenProject]:
    """A clustered and partly scored project with dates, an address and hostile text."""
    path = tmp_path_factory.mktemp("report") / "p.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        odd = talk("odd", HOSTILE, "write to a@example.org", meta={"model": "m1"})
        fill(project, [odd], "odd.jsonl")
        cluster(project, k=4)
    with OpenProject(path, read_only=True) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenProject]:
    """A clustered project with a tree for 24 conversations."""
    path = tmp_path_factory.mktemp("measured") / "p.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project, k=4)
        give_trees(project, {n: (n - 1 + (n > 12), -n / 10) for n in range(1, 25)})
    with OpenProject(path, read_only=True) as workspace:
        yield workspace


def test_what_it_says(services: OpenProject, tmp_path: Path) -> None:
    """It begins with the answers; every part is there with its figures; what is not known is named at the end, with the
    command that brings it."""
    path = tmp_path / "r.html"
    write_report(services, path, parse_filter(""))
    html = path.read_text("utf-8")
    text = plain_text(html)
    assert "34 conversations with" in text
    assert "28 of 34 are scored. Ended is not succeeded" in text
    assert re.search(r"^m1 \| 1\nnot known \| 33$", text, re.MULTILINE)
    assert re.search(r"^2026-01 \| 11 \| ", text, re.MULTILINE)
    assert text.count("| for example\n") == 1
    answers = re.findall(r'<p class="important">(\w[^:]*): ', html.partition("<nav")[0])
    assert answers == ["What users wanted", "Did it end", "Did it go wrong"]
    text, _, unknown = text.partition("## Not known")
    assert "How sure the model was is not known" in unknown
    assert "workbench run trees PROJECT grows" in unknown
    assert "0 of the answers are on conversations drawn at random, 10 are needed" in unknown
    assert "(set " in unknown or "(set " in text


def test_the_least_sure(measured: OpenProject, tmp_path: Path) -> None:
    """The conversations whose response trees have most entropy are listed, the most first."""
    path = tmp_path / "r.html"
    write_report(measured, path, parse_filter(""))
    checked(path.read_text("utf-8"))
    text = plain_text(path.read_text("utf-8"))
    assert "24 conversations with a response tree: median 12 leaves, mean entropy" in text
    rows = text.partition("in which the model was least sure")[2].partition("##")[0]
    entropies = [
        float(value) for value in re.findall(r"^\S+ \| (\d\.\d\d) \| ", rows, re.MULTILINE)
    ]
    assert len(entropies) == 8
    assert entropies == sorted(entropies, reverse=True)


def test_goals_of_one_theme(tmp_path: Path) -> None:
    """Two goals of a theme both count: in it, beside what is in no goal, and in rates by goal."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill_topics(project)
        cluster(project, k=4)
    with OpenProject(tmp_path / "p.wb") as project:
        first, second, *_ = project.goals.groups()
        for group, label in ((first, "same"), (second, "same (2)")):
            project.merge_review.rename(group.id, label)
        project.merge_review.place([first.id, second.id], "both")
        ids = project.conversations.ids(ListQuery())
        project.triage.answer([NewAnswer(key, SUCCEEDED, "yes") for key in ids])
        write_report(project, tmp_path / "r.html", parse_filter(""))
        rates = project.comparison.rates(read_built_in()[SUCCEEDED], "goal")
        in_goals = sum(group.size for group in project.goals.groups())
    text = plain_text((tmp_path / "r.html").read_text("utf-8"))
    assert f"both | {first.size + second.size} | same · same (2)\n" in text
    assert f"\n{len(ids) - in_goals} conversation in no goal." in text
    assert sum(int(str(row.cells[2])) for row in rates.rows) == in_goals


def test_one_safe_file(services: OpenProject, tmp_path: Path) -> None:
    """The file needs nothing else, is valid, and text of conversations is no markup in it."""
    path = tmp_path / "r.html"
    written = write_report(services, path, parse_filter("name:odd"))
    text = path.read_text("utf-8")
    checker = checked(text)
    assert {"svg", "table", "caption", "title", "desc", "nav", "main"} - checker.seen <= {
        "svg",
        "desc",
    }
    assert written.bytes == len(text.encode()) < 3_000_000
    assert "<script>" not in text
    assert "\x1b" not in text


def test_redacted(services: OpenProject, tmp_path: Path) -> None:
    """No address stands in a redacted report; the counts say how many were replaced."""
    plain, redacted = tmp_path / "a.html", tmp_path / "b.html"
    write_report(services, plain, parse_filter(""))
    written = write_report(services, redacted, parse_filter(""), redact=True)
    assert "@example" not in redacted.read_text("utf-8")
    assert sum(written.redacted.values()) == len(set(re.findall(r"\w+@example", plain.read_text())))


def test_refused(services: OpenProject, tmp_path: Path) -> None:
    """Another ending, a file that is there and a filter without conversations are refused; nothing is written."""
    with pytest.raises(UsageError, match="cannot be written as"):
        write_report(services, tmp_path / "r.pdf", parse_filter(""))
    (tmp_path / "r.html").write_text("mine")
    with pytest.raises(ProjectError, match="is there already"):
        write_report(services, tmp_path / "r.html", parse_filter(""))
    with pytest.raises(UsageError, match="No conversation matches"):
        write_report(services, tmp_path / "n.html", parse_filter("turns>900"))
    assert (tmp_path / "r.html").read_text() == "mine"
    assert not (tmp_path / "n.html").exists()


def test_what_people_judged(tmp_path: Path) -> None:
    """Judged failures are counted among the judged ones, of the filter too, quoted without the results of tools, and
    named to be read first; the question stands with all its answers."""
    with OpenProject(tmp_path / "p.wb", create=True) as project:
        names = ("no0", "no1", "yes0", "unsure0", "open0")
        refused = "I am sorry, I do not know."
        records = [talk(name, f"Where is {name}?", refused) for name in names]
        records += [talk(f"quiet{n}", f"Where is Rome {n}?", "In Italy.") for n in range(3)]
        first, last = records[0].conversation.messages
        messages = (first, Message("tool", '{"status": "lost"}'), last)
        said = replace(records[0].conversation, messages=messages)
        records[0] = replace(records[0], conversation=said)
        fill(project.project, records)
        run(project.project, [SignStage(project.project)])
        for key, name in enumerate(names[:4], 1):
            project.triage.give(key, name[:-1])
        write_report(project, tmp_path / "all.html", Filter())
        write_report(project, tmp_path / "one.html", parse_filter("no1"))
    text, one = (
        plain_text((tmp_path / f"{name}.html").read_text("utf-8")) for name in ("all", "one")
    )
    short = "Did it go wrong: {} judged failed; {} show signs of trouble."
    assert short.format("2 of 3", "5 of 8") in text
    assert short.format("1 of 1", "1 of 1") in one
    assert "no share of all" in text
    assert "no share of all" not in one
    assert "status" not in text
    assert text.count(": judged failed · ") == 2
    assert "no0 | Where is no0? | " not in text  # what to read first is not judged yet
    assert "succeeded | people | no | 4 | 2 (50%) |" in text
    assert "succeeded | people | unsure | 4 | 1 (25%) |" in text


def test_hostile_document() -> None:
    """Hostile text in every place of a document stays text."""
    blocks = (
        Paragraph(HOSTILE),
        text_table(HOSTILE, (HOSTILE, HOSTILE), ((HOSTILE, HOSTILE),)),
        Quote(HOSTILE, ((HOSTILE, HOSTILE),)),
    )
    document = Document(HOSTILE, HOSTILE, (Section(HOSTILE, blocks),))
    checked(to_html(document))


def test_changed_texts() -> None:
    """Texts change, figures of tables do not; a quote still links to its section."""
    columns = (ReportColumn("Name", "text"), ReportColumn("n", "count"))
    table = ReportTable("t", columns, (ReportRow(("a", 1204)), ReportRow(("b", None))))
    blocks = (table, Quote("c", (("User", "hi"),), more_in="s"))
    document = Document("d", "", (Section("s", blocks),)).map_texts(str.upper)
    changed = to_html(document)
    assert all(text in changed for text in (">A<", "1,204", "–", '<a href="#s0">more</a>'))
