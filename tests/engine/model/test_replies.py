"""The cache of replies, in a real file."""

from __future__ import annotations

import threading
from pathlib import Path

from engine.model.tables import ReplyCache


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


def test_oldest_go_first(tmp_path: Path) -> None:
    """Over the bound, the replies that were unused for longest are deleted when the file is opened."""
    path = tmp_path / "replies.sqlite"
    first = ReplyCache(path)
    for key in "abc":
        first.put(key, "x" * 100)
    first.get("a")
    first.close()
    again = ReplyCache(path, most_bytes=250)
    assert [again.get(key) is not None for key in "abc"] == [True, False, True]
    again.close()


def test_no_such_file(tmp_path: Path) -> None:
    """A file that is no database is replaced, because it is a cache."""
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"something else" * 1000)
    made = ReplyCache(path)
    made.put("a", "one")
    assert made.get("a") == "one"
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
