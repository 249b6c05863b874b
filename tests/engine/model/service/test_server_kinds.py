"""What a capable model does behind servers of all kinds: labels, merges, answers and remaining tasks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Conversation, Message
from engine.base.errors import Cancelled
from engine.goals.tables import decisions
from engine.goals.tables.clusterings import clusters, goals_clustering_id, stored_clustering
from engine.model.endpoints.tokens import count_pieces
from engine.model.records import ModelRequest
from engine.opener.model_previews import PromptTrial
from engine.opener.open_project import OpenProject
from engine.simulate.demo import write_jsonl
from tests.command_line import data, workbench
from tests.engine.model.endpoints.scripted_server import KINDS, scripted

COUNT = 12


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Twelve conversations on three goals, of which three ended."""
    conversations = [
        Conversation(
            f"{goal}-{number}",
            (
                Message("user", f"I need a {goal} for {number + 2} people, please."),
                Message("assistant", f"I look for a {goal}."),
                *(
                    (Message("user", "Thank you, bye!"), Message("assistant", "Bye."))
                    * (number < 1)
                ),
            ),
        )
        for goal in ("taxi", "hotel", "concert")
        for number in range(4)
    ]
    write_jsonl(conversations, tmp_path / "talks.jsonl")
    path = tmp_path / "p.wb"
    assert workbench("import", path, tmp_path / "talks.jsonl").returncode == 0
    return path


def test_a_prompt_is_tried(project: Path, tmp_path: Path) -> None:
    """A prompt in a file is tried on some conversations beside the built-in one, with several models side by side; it
    is not stored. Those of labels and merges are tried on groups and pairs; one that has no item of its own is refused.
    """
    text = workbench("prompts", project, "remaining-json").stdout.decode()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("Which requests of the user are", "Which wishes are"))
    with scripted(KINDS["vllm"]) as first, scripted(KINDS["fenced"]) as second:
        for server, name in ((first, "one"), (second, "two")):
            assert workbench("models", "add", server.url, "--name", name).returncode == 0
        models = ("--model", "one", "--model", "two")
        words = (
            "prompts",
            project,
            "remaining-json",
            "--set",
            file,
            "--on",
            "2",
            *models,
            "--json",
        )
        tried = data(workbench(*words))["replies"]
        assert any("Which wishes are" in str(body) for body in second.bodies)
        assert workbench("run", "cluster", project, "--no-labels", "--k1", "3").returncode == 0
        for prompt, of in (
            ("label-json", "label: Book a "),
            ("merge-json", "reason_for: Both ask"),
        ):
            trial = workbench("prompts", project, prompt, "--on", "2", *models, "--json")
            replies = data(trial)["replies"]
            assert [len(by_model) for by_model in replies.values()] == [2, 2]
            assert all(of in reply for by_model in replies.values() for reply in by_model.values())
        refused = workbench("prompts", project, "base", "--on", "2", *models)
    assert list(tried) == ["taxi-0", "taxi-1"]
    assert len(tried["taxi-0"]) == 4
    assert all(reply == "open: []" for reply in tried["taxi-0"].values())
    assert all("Book the taxi" in reply for reply in tried["taxi-1"].values())
    assert workbench("prompts", project, "remaining-json").stdout.decode() == text
    assert refused.returncode == 2
    assert b"cannot be tried alone" in refused.stderr


