"""An insurance underwriter who asks an assistant with guidelines, account data and a rater."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.simulate.domains.people import TOWNS, reference
from engine.simulate.script import Doubt, Part, Script, close, opening, play

POLICY = """You assist commercial underwriters of Granite & Vale Mutual with submissions from small and mid-sized firms.
Use the tools for every fact about an account and for every rule; never answer from memory.
Small business means fewer than 60 employees and revenue below 8,000,000.
Lines: property, general liability (gl), cyber, auto. Appetite per class is in, refer or out.
State limits and deductibles exactly as the guideline gives them, and premiums as rated, before tax.
If data is missing, ask the underwriter for it. Binding is done by people, not by you."""

_CLASSES: dict[str, tuple[str, str, tuple[str, str, str, str]]] = {
    "bakery": ("5462", "food retail", ("in", "in", "in", "refer")),
    "joinery workshop": ("2431", "wood products", ("refer", "in", "in", "in")),
    "dental practice": ("8021", "health services", ("in", "refer", "in", "out")),
    "roofing contractor": ("1761", "construction", ("in", "out", "in", "refer")),
    "micro-brewery": ("2082", "beverages", ("in", "refer", "in", "in")),
    "freight forwarder": ("4731", "transport services", ("in", "in", "refer", "out")),
    "plastics moulder": ("3089", "manufacturing", ("refer", "in", "in", "in")),
    "yoga studio": ("7991", "leisure", ("in", "in", "in", "in")),
    "electrical wholesaler": ("5063", "wholesale", ("in", "in", "in", "refer")),
    "software consultancy": ("7371", "services", ("in", "in", "refer", "in")),
}
_LINES = ("property", "gl", "cyber", "auto")
_LIMITS = {
    "property": (2_000_000, 5_000),
    "gl": (1_000_000, 2_500),
    "cyber": (500_000, 10_000),
    "auto": (750_000, 1_000),
}
_RATES = {"property": 0.0021, "gl": 0.0016, "cyber": 0.0009, "auto": 0.0013}
_NAMES = (
    "Harlow",
    "Pinefield",
    "St. Brice",
    "Kestrel",
    "Adeyemi & Sons",
    "Blåvand",
    "Old Wharf",
    "Tri-County",
    "Núñez",
    "Fenwick",
)


class _Account:
    """One firm that asks for cover."""

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.trade = rng.choice(sorted(_CLASSES))
        self.code, self.sector, appetite = _CLASSES[self.trade]
        self.appetite = dict(zip(_LINES, appetite, strict=True))
        self.name = f"{rng.choice(_NAMES)} {self.trade.split()[-1].capitalize()}"
        self.id = f"GV-{rng.randint(20000, 79999)}"
        self.town = rng.choice(TOWNS)
        self.employees = rng.choice((4, 9, 14, 22, 37, 58, 74, 120))
        self.revenue = rng.randint(3, 120) * 100_000
        self.insured = rng.randint(4, 60) * 50_000
        self.built = rng.randint(1931, 2019)
        self.losses = [
            {"year": year, "line": rng.choice(_LINES), "paid": rng.randint(8, 400) * 100}
            for year in sorted(rng.sample(range(2020, 2026), rng.choice((0, 1, 2, 3))))
        ]
        self.looked_up = False

    def record(self) -> dict[str, Any]:
        return {
            "account": self.id,
            "name": self.name,
            "trade": self.trade,
            "town": self.town,
            "employees": self.employees,
            "revenue": self.revenue,
            "insured_value": self.insured,
            "built": self.built,
        }

    def open(self) -> None:
        if not self.looked_up:
            self.looked_up = True
            self.script.call("get_account", {"account": self.id}, self.record())

    def size(self) -> Part:
        script = self.script
        small = self.employees < 60 and self.revenue < 8_000_000

        def run() -> None:
            self.open()
            script.report(
                "{With|At|Given} $n employees and {revenue of|a turnover of} $rev, $name "
                "{$verdict small business|$verdict a small business by our definition}.",
                n=self.employees,
                rev=f"{self.revenue:,}",
                name=self.name,
                verdict="is" if small else "is not",
            )

        return Part(
            "{tell me|check} {whether|if} {they count|it counts|this counts} as small business",
            "the small business {question|check}",
            run,
            lambda: self.missing("employee count"),
            self.doubts,
        )

    def line(self) -> Part:
        script = self.script
        line = script.rng.choice(_LINES)
        verdict = self.appetite[line]

        def run() -> None:
            self.open()
            script.call(
                "guideline",
                {"topic": "appetite", "class": self.code, "line": line},
                {"class": self.code, "sector": self.sector, "line": line, "appetite": verdict},
            )
            answer = {
                "in": "{yes, that is in appetite|in appetite|we do write that}",
                "out": "{no, out of appetite|that is outside appetite|we don't write it}",
                "refer": "{it is a referral|refer to the regional desk|only with referral}",
            }[verdict]
            script.report(
                "{For|On|As to} $line{,|:} "
                + answer
                + "{ (class $code, $sector)| for class $code|}.",
                line=line,
                code=self.code,
                sector=self.sector,
            )

        return Part(
            script.words(
                "{look up|check|tell me} {whether|if} $line is in appetite{ for them| for a "
                "$trade|}",
                line=line,
                trade=self.trade,
            ),
            f"{line} appetite",
            run,
            lambda: self.down("guideline", {"topic": "appetite", "line": line}),
            self.doubts,
        )

    def limits(self) -> Part:
        script = self.script
        line = script.rng.choice(_LINES)
        limit, deductible = _LIMITS[line]

        def run() -> None:
            script.call(
                "guideline",
                {"topic": "limits", "line": line},
                {"line": line, "max_limit": limit, "min_deductible": deductible, "currency": "EUR"},
            )
            script.report(
                "{The guideline gives|For $line it is|$line:} {a limit of|up to|maximum} "
                "$limit {with|and} {a deductible of|deductible} $ded{ at least|}.",
                line=line,
                limit=f"{limit:,}",
                ded=f"{deductible:,}",
            )

        return Part(
            script.words(
                "{give me|find} the {limit and deductible|maximum limit and the "
                "deductible|limits} for $line",
                line=line,
            ),
            f"{line} limits",
            run,
            lambda: self.down("guideline", {"topic": "limits", "line": line}),
            self.doubts,
        )

    def premium(self) -> Part:
        script = self.script
        line = script.rng.choice(("property", "gl", "cyber"))
        base = self.insured if line == "property" else self.revenue
        premium = round(base * _RATES[line], 2)

        def run() -> None:
            self.open()
            if script.chance(0.3):
                script.say(
                    "{Which effective date|From what date|What inception} {should I rate|do "
                    "you want|shall I use} for $line?",
                    line=line,
                )
                script.pending()
                script.reply(
                    "{1 May|June 1st|the fifteenth of April|1.7.|start of next quarter}{, "
                    "please.|.| as always.|}"
                )
            script.call(
                "rate",
                {"account": self.id, "line": line, "base": base},
                {"line": line, "base": base, "rate": _RATES[line], "premium": premium},
            )
            script.report(
                "{The rater gives|Rated premium:|That comes to} $premium{ a year| annually|} "
                "for $line{, on a base of $base.|, before tax.|.}",
                premium=f"{premium:,.2f}",
                line=line,
                base=f"{base:,}",
            )

        return Part(
            script.words(
                "{rate|price|get me a premium for} {the|their|} $line{ cover| annually|}", line=line
            ),
            f"the {line} premium",
            run,
            lambda: self.down("rate", {"account": self.id, "line": line}),
            self.doubts,
        )

    def history(self) -> Part:
        script = self.script
        total = sum(int(str(loss["paid"])) for loss in self.losses)

        def run() -> None:
            script.call(
                "loss_runs",
                {"account": self.id, "years": 6},
                {"account": self.id, "losses": self.losses},
            )
            if not self.losses:
                script.report(
                    "{No losses|Clean record|Nothing paid} {in|over} {six years|the six years "
                    "on file}."
                )
            elif script.chance(0.5):
                rows = "\n".join(
                    f"| {x['year']} | {x['line']} | {int(str(x['paid'])):,} |" for x in self.losses
                )
                script.report(
                    "| year | line | paid |\n|---|---|--:|\n$rows\n\n{Sum|Total|Altogether} "
                    "$total.",
                    rows=rows,
                    total=f"{total:,}",
                )
            else:
                script.report(
                    "{There are|I find|On file:} $n {losses|claims}, $total {in all|paid in "
                    "total}, the latest in $year.",
                    n=len(self.losses),
                    total=f"{total:,}",
                    year=self.losses[-1]["year"],
                )

        return Part(
            "{pull|show me|summarise} the {loss runs|claims history|losses of the last years}",
            "the {loss runs|losses|claims}",
            run,
            lambda: self.down("loss_runs", {"account": self.id, "years": 6}),
            self.doubts,
        )

    def missing(self, what: str) -> None:
        self.script.call(
            "get_account",
            {"account": self.id},
            {"account": self.id, "name": self.name, "status": "incomplete"},
        )
        self.script.say(
            "{I can't say|That cannot be answered|No answer possible}: the record of $name "
            "{has no|lacks an|holds no} $what, {and I may not guess|so I have nothing to go by}.",
            name=self.name,
            what=what,
        )
        self.script.reply(
            "{I don't have it either|The broker never sent it|No idea|They won't tell us}{.|, "
            "sorry.}"
        )
        self.script.say(
            "{Then it stays open|Without it I can't go on|Then I have to leave it}{.|, I'm afraid.}"
        )

    def down(self, tool: str, arguments: dict[str, Any]) -> None:
        code = reference(self.script.rng, 8)
        self.script.call(tool, arguments, f'{{"error": "upstream timeout", "trace": "{code}"}}')
        if self.script.chance(0.5):
            self.script.call(
                tool,
                arguments,
                f'{{"error": "upstream timeout", "trace": "{code}"}}',
                "Trying once more.",
            )
        self.script.say(
            "{The $tool tool does not answer|I get a timeout from $tool|$tool is down}{ (trace "
            "$code)|}, {so I have no result|and I won't guess a figure|I could not get it}.",
            tool=tool,
            code=code,
        )

    def doubts(self) -> Sequence[Doubt]:
        if not self.looked_up:
            return ()
        words = self.script.words
        return (
            (
                "{Which class is that|What class code did you use|Class code}?",
                words(
                    "{Class|It is class|SIC} $code, $sector.", code=self.code, sector=self.sector
                ),
            ),
            (
                "{How old is the building|When was it built|Year of construction}?",
                words(
                    "{Built in|The building is from|According to the record:} $built.",
                    built=self.built,
                ),
            ),
            (
                "{Where are they|Which town is this|Remind me where that is}{, again|}?",
                words("$name is in $town{.|, one location.}", name=self.name, town=self.town),
            ),
        )


def converse(script: Script) -> str:
    """Writes one conversation; returns the label of its goal."""
    rng = script.rng
    account = _Account(script)
    script.system(POLICY)
    makers = {
        "business size": account.size,
        "appetite": account.line,
        "limits": account.limits,
        "premium": account.premium,
        "loss history": account.history,
    }
    count = 5 if script.size != "usual" else rng.choice((2, 2, 3, 3, 4))
    chosen = rng.sample(sorted(makers), count)
    parts = [makers[kind]() for kind in chosen]
    named = script.chance(0.6)
    preface = script.words(
        "{Submission|New account|Working on|Have} $name{, a $trade in $town|}{ ($id)|, $id}.",
        name=account.name,
        trade=account.trade,
        town=account.town,
        id=account.id,
    )
    vague = script.words(
        "{I have|There is|Got} a $trade {in|from} $town.", trade=account.trade, town=account.town
    )
    opening(script, [part.want for part in parts], preface if named else vague)
    if not named:
        script.pending()
        script.say(
            "{What is the account number?|Please give me the account id.|Do you have the GV "
            "number of the submission?|I need the account number for that.}"
        )
        script.reply(
            "{$id|it's $id|should be $id|$id, $name}{.|}", id=account.id, name=account.name
        )
    play(script, parts)
    if script.outcome == "complete":
        close(script)
    return chosen[0]
