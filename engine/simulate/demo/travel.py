"""Sample conversations with an airline's agent, which changes bookings with tools and under a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.base.conversation import Message
from engine.simulate.demo.script import (
    Request,
    Script,
    SideQuestion,
    write_closing,
    write_opening,
    write_requests,
)
from engine.simulate.demo.wording import day, person, reference

_AIRPORTS = ("DUB", "LIS", "OSL", "VIE", "PRG", "AMS", "ATH", "HEL", "BCN", "KRK", "EDI", "ZAG")
TIMES = ("06:25", "07:40", "09:15", "11:50", "13:05", "15:30", "17:45", "19:20", "21:10")


class Trip:
    """A traveller and one booking."""

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.name = person(rng)
        self.code = reference(rng)
        self.origin, self.target = rng.sample(_AIRPORTS, 2)
        self.date = day(rng)
        self.flight = f"NL{rng.randint(11, 98)}"
        self.time = rng.choice(TIMES)
        self.price = rng.randint(70, 480)
        self.fare = rng.choice(("standard", "flex"))
        self.seat = f"{rng.randint(4, 31)}{rng.choice('ABCDEF')}"
        self.spent = 0
        self.looked_up = False

    def record(self) -> dict[str, Any]:
        """Returns the booking as the result of the tool `get_booking`."""
        return {
            "fare": self.fare,
            "flight": f"{self.flight} {self.origin}-{self.target} {self.date} {self.time}",
            "seat": self.seat,
            "paid": self.price + self.spent,
        }

    def look_up(self) -> None:
        """Adds the tool call that looks the booking up, unless there is one already."""
        if not self.looked_up:
            self.looked_up = True
            self.script.call("get_booking", {"booking": self.code}, self.record())
            self.script.mark_unfinished()

    def ask_approval(self, template: str, yes: str, **values: object) -> None:
        """Adds the price and the user's approval, which the policy asks for before a change that costs money."""
        self.script.say(template, **values)
        self.script.mark_unfinished()
        self.script.reply(yes, **values)

    def side_questions(self) -> Sequence[SideQuestion]:
        """Returns questions about the booking and their answers; () before it was looked up."""
        if not self.looked_up:
            return ()
        words = self.script.words
        return (
            (
                "{What do I have now in total|So how much have I paid altogether|What's the "
                "total by now}?",
                words(
                    "{That is|Altogether|In total} $paid EUR {for|on} $code.",
                    paid=self.price + self.spent,
                    code=self.code,
                ),
            ),
            (
                "{Which seat is that|Where do I sit|And my seat}{, again|} {then|}?",
                words("{It is|You are in|Seat} $seat on $no.", seat=self.seat, no=self.flight),
            ),
            (
                "{When do I have to be at the airport|How early must I be there|When does it "
                "leave}?",
                words(
                    "{Departure is|It leaves} at $time from $org on $date; {two hours before "
                    "is plenty.|bags close 45 minutes before.}",
                    time=self.time,
                    org=self.origin,
                    date=self.date,
                ),
            ),
        )


POLICY = """# Northlight Airways, booking assistant

- Look the booking up before you speak about it.
- Basic fares are not refunded, flex fares in full, standard fares less 60 EUR.
- Name the price and ask for a yes before a change that costs money.
- Do not invent flights or seats."""

_STOP = "###STOP###"