def test_a_trial_with_namesakes_leaves_none_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conversations of two files with one id have a reply each, and so have models with one name."""
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for file, goal in zip(files, ("taxi", "hotel"), strict=True):
        talk = (Message("user", f"I need a {goal}."), Message("assistant", "Which?"))
        write_jsonl([Conversation("c1", talk)], file)
    path = tmp_path / "p.wb"
    assert workbench("import", path, *files).returncode == 0
    with scripted(KINDS["vllm"]) as server:
        assert workbench("models", "add", server.url, "--name", "one").returncode == 0
        with OpenProject(path) as workspace:
            replies = PromptTrial(workspace, "summary-json").replies(["one"], 2)
            loadable = workspace.run_setup.models.resolve(ModelRequest("goals", "one"))
            monkeypatch.setattr(
                workspace.run_setup.models,
                "resolve",
                lambda request: replace(loadable, path=Path(request.model)),
            )
            by_file = PromptTrial(workspace, "summary-json").replies(["a/m.gguf", "b/m.gguf"], 1)
    assert len(replies) == 2
    assert all(subject.startswith("c1 (") for subject in replies)
    assert [len(by_column) for by_column in by_file.values()] == [2]


def test_an_interrupted_trial(project: Path) -> None:
    """A trial that is interrupted ends at once, without a word from the server, and cannot be gone on with."""
    with scripted(KINDS["vllm"]) as server:
        assert workbench("models", "add", server.url, "--name", "one").returncode == 0
        requested, answering, answer = threading.Event(), threading.Event(), server.answer

        def answer_late(body: dict[str, Any]) -> tuple[int, Any]:
            """Answers once the trial has ended."""
            requested.set()
            answering.wait(20)
            return answer(body)

        server.bodies.clear()
        server.answer = answer_late  # type: ignore[method-assign]
        with OpenProject(project) as workspace, ThreadPoolExecutor(1) as thread:
            trial = PromptTrial(workspace, "summary-json")
            replies = thread.submit(trial.replies, ["one"], 2)
            assert requested.wait(20)
            trial.interrupt()
            with pytest.raises(Cancelled):
                replies.result(10)
            answering.set()
            with pytest.raises(Cancelled):
                trial.replies(["one"], 2)


def test_an_estimate_before_there_are_groups(project: Path) -> None:
    """Before anything was asked the estimate has all stages: its requests are those of the run, where a verdict is said
    two for each pair, and its tokens are right within a fifth; it sends nothing. Without a number of clusters, labels
    and pairs are a range; where the merge probability decides, nothing is asked about pairs. Of what is stored nothing
    is in the next estimate."""
    with scripted(KINDS["lmstudio"]) as server:
        assert workbench("models", "add", server.url, "--name", "one").returncode == 0
        server.bodies.clear()
        command = ("run", "cluster", project, "--model", "one", "--text", "summary", "--k1", "3")
        costs = data(workbench(*command, "--estimate", "--json"))["costs"]
        ranges = data(workbench(*command[:-2], "--estimate", "--json"))["costs"]
        assert [cost["certain"] for cost in ranges] == [
            1,
            pytest.approx(3 / 6),
            pytest.approx(3 / 15),
        ]
        auto = data(workbench(*command, "--decide", "auto", "--estimate", "--json"))["costs"]
        assert [cost["stage"] for cost in auto] == ["summarize", "label"]
        words = (*command[:-4], "--paper", *command[-2:], "--estimate", "--json")
        *_, pairs = data(workbench(*words))["costs"]
        assert (pairs["requests"], pairs["certain"]) == (3, pytest.approx(2 / 3))
        assert not server.bodies
        assert workbench(*command).returncode == 0
        assert data(workbench(*command, "--estimate", "--json"))["costs"] == []
    assert {cost["stage"]: cost["requests"] for cost in costs} == {
        "summarize": 12, "label": 3, "propose": 6,
    }  # fmt: skip
    assert len(server.bodies) == 21
    read = sum(count_pieces(body["messages"][0]["content"]) for body in server.bodies)
    assert sum(cost["read"] for cost in costs) == pytest.approx(read, rel=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_all_work_on_each_kind_of_server(kind: str, project: Path) -> None:
    """Each kind of server summarizes, labels, answers on pairs with reasons for and against, and answers
    questions, whatever form it follows, lists, refuses or dresses a reply in; a probability is given where tokens are
    listed, else it is told that the verdict was said."""
    with scripted(KINDS[kind]) as server:
        added = workbench("models", "add", server.url, "--name", "one")
        assert added.returncode == 0, added.stderr.decode()
        for words in (
            ("run", "cluster", project, "--model", "one", "--text", "summary", "--k1", "3"),
            ("ask", project, "finished", "--model", "one"),
            ("ask", project, "Did they say thanks?", "--model", "one"),
        ):
            done = workbench(*words)
            assert done.returncode == 0, done.stderr.decode()
    lists_tokens = KINDS[kind].top > 0
    with OpenProject(project) as workspace, workspace.project.reading() as conn:
        stored = stored_clustering(conn, goals_clustering_id(conn))
        assert stored.text == "summary"
        assert {cluster.label for cluster in clusters(conn, stored.id)} == {
            "Book a taxi", "Book a hotel", "Book a concert",
        }  # fmt: skip
        assert all(cluster.by_model for cluster in clusters(conn, stored.id))
        answers = decisions.answers(conn, stored.pair_config).values()
        assert answers
        # Unsure in one order, each pair was asked in the other too; estimates count on that from now on.
        assert {decisions.requests_per_pair(conn, answer.model) for answer in answers} == {2}
        for answer in answers:
            assert answer.yes is not None
            assert answer.reason == "Both ask for a service."
            assert answer.reason_against.startswith("One is about")
            assert answer.spoken is not lists_tokens
            assert answer.yes == pytest.approx(0.2 if lists_tokens else 0)
            assert answer.yes_reversed == pytest.approx(0.2 if lists_tokens else 0)
    rows = data(workbench("answers", project, "did-they-say-thanks", "--json"))["answers"]
    assert [(row["value"], row["cites"]) for row in rows] == (
        [("yes", [2]), ("no", []), ("no", []), ("no", [])] * 3
    )
    assert [row["p"] for row in rows] == ([pytest.approx(0.8)] if lists_tokens else [None]) * COUNT
    ended = data(workbench("answers", project, "finished", "--json"))["answers"]
    assert [row["value"] for row in ended] == ["done", "open", "open", "open"] * 3


def test_remaining_tasks_follow_an_answer(tmp_path: Path) -> None:
    """What a model calls open gets its remaining tasks from it, beside scores by words, on a server that replies only;
    the estimate counts those requests."""
    talks = [
        Conversation(
            f"c{number}",
            tuple(
                message
                for turn in range(2)
                for message in (
                    Message("user", f"Taxi {number}-{turn}." if number % 4 else "Thank you, bye!"),
                    Message("assistant", f"I look for number {number * 7 + turn}."),
                )
            ),
        )
        for number in range(24)
    ]
    write_jsonl(talks, tmp_path / "talks.jsonl")
    project = tmp_path / "p.wb"
    words = ("run", "complete", project, "--mode", "words", "--model", "one")
    opened = (*words, "--remaining-of", "finished:open")
    with scripted(KINDS["fenced"]) as server:
        assert workbench("models", "add", server.url, "--name", "one").returncode == 0
        for command in (
            ("import", project, tmp_path / "talks.jsonl"),
            ("ask", project, "finished", "--model", "one"),
        ):
            assert workbench(*command).returncode == 0
        (cost,) = data(workbench(*opened, "--estimate", "--json"))["costs"]
        done = workbench(*opened)
    assert (cost["stage"], cost["requests"]) == ("remaining", 18)
    assert b"Wrote the remaining tasks of 18 conversations" in done.stderr, done.stderr.decode()
