"""Replies of models by a hash of the call."""

from __future__ import annotations

from engine.project import replies
from engine.project.project import Project


class TestReplies:
    def test_by_what_was_asked(self, project: Project) -> None:
        """Replies are found by key, also more of them than one query takes; unknown keys are absent."""
        keys = [f"{number:064x}" for number in range(1200)]
        said: list[tuple[str, replies.Reply]] = [
            (key, (f"reply {key[-3:]}", "end", None)) for key in keys
        ]
        project.write(lambda conn: replies.add_replies(conn, said))
        with project.reading() as conn:
            found = replies.replies(conn, [*keys, "f" * 64])
        assert found == dict(said)

    def test_the_first_reply_stays(self, project: Project) -> None:
        """A second reply to the same call does not replace the first, from which plays were made."""
        key = "ab" * 32
        project.write(lambda conn: replies.add_replies(conn, [(key, ("first", "end", None))]))
        project.write(lambda conn: replies.add_replies(conn, [(key, ("second", "stop", "x"))]))
        with project.reading() as conn:
            assert replies.replies(conn, [key])[key] == ("first", "end", None)