class _Requests(Trip):
    """The requests that a traveller may have."""

    def rebook(self) -> Request:
        script, rng = self.script, self.script.rng
        old_date, new_date, route = self.date, day(rng), f"{self.origin}-{self.target}"
        daypart = rng.choice(("morning", "evening", "early flight", "afternoon"))

        def run() -> None:
            self.look_up()
            options = [
                (f"NL{rng.randint(11, 98)}", time, rng.randint(1, 12) * 5)
                for time in sorted(rng.sample(TIMES, 2))
            ]
            flights = [f"{no} {time} +{fee}" for no, time, fee in options]
            script.call("search_flights", {"route": route, "date": new_date}, {"options": flights})
            no, time, fee = options[0 if daypart in ("morning", "early flight") else -1]
            self.ask_approval(
                "{On|For} $date {I see|there is|I have} $no at $dep, $fee EUR more. {Do you want "
                "it|Does that suit you|Shall I take that one}?",
                "{Yes|I take it|Give me that|Fine|please}{, the $dep one.|, "
                "please.|, $no right?|.}",
                date=new_date,
                fee=fee,
                dep=time,
                no=no,
            )
            self.date, self.flight, self.time = new_date, no, time
            self.spent += fee
            script.call(
                "change_flight",
                {"booking": self.code, "flight": no, "date": new_date},
                {"status": "changed", "charged": fee},
            )
            script.report(
                "{You are now on|Your new flight is|I moved you to} $no {on|,} $date{,|} "
                "{leaving at|departure} $dep{.| from $org.} {I charged $fee EUR|The difference is "
                "$fee EUR|$fee EUR went on your card}.",
                no=no,
                date=new_date,
                dep=time,
                org=self.origin,
                fee=fee,
            )

        def fail() -> None:
            self.look_up()
            script.call("search_flights", {"route": route, "date": new_date}, {"options": []})
            script.say(
                "{There is nothing left|No flight has a seat|Everything is sold out} from $org "
                "to $to on $date"
                "{, and I can't add you to a list|. You stay on $no|; I have no other way to "
                "get you there}.",
                date=new_date,
                org=self.origin,
                to=self.target,
                no=self.flight,
            )

        return Request(
            script.words(
                "{move|change|shift} my flight {from|on} $old to $new{, ideally in the $part|, "
                "$part if possible|}",
                old=old_date,
                new=new_date,
                part=daypart,
            ),
            "the {new date|other flight|date change|rebooking}",
            run,
            fail,
            self.side_questions,
        )

    def bag(self) -> Request:
        script, rng = self.script, self.script.rng
        kilos, cost = rng.choice(((20, 35), (23, 40), (32, 65)))
        thing = rng.choice(("suitcase", "bag", "box with samples", "pair of skis", "pushchair"))

        def run() -> None:
            self.look_up()
            self.ask_approval(
                "{A bag of up to|Checked luggage up to|One piece up to} $kilos kg {is|costs|would "
                "be} $cost EUR{ on this route|}. {Shall I add it?|May I charge that to the "
                "card on file?|I need your okay for that.}",
                "{yes|Yes please|Go for it|That's fine|ok do it}{, $cost is fine.|, add it.|. "
                "The $thing is heavy.}",
                kilos=kilos,
                cost=cost,
                thing=thing,
            )
            self.spent += cost
            script.call(
                "add_bag",
                {"booking": self.code, "kg": kilos},
                {"status": "ok", "charged": cost},
            )
            if script.chance(0.75):
                script.report(
                    "{Your $thing is in|The bag is on the booking|Luggage added}: $kilos kg{,| "
                    "for} $cost EUR{, drop-off closes 45 minutes before departure.|.| paid by "
                    "card.}",
                    kilos=kilos,
                    cost=cost,
                    thing=thing,
                )

        def fail() -> None:
            self.look_up()
            script.call(
                "add_bag",
                {"booking": self.code, "kg": kilos},
                {"error": "hold full"},
            )
            script.say(
                "{The system refuses it|That did not work|I can't add it}: the hold of $no is "
                "{full|booked out}, {so no more bags|nothing goes in any more}.",
                no=self.flight,
            )

        return Request(
            script.words(
                "{add|book|put in} {one|a|an extra} $thing of $kg kg", thing=thing, kg=kilos
            ),
            f"the {thing}",
            run,
            fail,
            self.side_questions,
        )

    def seats(self) -> Request:
        script, rng = self.script, self.script.rng
        kind = rng.choice(("window", "aisle"))
        seat = f"{rng.randint(4, 31)}{rng.choice('AF' if kind == 'window' else 'CD')}"

        def run() -> None:
            self.look_up()
            script.call(
                "assign_seat",
                {"booking": self.code, "prefer": kind},
                {"seat": seat},
            )
            self.seat = seat
            script.report(
                "{Seat|You have|I put you in} $seat{ now|}, {by the $kind|on the $kind}{.|, at "
                "no charge.| in place of the old one.}",
                seat=seat,
                kind=kind,
            )

        def fail() -> None:
            self.look_up()
            script.call(
                "assign_seat",
                {"booking": self.code, "prefer": kind},
                {"error": f"no {kind} seat left"},
            )
            script.say(
                "{No|There is no|I find no} $kind seat {left|free} on $no{; you stay in "
                "$seat.|, I had to leave $seat as it is.}",
                kind=kind,
                no=self.flight,
                seat=self.seat,
            )

        return Request(
            script.words(
                "{get|give|find} me $kind seat", kind=f"{'an' if kind == 'aisle' else 'a'} {kind}"
            ),
            f"the {kind} seat",
            run,
            fail,
            self.side_questions,
        )

    def refund(self) -> Request:
        script, rng = self.script, self.script.rng
        code, paid = reference(rng), rng.randint(80, 390)
        back = paid if rng.random() < 0.5 else paid - 60
        fare = "flex" if back == paid else "standard"

        def run() -> None:
            script.call(
                "get_booking",
                {"booking": code},
                {"fare": fare, "paid": paid},
            )
            self.ask_approval(
                "{Booking|Number} $code is {on a $fare fare|$fare}, {so you would get|which "
                "gives you|that is} $back of $paid EUR back. {Cancel it?|Do I cancel?|Please "
                "confirm that I should cancel.}",
                "{Yes|yes, cancel it|Confirmed|Do that}{, $back is okay.|, please.|. We can't "
                "travel then.}",
                code=code,
                fare=fare,
                back=back,
                paid=paid,
            )
            script.call("cancel", {"booking": code}, {"status": "cancelled", "refund": back})
            script.report(
                "{$code is cancelled|I cancelled $code|Cancelled}{.|:} $back EUR {goes|go} "
                "back to the {card|account} you paid with{ within 7 days|, allow a week|}.",
                code=code,
                back=back,
            )

        def fail() -> None:
            script.call(
                "get_booking",
                {"booking": code},
                {"fare": "basic", "paid": paid},
            )
            script.say(
                "{$code was sold|You bought $code} as basic{, which is not refundable|: no "
                "money back}. {I can only offer to leave it.|The $paid EUR are lost if you "
                "don't fly.|}",
                code=code,
                paid=paid,
            )

        return Request(
            script.words(
                "cancel {booking|the booking|my trip|the trip} $code{ and get the money back| for "
                "a refund|}",
                code=code,
            ),
            f"the refund for {code}",
            run,
            fail,
            self.side_questions,
        )

    def receipt(self) -> Request:
        script = self.script
        user = script.rng.choice(("office", "travel", "me", "konto", "billing"))
        mail = f"{user}{script.rng.randint(3, 9)}@example.org"

        def run() -> None:
            self.look_up()
            script.call(
                "send_receipt",
                {"booking": self.code, "to": mail},
                {"status": "sent", "total": self.price + self.spent},
            )
            if script.chance(0.7):
                script.report(
                    "{The receipt over|An invoice for|A receipt for} $total EUR {is on its "
                    "way|went|has gone} to $mail.",
                    total=self.price + self.spent,
                    mail=mail,
                )

        def fail() -> None:
            self.look_up()
            script.call(
                "send_receipt",
                {"booking": self.code, "to": mail},
                {"error": "mail service unavailable"},
            )
            script.say(
                "{The mail service is down|I get an error from the mail system}, {so nothing "
                "was sent|no receipt could go out} to $mail.",
                mail=mail,
            )

        return Request(
            script.words("{mail|send} {the receipt|an invoice|a receipt} to $mail", mail=mail),
            "the {receipt|invoice}",
            run,
            fail,
            self.side_questions,
        )


