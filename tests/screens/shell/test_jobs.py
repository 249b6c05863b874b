"""Jobs as the screens show them: estimate, progress, cancel, outcome, and quitting under way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.errors import ProjectDamaged
from engine.base.events import JobProgress, JobStarted, ModelRestarted
from engine.project.records import RunRow
from tests.screens.driving import lines, opened, press, settle, text
from tests.screens.project import project
from tests.screens.stand_ins import HeldConversations

PROGRESS = JobProgress(7, "score", "Scoring", 412, 812, "conversations", 2.5, 160.0, "support/0412")


class TestProgress:
    async def test_progress_and_cancel(self) -> None:
        """The bottom line shows how far, how fast and how long still; `x` cancels that job. When the model process was
        started anew, a notice says so, and why."""
        support = project()
        async with opened(support) as pilot:
            support.emit(JobStarted(7, "score", "Scoring"))
            support.emit(PROGRESS)
            await settle(pilot)
            assert "Scoring" in lines(pilot)[-1]
            assert "3 min left · 412 of 812 conversations · support/0412 · 2/s" in lines(pilot)[-1]
            assert lines(pilot)[-1].rstrip().endswith("x cancel")

            await press(pilot, "x")
            assert support.jobs.cancelled == [7]

            support.emit(ModelRestarted("The model process died (by SIGABRT)."))
            await settle(pilot)
            (notice,) = pilot.app._notifications
            assert (notice.title, notice.message) == (
                "The model process was started anew",
                "The model process died (by SIGABRT).",
            )

    async def test_time_left_is_never_cut(self) -> None:
        """At 80 columns the time left and what moves inside a batch come before the model's name. While the count of
        conversations stands still, share, bar and time left follow the tokens that are read."""
        support = project()
        note = "1,234,567 tokens read"
        async with opened(support, size=(80, 24)) as pilot:
            for title, whole in (
                ("Scoring with smollm2-135m-instruct (bf16, window 1,024)", ("Scoring", note)),
                ("Finding the fastest format of smollm2-135m-instruct for this machine, once", ()),
            ):
                job = replace(PROGRESS, title=title, done=3, total=20, rate=0.02, note=note)
                support.emit(job)
                await settle(pilot)
                line = lines(pilot)[-1]
                for part in ("3 min left · 3 of 20", "x cancel", *whole):
                    assert part in line

            for size, bars in (((80, 24), 0), ((120, 36), 12)):
                await pilot.resize_terminal(*size)
                for share in (0.02, 0.5):
                    read = f"{round(share * 90_000):,} tokens read"
                    job = replace(PROGRESS, done=0, total=4, rate=None, note=read, share=share)
                    support.emit(job)
                    await settle(pilot)
                    line = lines(pilot)[-1]
                    assert f"3 min left · {share:.0%} · 0 of 4" in line
                    assert read in line
                assert line.count("▇") == bars

    async def test_interrupted_run_is_offered(self) -> None:
        """A run that an earlier process left unfinished is named in the bottom line, uncut at 80 columns."""
        support = project()
        support.jobs.left = [
            RunRow(3, "read", "interrupted", "h", {}, {}, "now", None, 120, 812, None)
        ]
        async with opened(support, size=(80, 24)) as pilot:
            said = "interrupted at 120 of 812: scoring; 1 offers to resume"
            assert lines(pilot)[-1].rstrip().endswith(said)

    async def test_a_project_that_cannot_be_read_ends_no_screen(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The bottom line, which is drawn from the project, says what is wrong with it."""
        support = project()

        def interrupted() -> list[RunRow]:
            raise ProjectDamaged("p.wb is damaged.")

        monkeypatch.setattr(support.jobs, "interrupted", interrupted)
        async with opened(support) as pilot:
            await press(pilot, "2")
            assert "p.wb is damaged." in lines(pilot)[-1]


class TestStart:
    async def test_mode_that_cannot_run_says_why(self) -> None:
        """A mode that cannot run shows the reason and the way out."""
        async with opened(project()) as pilot:
            await press(pilot, "r", "left")

            assert "There is no adapter." in text(pilot)
            assert "Train one" in text(pilot)


class TestQuit:
    async def test_quit_with_a_job_asks(self) -> None:
        """`q` with a job running says that it stops and can be resumed; escape stays, enter quits."""
        support = project()
        support.jobs.running = [PROGRESS]
        async with opened(support, size=(80, 24)) as pilot:
            await press(pilot, "q")
            assert "Scoring is running: 412 of 812 conversations" in text(pilot)
            assert "it can be resumed" in text(pilot)
            await press(pilot, "escape")
            assert not pilot.app._exit
            await press(pilot, "q", "enter")
            assert pilot.app._exit

    async def test_quit_does_not_wait_for_reads(self) -> None:
        """Quitting is possible while a read hangs and a job runs, and the job is not cancelled."""
        support = project()
        support.conversations = held = HeldConversations(support.file)
        async with opened(support) as pilot:
            support.emit(PROGRESS)
            held.hold.clear()
            await pilot.press("f")
            await pilot.pause()
            await pilot.press("ctrl+q")

            assert not pilot.app.is_running or pilot.app._exit
        assert support.jobs.cancelled == []
        held.hold.set()

    async def test_verdict_before_quitting_is_written(self) -> None:
        """A verdict given just before quitting is written."""
        support = project()
        async with opened(support) as pilot:
            await press(pilot, "3")
            await pilot.press("c", "i", "ctrl+q")

        assert len(support.acts()) == 2
