"""Stored replies: the cache, in a real file, and those of a project."""

from __future__ import annotations

import threading
from pathlib import Path

from engine.model import tables
from engine.model.tables import ReplyCache
from engine.project.project import Project


def test_kept(tmp_path: Path) -> None:
    """A reply is found after the file was closed; another key has none."""
    path = tmp_path / "deep" / "replies.sqlite"
    first = ReplyCache(path)
    first.put("a", "one")
    first.put("a", "two")
    first.close()
    again = ReplyCache(path)
    assert (again.get("a"), again.get("b")) == ("two", None)
    again.close()


def test_bounded_while_it_grows(tmp_path: Path) -> None:
    """The bound holds while replies are stored, not only when the file is opened; the newest reply stays."""
    made = ReplyCache(tmp_path / "replies.sqlite", most_bytes=1000)
    for number in range(100):
        made.put(str(number), "x" * 100)
        assert made.get(str(number))
    assert sum(made.get(str(number)) is not None for number in range(100)) <= 10
    made.close()


def test_threads(tmp_path: Path) -> None:
    """Any thread can use the cache."""
    made = ReplyCache(tmp_path / "replies.sqlite")

    def work(name: str) -> None:
        for number in range(50):
            made.put(f"{name}{number}", name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(made.get(f"{name}49") == name for name in "abcd")
    made.close()


class TestRepliesOfAProject:
    def test_by_what_was_asked(self, project: Project) -> None:
        """Replies are found by key, also more of them than one query takes; unknown keys are absent."""
        keys = [f"{number:064x}" for number in range(1200)]
        said: list[tuple[str, tables.StoredReply]] = [
            (key, (f"reply {key[-3:]}", "end", None)) for key in keys
        ]
        project.write(lambda conn: tables.add_replies(conn, said))
        found = project.read(tables.replies, [*keys, "f" * 64])
        assert found == dict(said)

    def test_the_first_reply_stays(self, project: Project) -> None:
        """A second reply to the same call does not replace the first, from which plays were made."""
        key = "ab" * 32
        project.write(lambda conn: tables.add_replies(conn, [(key, ("first", "end", None))]))
        project.write(lambda conn: tables.add_replies(conn, [(key, ("second", "stop", "x"))]))
        assert project.read(tables.replies, [key])[key] == ("first", "end", None)