def converse(script: Script) -> str:
    """Writes one conversation and returns its goal, the kind of its first request."""
    rng = script.rng
    trip = _Requests(script)
    script.system(POLICY)
    if script.chance(0.15):
        script.say(
            "{Northlight Airways|Welcome to Northlight}, {how can I help|what can I do for "
            "you}{ today|}?"
        )
    makers = {
        "rebooking": trip.rebook,
        "luggage": trip.bag,
        "seat": trip.seats,
        "refund": trip.refund,
        "receipt": trip.receipt,
    }
    count = 4 if script.size != "usual" else 1
    # `receipt` is in the list twice, so it is drawn twice as often as any other request.
    chosen = list(dict.fromkeys(rng.sample([*sorted(makers), "receipt"], count)))
    if "receipt" in chosen:
        chosen.remove("receipt")
        chosen.append("receipt")
    requests = [makers[kind]() for kind in chosen]
    known = script.chance(0.75)
    preface = script.words(
        "{My booking is|Booking|About} $code{, name $name|}.", code=trip.code, name=trip.name
    )
    own = chosen != ["refund"]
    write_opening(
        script, [request.command for request in requests], preface if known and own else ""
    )
    if own and not known:
        script.mark_unfinished()
        script.say(
            "{I can help with that|Sure|Let me look}{.|:} {What is|Please tell me|I need} your "
            "booking {code|reference} {and the name on it|and last name}{.|?}"
        )
        script.reply(
            "{It's|it is|That would be|} $code{, | / |, name is }$name",
            code=trip.code,
            name=trip.name,
        )
    write_requests(script, requests)
    if script.outcome == "complete":
        write_closing(script)
    last = script.messages[-1]
    if script.outcome != "broken_off" and last.role == "user" and script.chance(0.9):
        script.messages[-1] = Message("user", f"{last.content} {_STOP}")
    return chosen[0]
