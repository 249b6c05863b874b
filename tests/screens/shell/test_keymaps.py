"""The one table of keys, and giving actions other keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from textual.app import App
from textual.binding import Binding
from textual.widget import Widget

from screens.shell.app_interface import Shell
from screens.shell.keymap import Place, is_key, key_table, markdown, normal_keys, read_keymap
from screens.widgets.keyed import Keyed, named, place_of, shown_key
from screens.widgets.row_table import RowTable
from tests.screens.driving import opened, press, settle
from tests.screens.goals.goal_project import clustered
from tests.screens.project import project
from workbench.app import WorkbenchApp

DOCS = Path(__file__).parents[3] / "docs" / "keys.md"


@pytest.fixture(scope="module")
def places() -> list[Place]:
    """The table with the default keys."""
    return key_table(WorkbenchApp)


class TestTable:
    def test_every_class_with_keys_is_in_it(self, places: list[Place]) -> None:
        """No screen, dialog or pane binds keys outside the table."""

        def subclasses(cls: type) -> set[type]:
            below: set[type] = set(cls.__subclasses__())
            return below.union(*(subclasses(sub) for sub in below)) if below else below

        own = {
            cls
            for cls in subclasses(Widget) | subclasses(App)
            if cls.__module__.startswith("screens.") and cls.__dict__.get("BINDINGS")
        }
        assert {cls.__name__ for cls in own if not issubclass(cls, Keyed)} == set()
        assert {place_of(cls) for cls in own} <= {place.name for place in places}

    def test_every_binding_has_an_id_and_a_meaning(self, places: list[Place]) -> None:
        """Everything that has a key can be explained and remapped."""
        for place in places:
            for action in place.actions:
                assert action.id.startswith(f"{place.name}."), action
                assert not action.id.endswith("."), action
                assert action.meaning.strip(), action
                assert action.keys, action

    def test_ids_are_unique(self, places: list[Place]) -> None:
        """One id is one action."""
        counted = Counter(action.id for place in places for action in place.actions)
        assert [name for name, count in counted.items() if count > 1] == []
        actions = Counter((place.name, a.action) for place in places for a in place.actions)
        assert [a for a, count in actions.items() if count > 1 and a[1] != "quit"] == []

    def test_no_two_actions_of_a_place_share_a_key(self, places: list[Place]) -> None:
        """A key does one thing."""
        for place in places:
            counted = Counter(key for action in place.actions for key in action.keys)
            assert [key for key, count in counted.items() if count > 1] == [], place.name

    def test_keys_exist(self, places: list[Place]) -> None:
        """Every key in the table is one that a keyboard has."""
        keys = {key for place in places for action in place.actions for key in action.keys}
        assert [key for key in keys if not is_key(key)] == []

    async def test_panes_hide_no_key_of_their_screen(self) -> None:
        """In each mode, with the focus on any pane, no pane takes a key from its screen, or a screen from the app,
        unless it does the same."""
        meant = {"escape", "enter", "q", *"0123456789"}  # digits answer a question with labels

        def plain(binding: Binding) -> str:
            return binding.action.removeprefix("app.")

        async with opened(clustered()) as pilot:
            for keys in (["1"], ["2"], ["enter"], ["3"], ["5"], ["enter"], ["6"], ["H"]):
                await press(pilot, *keys)
                screen = pilot.app.screen
                for pane in screen.focus_chain:
                    taken: dict[str, Binding] = {}
                    for node in [n for n in pane.ancestors_with_self if isinstance(n, Keyed)]:
                        for key, binding in node._bindings:
                            first = taken.setdefault(key, binding)
                            same = plain(first) == plain(binding)
                            assert same or key in meant, (screen, pane, key, first, binding)

    def test_docs_are_up_to_date(self, places: list[Place]) -> None:
        """docs/keys.md is what `workbench keys --markdown` writes."""
        assert DOCS.read_text("utf-8") == markdown(places)


class TestNames:
    def test_from_the_action(self) -> None:
        """An id is the place and the action, with words among its arguments; numbers and switches are told by the
        description."""
        found = named(
            "list",
            [
                Binding("s", "sort_by", "Sort"),
                Binding("c", "verdict('complete')", "Complete"),
                Binding("up", "move(-1)", "Row up"),
                Binding("minus", "fold(True)", "Fold"),
                Binding("q", "app.quit", "Quit"),
                Binding("escape", "dismiss(None)", "Leave"),
                Binding("x", "x", "X", id="own"),
            ],
        )
        ids = [binding.id for binding in found if isinstance(binding, Binding)]
        assert ids == [
            "list.sort-by", "list.verdict-complete", "list.row-up", "list.fold", "list.quit", "list.dismiss",
            "own",
        ]  # fmt: skip

    def test_key_names(self) -> None:
        """Keys may be written as they are typed, and are shown so."""
        assert normal_keys("/, ctrl+d,G,[") == ("slash", "ctrl+d", "G", "left_square_bracket")
        assert shown_key("ctrl+slash") == "ctrl+/"
        assert all(is_key(key) for key in normal_keys("a,/,ctrl+d,f12,escape,_,\\,+"))
        assert not is_key("ctlr+d")
        assert not is_key("nonsense")


class TestFile:
    def problems(self, text: str, places: list[Place]) -> list[str]:
        """What is wrong with a file of this content."""
        return list(read_keymap(text, "keymap.toml", places).problems)

    def test_keys_are_taken(self, places: list[Place]) -> None:
        """Both ways of writing a name in TOML do."""
        text = '[keys]\n"app.help" = "f1,?"\ntriage.skip = "z"\n'
        found = read_keymap(text, "keymap.toml", places)
        assert dict(found.keys) == {"app.help": "f1,question_mark", "triage.skip": "z"}
        assert not found.problems

    def test_not_toml(self, places: list[Place]) -> None:
        """A file that is not TOML is named with the line, and no key is taken from it."""
        found = read_keymap('[keys]\n"app.help = 1\n', "keymap.toml", places)
        assert not found.keys
        assert "keymap.toml" in found.problems[0]
        assert "line 2" in found.problems[0]

    def test_unknown_action(self, places: list[Place]) -> None:
        """A mistyped name is told with its line; the rest of the file counts."""
        text = '[keys]\n"app.helb" = "f1"\n"triage.skip" = "z"\n'
        found = read_keymap(text, "keymap.toml", places)
        assert found.problems[0].startswith("keymap.toml, line 2: there is no action 'app.helb'")
        assert "triage.skip" in found.keys

    @pytest.mark.parametrize("value", ['"ctlr+d"', '""', "3", "true", '["a"]'])
    def test_no_key(self, value: str, places: list[Place]) -> None:
        """What is no key is said; the default key stays."""
        found = read_keymap(f'[keys]\n"app.help" = {value}\n', "keymap.toml", places)
        assert "line 2" in found.problems[0]
        assert "is no key" in found.problems[0]
        assert not found.keys

    def test_clash_in_a_place(self, places: list[Place]) -> None:
        """A key that another action of the place has is refused, with the name of that action."""
        (problem,) = self.problems('[keys]\n"triage.skip" = "c"\n', places)
        assert "triage.answer-yes" in problem


class TestInForce:
    async def test_keys_in_the_list(self, places: list[Place]) -> None:
        """With keys as in vim `G` goes to the last row, `g` to the first, `l` opens and `h` goes back."""
        text = '[keys]\ntable.first-row = "g"\ntable.last-row = "G"\ntable.open = "l"\nreader.leave = "h"\n'
        keymap = read_keymap(text, "keymap.toml", places).keys
        support = project()
        app = WorkbenchApp(support.services(), support.subscribe, shell=Shell(keymap=keymap))
        async with app.run_test(size=(100, 24)) as pilot:
            await settle(pilot)
            await press(pilot, "2", "G")
            table = app.screen.query_one("#list", RowTable)
            assert table.cursor_index == 35
            await press(pilot, "g", "j", "j", "k")
            assert table.cursor_index == 1
            await press(pilot, "l")
            assert app.screen is not table.screen
            await press(pilot, "h")
            assert app.screen is table.screen
