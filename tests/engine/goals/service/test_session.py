"""A session on the merge desk with real conversations, and a kill at its end."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from pathlib import Path

from engine.conversations.stages import ImportStage
from engine.project.project import Project
from tests.engine.goals.service.goal_project import cluster, run, stored_review
from tests.engine.goals.service.goal_session import state
from tests.engine.project.support import REPOSITORY, check_whole
from tests.shared_data import shared_file

REAL = shared_file("star")
COUNT = 300

if REAL is not None:
    SOURCE: Path = REAL

    def test_a_session_and_kill_9(tmp_path: Path) -> None:
        """Thirty proposals on 300 real conversations, undone, redone, split, moved, pinned, refused for good, clustered
        again and decided on; after kill -9 the project has the same state, and the refusals are in force.
        """
        with gzip.open(SOURCE, "rt", encoding="utf-8") as lines:
            single = (line for line in lines if json.loads(line)["truth"].get("single_task"))
            (tmp_path / "star.jsonl").write_text(
                "".join(itertools.islice(single, COUNT)), encoding="utf-8"
            )
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            run(project, [ImportStage(project, [str(tmp_path / "star.jsonl")])])
            cluster(project, k=30)
        ended = subprocess.run(
            [sys.executable, "-m", "tests.engine.goals.service.goal_session", str(path)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == -9, ended.stderr
        said = json.loads(ended.stdout)
        with Project.open(path) as project:
            review = stored_review(project)
            goals = review.goals
            assert json.loads(json.dumps(state(review))) == said
            rows = review.history()
            assert len([row for row in rows if not row.transferred]) == 10
            refused = [set(row.sides) for row in rows if row.kind == "never" and row.transferred]
            assert refused
            proposed = [set(proposal.pair) for proposal in review.above(0)]
            assert not [pair for pair in refused if pair in proposed]
            goals.show(1)
            kinds = {row.kind for row in review.history()}
            assert {"merge", "apart", "never", "split", "move", "pin", "rename"} <= kinds
            assert len([row for row in review.history() if not row.active]) == 2
        check_whole(path)
