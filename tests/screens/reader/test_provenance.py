"""The reader on where its figures and texts come from: runs, reasons, noise, the original, leaks."""

from __future__ import annotations

from dataclasses import replace

from engine.base.conversation import Conversation, Verdict
from engine.conversations.tables import imports
from engine.formats.records import Leak, Parsed
from screens.reader.provenance import OriginalDialog, ProvenanceDialog
from tests.screens.driving import lines, opened, press, text
from tests.screens.project import project, project_of
from tests.screens.samples import conversation


class TestProvenance:
    async def test_why(self) -> None:
        """`W` names mode, model, adapter, noise and rule of the number, and how far it can be relied on."""
        async with opened(project()) as pilot:
            await press(pilot, "enter", "W")

            assert isinstance(pilot.app.screen, ProvenanceDialog)
            for fact in ("base", "SmolLM2-135M-Instruct", "none", "± 0.006", "ended from .50"):
                assert fact in text(pilot)
            assert "not tested on these conversations" in text(pilot)
            assert "`run complete --mode probe` makes scores that are tested" in text(pilot)

    async def test_what_is_written_next(self) -> None:
        """Where it is known, `W` says what the model writes after the conversation, by which Soroka et al. decide."""
        made = project()
        made.file.write(
            lambda conn: conn.execute(
                "INSERT INTO generated_end SELECT conversation_id, config_hash, max(message), 1"
                " FROM boundary_score GROUP BY conversation_id, config_hash"
            )
        )
        async with opened(made) as pilot:
            await press(pilot, "enter", "W")
            assert "the end tag: ended, as Soroka et al. decide" in text(pilot)

    async def test_the_run_behind_it(self) -> None:
        """`W` names the run with its code version, fingerprints and prompt, and `y` copies all of it."""
        async with opened(project()) as pilot:
            await press(pilot, "enter", "W")
            facts = ("1, complete, done", "0.3.0", "abab", "What remains to be done?", "8192")
            assert all(fact in text(pilot) for fact in facts)

            await press(pilot, "y")
            copied = " ".join(pilot.app.clipboard.split())
            assert f"model sha256 {'ab' * 32}" in copied
            assert "configuration 5f0c1d" in copied

    async def test_original(self) -> None:
        """`o` shows the record as imported, and what is not UTF-8 in it does no harm."""
        sample = conversation(1, 0.07)
        sample.original = b'{"id": "support/0001", "bytes": "\xff\x1b[2J"}'
        async with opened(project_of([sample])) as pilot:
            await press(pilot, "enter", "o")

            assert isinstance(pilot.app.screen, OriginalDialog)
            assert '{"id": "support/0001", "bytes": "\ufffd␛[2J"}' in text(pilot)

    async def test_earlier_texts(self) -> None:
        """Of a conversation that grew the reader says how long it was, what was said of that text, and shows it."""
        first = conversation(1, 0.07, turns=2)
        made = project_of([first])
        made.triage.give(1, Verdict.YES, "she knows")
        messages = tuple(conversation(1, 0.07, turns=4).messages)
        record = Parsed(None, b'{"the": "new"}', Conversation("support/0001", messages))
        made.file.write(lambda conn: imports.add_records(conn, 1, [record]))
        async with opened(made) as pilot:
            await press(pilot, "enter")

            had = f"had {len(first.messages)} messages (o)"
            assert had in lines(pilot)[1]
            assert "not scored" in lines(pilot)[1]
            assert "no verdict" not in text(pilot)
            assert "she knows" in text(pilot)
            assert f"given when it had {len(first.messages)} messages: yes," in text(pilot)

            await press(pilot, "o")
            assert '{"the": "new"}' in text(pilot)
            assert f": {len(first.messages)} messages, score .07" in text(pilot)

    async def test_leaks_are_noted_where_they_were(self) -> None:
        """What the leak guard kept from the model is noted under its message and in the provenance."""
        sample = conversation(1, 0.07)
        sample.messages[1] = replace(sample.messages[1], model_view="Please move my flight")
        sample.leaks = [
            Leak(1, "stop-token", "###STOP###"),
            Leak(None, "truth-field", "reward"),
        ]
        async with opened(project_of([sample])) as pilot:
            await press(pilot, "enter")
            assert "⊘ kept from the model: ###STOP### (stop-token)" in text(pilot)

            await press(pilot, "W", "end")
            assert "###STOP###  (stop-token, message 2)" in text(pilot)
            assert "reward  (truth-field, a field)" in text(pilot)
