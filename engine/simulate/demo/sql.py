"""Sample conversations with questions about a small database. Every query runs on a SQLite database in memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing

import msgspec

from engine.simulate.demo.script import (
    Request,
    Script,
    SideQuestion,
    write_closing,
    write_opening,
    write_requests,
)
from engine.simulate.demo.wording import PEOPLE, person, words_of

Row = tuple[object, ...]


class _Schema(msgspec.Struct, frozen=True):
    """Names for a database with two tables: people (such as customers) and events (such as sales).

    Attributes:
        database: Name of the database.
        events: Name of the table of events.
        party, parties: Name of a person in it, and of the table of people.
        amount: Name of the column with the amount paid at an event.
        kinds: The values of its column `kind`.
    """

    database: str
    events: str
    party: str
    parties: str
    amount: str
    kinds: tuple[str, ...]


_SCHEMAS = words_of("sql", tuple[_Schema, ...])
_STYLES = ("tuples", "tuples", "table", "json")


class _Database:
    """A database with random rows, and the format in which the assistant writes queries and sees results."""

    def __init__(self, script: Script, connection: sqlite3.Connection) -> None:
        rng = script.rng
        self.script = script
        self.connection = connection
        self.schema = rng.choice(_SCHEMAS)
        self.style = "table" if script.size == "huge" else rng.choice(_STYLES)
        self.as_call = rng.random() < 0.5
        s = self.schema
        connection.executescript(
            f"CREATE TABLE {s.parties} (id INTEGER PRIMARY KEY, name TEXT, town TEXT);"
            f"CREATE TABLE {s.events} (id INTEGER PRIMARY KEY, kind TEXT, {s.party}_id INTEGER, "
            f"day TEXT, {s.amount} INTEGER);"
        )
        rows = 90 if script.size == "huge" else rng.randint(25, 60)
        connection.executemany(
            f"INSERT INTO {s.parties}(name, town) VALUES (?, ?)",
            [(person(rng), rng.choice(PEOPLE.towns)) for _ in range(9)],
        )
        connection.executemany(
            f"INSERT INTO {s.events}(kind, {s.party}_id, day, {s.amount}) VALUES (?, ?, ?, ?)",
            [
                (
                    rng.choice(s.kinds),
                    rng.randint(1, 9),
                    f"{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
                    rng.randint(5, 95),
                )
                for _ in range(rows)
            ],
        )
        self.schema_shown = False

    def ask(self, query: str, note: str = "") -> list[Row]:
        """Runs a query, adds it with its result to the conversation, and returns the rows; [] after an error."""
        try:
            cursor = self.connection.execute(query)
            rows = [tuple(row) for row in cursor.fetchall()]
            names = [column[0] for column in cursor.description or ()]
            shown = self.shown(names, rows) if names else f"{cursor.rowcount} rows affected"
        except sqlite3.Error as error:
            rows, shown = [], f"Error: {error}"
        if self.as_call:
            self.script.call("run_sql", {"query": query}, shown, note)
        else:
            self.script.act(f"{note}\n```sql\n{query};\n```".strip(), shown)
        return rows

    def shown(self, names: Sequence[str], rows: Sequence[Row]) -> str:
        if self.style == "tuples":
            return str(list(rows))
        if self.style == "json":
            return json.dumps(
                [dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False
            )
        lines = [names, *[[str(cell) for cell in row] for row in rows]]
        widths = [max(len(line[index]) for line in lines) for index in range(len(names))]
        table = [
            " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join(
            [table[0], "-+-".join("-" * w for w in widths), *table[1:], f"({len(rows)} rows)"]
        )

    def explore(self) -> None:
        """Sometimes adds a query for the names of the tables, at most once and before the first request."""
        if not self.schema_shown and self.script.chance(0.1):
            self.ask("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.schema_shown = True

    def try_wrong_column(self, query: str, right: str, wrong: str) -> None:
        """Sometimes adds a failed attempt at a query, with the column `wrong` instead of `right`."""
        if self.script.chance(0.1):
            self.ask(query.replace(right, wrong))

    def report_missing_table(self, missing: str) -> None:
        """Adds the failure of a request about a table that does not exist."""
        self.ask(f"SELECT COUNT(*) FROM {missing}")
        if self.script.chance(0.5):
            self.ask("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.script.say(
            "{There is no table|The database has no table|I find no} `$missing`{, only "
            "$have.|. What exists: $have.} {So I can't answer that.|That can't be computed "
            "from here.|The figure isn't in this data.}",
            missing=missing,
            have=f"{self.schema.parties}, {self.schema.events}",
        )

    def request(self, command: str, noun: str, run: object, missing: str) -> Request:
        assert callable(run)
        return Request(
            command, noun, run, lambda: self.report_missing_table(missing), self.side_questions
        )

    def count(self) -> Request:
        s, rng, words = self.schema, self.script.rng, self.script.words
        kind, month = rng.choice(s.kinds), rng.randint(1, 12)
        query = f"SELECT COUNT(*) FROM {s.events} WHERE kind = '{kind}' AND day >= '{month:02d}'"

        def run() -> None:
            self.explore()
            self.try_wrong_column(query, "kind", "type")
            number = self.ask(query)[0][0]
            if self.script.chance(0.8):
                self.script.report(
                    "{$n|That gives $n|It is $n}{ $kind $events|, counting $kind "
                    "only|} {since|from} month $month{ on|}.",
                    n=number,
                    kind=kind,
                    events=s.events,
                    month=month,
                )

        command = words(
            "{count|tell me how many|work out how many} $kind $events {there were|we had} "
            "{since|from} month $month {on|of 2025}",
            kind=kind,
            events=s.events,
            month=month,
        )
        return self.request(
            command, f"the {{{kind} count|number of {kind} ones}}", run, f"{s.events}_archive"
        )

    def top(self) -> Request:
        s, rng, words = self.schema, self.script.rng, self.script.words
        top = rng.choice((2, 3, 3))
        query = (
            f"SELECT name, SUM({s.amount}) AS total FROM {s.parties} p JOIN {s.events} e "
            f"ON {s.party}_id = p.id GROUP BY p.id ORDER BY 2 DESC, 1 LIMIT {top}"
        )

        def run() -> None:
            self.explore()
            self.try_wrong_column(query, f"{s.party}_id", f"e.{s.party}")
            rows = self.ask(query)
            if self.script.chance(0.5):
                lines = "\n".join(
                    f"{rank}. {name}: {total}" for rank, (name, total) in enumerate(rows, 1)
                )
                self.script.report("{In order|The ranking|Top $top}:\n$lines", lines=lines, top=top)
            elif self.script.chance(0.7):
                first, last = rows[0], rows[-1]
                self.script.report(
                    "$first leads with $most{;|,} {place|number} $top is $last {with|at} $least.",
                    first=first[0],
                    most=first[1],
                    top=top,
                    last=last[0],
                    least=last[1],
                )

        command = words(
            "{list|find|show me} the {top $top|$top biggest} $parties by {total|summed} $amount",
            top=top,
            parties=s.parties,
            amount=s.amount,
        )
        return self.request(command, f"the {{top {top}|ranking}}", run, f"{s.parties}_2024")

    def average(self) -> Request:
        s, rng, words = self.schema, self.script.rng, self.script.words
        towns = self.connection.execute(f"SELECT DISTINCT town FROM {s.parties} ORDER BY town")
        town = rng.choice([row[0] for row in towns.fetchall()])
        query = (
            f"SELECT COUNT(*) AS n, ROUND(AVG({s.amount}), 1) AS mean FROM {s.events} "
            f"JOIN {s.parties} p ON p.id = {s.party}_id WHERE town = '{town}'"
        )

        def run() -> None:
            self.explore()
            number, mean = self.ask(query)[0]
            if mean is None:
                self.script.report(
                    "{Nothing|No rows|No $events} {for|from} $town, so {no average|there is no "
                    "mean}.",
                    events=s.events,
                    town=town,
                )
            else:
                self.script.report(
                    "{The average|Mean $amount|On average} {in|for} $town is $mean{, over $n "
                    "rows.| (n=$n).|, from $n $events.}",
                    amount=s.amount,
                    town=town,
                    mean=mean,
                    n=number,
                    events=s.events,
                )

        command = words(
            "{give me|get|compute} the {average|mean} $amount {for|of} {people|$parties} "
            "{from|in} $town",
            amount=s.amount,
            parties=s.parties,
            town=town,
        )
        return self.request(command, f"{{the average|{town}}}", run, "regions")

    def update(self) -> Request:
        s, rng, words = self.schema, self.script.rng, self.script.words
        number = rng.randint(1, 9)
        town = rng.choice(PEOPLE.towns)

        def run() -> None:
            if self.script.chance(0.4):
                name = self.ask(f"SELECT name, town FROM {s.parties} WHERE id = {number}")[0][0]
                self.script.say(
                    "{That row is|Number $n is|I'd change} $name. {Go ahead?|Shall I update "
                    "it?|Please confirm before I write.}",
                    n=number,
                    name=name,
                )
                self.script.mark_unfinished()
                self.script.reply(
                    "{yes|go ahead|correct, that's the one|do it|yes, $name moved}{.|}", name=name
                )
            self.ask(f"UPDATE {s.parties} SET town = '{town}' WHERE id = {number}")
            if self.script.chance(0.6):
                self.ask(f"SELECT id, name, town FROM {s.parties} WHERE id = {number}")
            if self.script.chance(0.6):
                self.script.report(
                    "{Row|Entry|Id} $n {now says|reads|is set to} $town.", n=number, town=town
                )

        command = words(
            "{set|change|correct} the town of $party {number|id|no.} $n to $town",
            party=s.party,
            n=number,
            town=town,
        )
        return self.request(command, "the {correction|update|town}", run, f"{s.parties}_log")

    def dump(self) -> Request:
        s, rng = self.schema, self.script.rng
        limit = 50 if self.script.size == "huge" else rng.choice((2, 3))
        query = (
            f"SELECT day, kind, name, {s.amount} FROM {s.events} e JOIN {s.parties} p "
            f"ON p.id = {s.party}_id ORDER BY day DESC, e.id LIMIT {limit}"
        )

        def run() -> None:
            self.try_wrong_column(query, "kind", "type")
            rows = self.ask(query)
            if self.script.chance(0.6):
                self.script.report(
                    "{The newest is|Latest:|Most recent} $day, $kind, $who.",
                    day=rows[0][0],
                    kind=rows[0][1],
                    who=rows[0][2],
                )

        command = self.script.words(
            "{print|dump|show} the {last|latest|newest} $n $events with names",
            n=limit,
            events=s.events,
        )
        return self.request(command, "the {listing|latest rows}", run, f"{s.events}_old")

    def side_questions(self) -> Sequence[SideQuestion]:
        s, words = self.schema, self.script.words
        total = self.connection.execute(f"SELECT COUNT(*) FROM {s.events}").fetchone()[0]
        first = self.connection.execute(f"SELECT MIN(day) FROM {s.events}").fetchone()[0]
        return (
            (
                "{How many rows are there altogether|Is that the whole table|Out of how many}?",
                words(
                    "{The table|`$events`} has $n rows {in all|altogether|in total}.",
                    events=s.events,
                    n=total,
                ),
            ),
            (
                "{From when is the data|What is the oldest entry|How far back does it go}?",
                words("{The first row is of|It starts on|Oldest entry:} $day.", day=first),
            ),
        )


def converse(script: Script) -> str:
    """Writes one conversation and returns its goal, the kind of its first request."""
    rng = script.rng
    with closing(sqlite3.connect(":memory:")) as connection:
        database = _Database(script, connection)
        makers = {
            "count rows": database.count,
            "ranking": database.top,
            "average": database.average,
            "correct a row": database.update,
            "list rows": database.dump,
        }
        count = {"usual": rng.choice((1, 1, 2, 2)), "long": 4, "huge": 2}[script.size]
        if script.outcome == "broken_off":
            count = max(count, 2)
        chosen = rng.sample(sorted(makers), count)
        if script.size == "huge" and "list rows" not in chosen:
            chosen[0] = "list rows"
        requests = [makers[kind]() for kind in chosen]
        preface = script.words(
            "{In the $db database:|It's about the $db db.|Working on $db.sqlite.||}",
            db=database.schema.database,
        )
        write_opening(script, [request.command for request in requests], preface)
        if script.chance(0.12):
            script.mark_unfinished()
            script.say(
                "{Is it okay to run queries|May I query the live copy|Do you want the queries "
                "shown, or only results}?"
            )
            script.reply(
                "{yes, read only please unless I say so|fine, it's a copy anyway|only what I "
                "asked|both is ok|sure, the nightly copy}{.|}"
            )
        write_requests(script, requests)
    if script.outcome == "complete":
        write_closing(script)
    return chosen[0]
