"""The report: what it says of a small project, and that it is one safe file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from engine.base.errors import ProjectError, UsageError
from engine.base.report_table import text_table
from engine.conversations.filters import Filter, ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.opener.report import Compared, write_report
from engine.project.project import Project
from engine.results.comparison.formatting import difference_cells
from engine.results.document import Document, Paragraph, Quote, Section
from engine.results.document_files import to_html, to_markdown
from engine.results.validation import service as all_metrics
from engine.signs.stages import SignStage
from tests.engine.goals.service.goal_project import cluster, fill_topics, run, stages_of
from tests.engine.project.support import fill, talk
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
        fill(project, [talk("odd", HOSTILE, "write to a@example.org")], "odd.jsonl")
        cluster(project, k=4)
    with OpenProject(path, read_only=True) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenProject]:
    """A clustered project whose clusters were clustered again, with a tree for 24 conversations."""
    path = tmp_path_factory.mktemp("measured") / "p.wb"
    with Project.open(path, create=True) as project:
        fill_topics(project)
        cluster(project, k=4)
        stages = stages_of(project)
        run(project, [stages.stability_stage(2, 3)])
        give_trees(project, {n: (n - 1 + (n > 12), -n / 10) for n in range(1, 25)})
    with OpenProject(path, read_only=True) as workspace:
        yield workspace


def test_what_it_says(services: OpenProject, tmp_path: Path) -> None:
    """It begins with the answers; every part is there with its figures; what is not known is named at the end, with the
    command that brings it."""
    path = tmp_path / "r.md"
    write_report(services, path, parse_filter(""), validate=False)
    text = path.read_text("utf-8")
    assert "34 conversations with" in text
    assert "28 of 34 are scored" in text
    assert re.search(r"\| 2026-01 \| 11 \| ", text)
    assert text.count("| for example |") == 1
    answers = re.findall(r"^\*\*(\w[^:]*): ", text.partition("## What users wanted")[0], re.M)
    assert answers == ["What users wanted", "Did it end", "Did it go wrong"]
    text, _, unknown = text.partition("## Not known")
    assert "How sure the model was is not known" in unknown
    assert "\\`workbench run trees PROJECT\\`" in unknown
    assert "needs 5 verdicts that say complete, has 0" in unknown
    assert "hash of parameters" in text


def test_figures_of_the_paper(measured: OpenProject, tmp_path: Path) -> None:
    """What was measured of the clustering and grown as trees is there as Soroka et al. show it, in both forms."""
    write_report(measured, tmp_path / "p.md", parse_filter(""))
    text = (tmp_path / "p.md").read_text("utf-8")
    assert re.search(r"\| other seeds \| 2 \| \d\.\d\d \|", text)
    assert re.search(r"\| conversations drawn with replacement \| 3 \|", text)
    assert text.count("(Figure 6 of Soroka et al.)") == 2
    leaves = text.partition("Trees by the number of leaves")[2].partition("Trees by")[0]
    assert sum(int(count) for count in re.findall(r"^\| \d+ \| (\d+) \|$", leaves, re.M)) == 24
    assert "| a.jsonl | 24 | 12 (6 to 18) |" in text
    assert "3 conversations in the top tenth of both" in text
    assert "leaves and length |" in text.partition("Table 3 of Soroka et al.")[2]
    assert "(Table 2 of Soroka et al.)" not in text  # one boundary each: nothing can be cut
    write_report(measured, tmp_path / "p.html", parse_filter(""))
    html = (tmp_path / "p.html").read_text("utf-8")
    checked(html)
    assert html.count('class="dot"') == 3 * 24  # Figure 12, and two of Figure 13


def test_many_are_validated_by_a_sample(
    measured: OpenProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more conversations than are validated a random part is compared, always the same, and the report says so."""
    monkeypatch.setattr(all_metrics, "MAX_VALIDATED", 20)
    write_report(measured, tmp_path / "m.md", parse_filter(""))
    text = (tmp_path / "m.md").read_text("utf-8")
    assert "Over about 20 of the 33 conversations, drawn at random (draw\\<0.6061)" in text
    missing = re.search(r"Not compared \(trees\): \d+ of (\d+) conversations have no tree", text)
    assert missing is not None
    drawn = measured.conversations.ids(ListQuery(parse_filter("draw<0.6061")))
    assert int(missing[1]) == len(drawn) < 33


