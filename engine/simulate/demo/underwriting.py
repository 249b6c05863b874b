"""Sample conversations of an insurance underwriter with an assistant that has account data, guidelines and rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engine.simulate.demo.script import (
    Request,
    Script,
    SideQuestion,
    write_closing,
    write_opening,
    write_requests,
)
from engine.simulate.demo.wording import PEOPLE, reference, words_of

POLICY = """You assist the underwriters of Granite & Vale Mutual.
Use the tools for every fact and rule; never answer from memory.
Small business means fewer than 60 employees and revenue below 8 million.
If data is missing, ask for it. Appetite is in, refer or out. Binding is done by people."""

_LINES = ("property", "gl", "cyber", "auto")
_LIMITS = {
    "property": ("2M", "5k"),
    "gl": ("1M", "2.5k"),
    "cyber": ("500k", "10k"),
    "auto": ("750k", "1k"),
}
"""Line of insurance -> (standard limit, deductible)."""
_RATES = {"property": 2100, "gl": 1600, "cyber": 900}
"""Premium for each million of the insured value (property) or of the revenue (the other lines of insurance)."""


class _Class(msgspec.Struct, frozen=True):
    """Kind of business: industry code, sector, and for each of `_LINES` whether it is accepted (`in`), declined (`out`)
    or to be referred."""

    code: str
    sector: str
    appetite: tuple[str, str, str, str]


class _Words(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    classes: dict[str, _Class]


_WORDS = words_of("underwriting", _Words)


class _Account:
    """A firm that applies for insurance."""

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.trade = rng.choice(sorted(_WORDS.classes))
        self.firm = f"{'an' if self.trade[0] in 'aeiou' else 'a'} {self.trade}"
        business = _WORDS.classes[self.trade]
        self.code, self.sector = business.code, business.sector
        self.appetite = dict(zip(_LINES, business.appetite, strict=True))
        self.name = f"{rng.choice(_WORDS.names)} {self.trade.split()[-1].capitalize()}"
        self.id = f"GV-{rng.randint(200, 799)}"
        self.town = rng.choice(PEOPLE.towns)
        self.employees = rng.choice((4, 9, 14, 22, 37, 58, 74, 120))
        self.revenue = rng.randint(3, 120) / 10
        self.insured = rng.randint(2, 30) / 10
        self.built = rng.randint(1931, 2019)
        self.losses = [
            {"year": year, "line": rng.choice(_LINES), "paid_k": rng.randint(1, 40)}
            for year in sorted(rng.sample(range(2020, 2026), rng.choice((0, 1, 2, 3))))
        ]
        self.looked_up = False

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "class": f"{self.code} {self.sector}",
            "employees": self.employees,
            "revenue_m": self.revenue,
            "insured_m": self.insured,
            "built": self.built,
        }

    def look_up(self) -> None:
        if not self.looked_up:
            self.looked_up = True
            self.script.call("get_account", {"account": self.id}, self.record())

    def size(self) -> Request:
        script = self.script
        small = self.employees < 60 and self.revenue < 8

        def run() -> None:
            self.look_up()
            script.report(
                "{With|At|Given} $n employees and {revenue of|a turnover of} $rev, $name "
                "{$verdict small business|$verdict a small business by our definition}.",
                n=self.employees,
                rev=f"{self.revenue} million",
                name=self.name,
                verdict="is" if small else "is not",
            )

        return Request(
            "{tell me|check} {whether|if} {they count|it counts|this counts} as small business",
            "the small business {question|check}",
            run,
            lambda: self.report_missing_field("employee count"),
            self.side_questions,
        )

    def line(self) -> Request:
        script = self.script
        line = script.rng.choice(_LINES)
        verdict = self.appetite[line]

        def run() -> None:
            self.look_up()
            script.call(
                "appetite",
                {"class": self.code, "line": line},
                {"appetite": verdict},
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

        return Request(
            script.words(
                "{look up|check|tell me} {whether|if} $line is in appetite{ for them| for $firm|}",
                line=line,
                firm=self.firm,
            ),
            f"{line} appetite",
            run,
            lambda: self.report_timeout("appetite", {"class": self.code, "line": line}),
            self.side_questions,
        )

    def limits(self) -> Request:
        script = self.script
        line = script.rng.choice(_LINES)
        limit, deductible = _LIMITS[line]

        def run() -> None:
            script.call(
                "limits",
                {"line": line},
                {"max_limit": limit, "min_deductible": deductible},
            )
            script.report(
                "{The guideline gives|For $line it is|$line:} {a limit of|up to|maximum} "
                "$limit {with|and} {a deductible of|deductible} $ded{ at least|}.",
                line=line,
                limit=limit,
                ded=deductible,
            )

        return Request(
            script.words(
                "{give me|find} the {limit and deductible|maximum limit and the "
                "deductible|limits} for $line",
                line=line,
            ),
            f"{line} limits",
            run,
            lambda: self.report_timeout("limits", {"line": line}),
            self.side_questions,
        )

    def premium(self) -> Request:
        script = self.script
        line = script.rng.choice(sorted(_RATES))
        base = self.insured if line == "property" else self.revenue
        premium = round(base * _RATES[line])

        def run() -> None:
            self.look_up()
            if script.chance(0.2):
                script.say(
                    "{Which effective date|From what date|What inception} {should I rate|do "
                    "you want|shall I use} for $line?",
                    line=line,
                )
                script.mark_unfinished()
                script.reply(
                    "{1 May|June 1st|the fifteenth of April|1.7.|start of next quarter}{, "
                    "please.|.| as always.|}"
                )
            script.call(
                "rate",
                {"account": self.id, "line": line, "base": base},
                {"rate": _RATES[line], "premium": premium},
            )
            script.report(
                "{The rater gives|Rated premium:|That comes to} $premium{ a year| annually|} "
                "for $line{, on a base of $base million.|, before tax.|.}",
                premium=f"{premium:,}",
                line=line,
                base=base,
            )

        return Request(
            script.words(
                "{rate|price|get me a premium for} {the|their|} $line{ cover| annually|}", line=line
            ),
            f"the {line} premium",
            run,
            lambda: self.report_timeout("rate", {"account": self.id, "line": line}),
            self.side_questions,
        )

    def history(self) -> Request:
        script = self.script
        total = sum(int(str(loss["paid_k"])) for loss in self.losses)

        def run() -> None:
            script.call(
                "loss_runs",
                {"account": self.id},
                {"losses": self.losses},
            )
            if not self.losses:
                script.report(
                    "{No losses|Clean record|Nothing paid} {in|over} {six years|the six years "
                    "on file}."
                )
            elif script.chance(0.5):
                rows = "\n".join(
                    f"| {x['year']} | {x['line']} | {x['paid_k']}k |" for x in self.losses
                )
                script.report(
                    "| year | line | paid |\n|---|---|--:|\n$rows\n\n{Sum|Total|Altogether} "
                    "$total.",
                    rows=rows,
                    total=f"{total}k",
                )
            else:
                script.report(
                    "{There are|I find|On file:} $n {losses|claims}, $total {in all|paid in "
                    "total}, the latest in $year.",
                    n=len(self.losses),
                    total=f"{total}k",
                    year=self.losses[-1]["year"],
                )

        return Request(
            "{pull|show me|summarise} the {loss runs|claims history|losses of the last years}",
            "the {loss runs|losses|claims}",
            run,
            lambda: self.report_timeout("loss_runs", {"account": self.id}),
            self.side_questions,
        )

    def report_missing_field(self, what: str) -> None:
        """Adds the failure of a request for which the account record lacks a field."""
        self.script.call(
            "get_account",
            {"account": self.id},
            {"name": self.name, "status": "incomplete"},
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

    def report_timeout(self, tool: str, arguments: dict[str, Any]) -> None:
        """Adds the failure of a request for which a tool does not answer."""
        code = reference(self.script.rng, 4)
        answer = {"error": "timeout", "trace": code}
        self.script.call(tool, arguments, answer)
        if self.script.chance(0.3):
            self.script.call(tool, arguments, answer, "Trying once more.")
        self.script.say(
            "{The $tool tool does not answer|I get a timeout from $tool|$tool is down}{ (trace "
            "$code)|}, {so I have no result|and I won't guess a figure|I could not get it}.",
            tool=tool,
            code=code,
        )

    def side_questions(self) -> Sequence[SideQuestion]:
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
        )


def converse(script: Script) -> str:
    """Writes one conversation and returns its goal, the kind of its first request."""
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
    count = 4 if script.size != "usual" else rng.choice((1, 1, 1, 2))
    if script.outcome == "broken_off":
        count = max(count, 2)
    chosen = rng.sample(sorted(makers), count)
    requests = [makers[kind]() for kind in chosen]
    named = script.chance(0.75)
    preface = script.words(
        "{Submission|New account|Working on|Have} $name{, $firm in $town|}{ ($id)|, $id}.",
        name=account.name,
        firm=account.firm,
        town=account.town,
        id=account.id,
    )
    vague = script.words(
        "{I have|There is|Got} $firm {in|from} $town.", firm=account.firm, town=account.town
    )
    write_opening(script, [request.command for request in requests], preface if named else vague)
    if not named:
        script.mark_unfinished()
        script.say(
            "{What is the account number?|Please give me the account id.|Do you have the GV "
            "number of the submission?|I need the account number for that.}"
        )
        script.reply(
            "{$id|it's $id|should be $id|$id, $name}{.|}", id=account.id, name=account.name
        )
    write_requests(script, requests)
    if script.outcome == "complete":
        write_closing(script)
    return chosen[0]