def test_one_safe_file(services: OpenProject, tmp_path: Path) -> None:
    """The file needs nothing else, is valid, and text of conversations is no markup in it."""
    path = tmp_path / "r.html"
    written = write_report(services, path, parse_filter("name:odd"), validate=False)
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
    plain, redacted = tmp_path / "a.md", tmp_path / "b.md"
    write_report(services, plain, parse_filter(""), validate=False)
    written = write_report(services, redacted, parse_filter(""), redact=True, validate=False)
    assert "@example" not in redacted.read_text("utf-8")
    assert sum(written.redacted.values()) == len(set(re.findall(r"\w+@example", plain.read_text())))


def test_compared(services: OpenProject, tmp_path: Path) -> None:
    """A comparison is a section in both forms, with the figures that `workbench compare` gives, and a chart in HTML."""
    own = (services.conversations, services.conversations)
    months = services.comparison.by("month")
    sides = services.comparison.compare(parse_filter("date:2026-01"), parse_filter(""))
    write_report(
        services,
        tmp_path / "m.md",
        parse_filter(""),
        validate=False,
        compared=Compared(months, own),
    )
    text = (tmp_path / "m.md").read_text("utf-8").partition("## What differs")[2]
    for part in months.parts:
        assert f"| {part.value} | {part.rate.conversations} | " in text
    write_report(
        services,
        tmp_path / "s.html",
        parse_filter(""),
        validate=False,
        compared=Compared(sides, own),
    )
    html = (tmp_path / "s.html").read_text("utf-8")
    checked(html)
    section = html.partition("<h2>What differs</h2>")[2].partition("</section>")[0]
    completion = sides.differences[0]
    assert completion.measure == "completion"
    _, _, second, change, *_ = difference_cells(completion)
    assert f">{second}</td>" in section
    assert change in section
    assert "<circle" in section


def test_refused(services: OpenProject, tmp_path: Path) -> None:
    """Another ending, a file that is there and a filter without conversations are refused; nothing is written."""
    with pytest.raises(UsageError, match="cannot be written as"):
        write_report(services, tmp_path / "r.pdf", parse_filter(""))
    (tmp_path / "r.md").write_text("mine")
    with pytest.raises(ProjectError, match="is there already"):
        write_report(services, tmp_path / "r.md", parse_filter(""))
    with pytest.raises(UsageError, match="No conversation matches"):
        write_report(services, tmp_path / "n.md", parse_filter("turns>900"))
    assert (tmp_path / "r.md").read_text() == "mine"
    assert not (tmp_path / "n.md").exists()


def test_what_people_judged(tmp_path: Path) -> None:
    """Judged failures are counted among the judged ones, of the filter too, quoted, and named to be read first; the
    question stands with all its answers."""
    with OpenProject(tmp_path / "p.wb", create=True) as project:
        names = ("no0", "no1", "yes0", "unsure0", "open0")
        refused = "I am sorry, I do not know."
        records = [talk(name, f"Where is {name}?", refused) for name in names]
        records += [talk(f"quiet{n}", f"Where is Rome {n}?", "In Italy.") for n in range(3)]
        fill(project.project, records)
        run(project.project, [SignStage(project.project)])
        for key, name in enumerate(names[:4], 1):
            project.triage.give(key, name[:-1])
        write_report(project, tmp_path / "all.md", Filter(), validate=False)
        write_report(project, tmp_path / "one.md", parse_filter("no1"), validate=False)
    text = (tmp_path / "all.md").read_text("utf-8")
    short = "**Did it go wrong: {} judged failed; {} show signs of trouble.**"
    assert short.format("2 of 3", "5 of 8") in text
    assert short.format("1 of 1", "1 of 1") in (tmp_path / "one.md").read_text("utf-8")
    assert "no share of all" in text
    assert text.count(": judged failed · ") == 2
    assert "| no0 | Where is no0? | judged failed · " in text
    assert "| succeeded | people | no | 4 | 2 (50%) |" in text
    assert "| succeeded | people | unsure | 4 | 1 (25%) |" in text


def test_hostile_document() -> None:
    """Hostile text in every place of a document stays text, in both forms."""
    blocks = (
        Paragraph(HOSTILE),
        text_table(HOSTILE, (HOSTILE, HOSTILE), ((HOSTILE, HOSTILE),)),
        Quote(HOSTILE, ((HOSTILE, HOSTILE),)),
    )
    document = Document(HOSTILE, HOSTILE, (Section(HOSTILE, blocks),))
    checked(to_html(document))
    text = to_markdown(document)
    assert "<script>" not in text.replace("\\<", "")
    assert "[x](" not in text.replace("\\[", "")
