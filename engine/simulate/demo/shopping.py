"""Sample conversations in which an assistant shops for a user with short actions: search, click, add, buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


class _Goods(msgspec.Struct, frozen=True):
    """One kind of goods; `kind` says what `options` are, and `price` has the lowest and the highest."""

    features: tuple[str, ...]
    options: tuple[str, ...]
    kind: str
    price: tuple[int, int]


class _Words(msgspec.Struct, frozen=True):
    brands: tuple[str, ...]
    blurbs: tuple[str, ...]
    uncounted: tuple[str, ...]
    adjectives: tuple[str, ...]
    goods: dict[str, _Goods]


_WORDS = words_of("shopping", _Words)


@dataclass(frozen=True, slots=True)
class _Product:
    code: str
    title: str
    price: float


class _Shop:
    """A shop with the products of one conversation, and the basket."""

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.cart = rng.random() < 0.4
        self.basket: list[float] = []
        self.orders: list[str] = []
        self.terse = rng.random() < 0.5
        self.ship = rng.choice((0.0, 3.95, 4.9, 6.5))
        self.address = (
            f"{rng.choice(PEOPLE.streets)} {rng.randint(1, 140)}, {rng.choice(PEOPLE.towns)}"
        )
        self.name = person(rng)

    def number(self) -> str:
        rng = self.script.rng
        return f"{rng.randint(100, 999)}-{rng.randint(100, 999)}"

    def results(self, products: Sequence[_Product]) -> str:
        return "\n".join(f"[{p.code}] {p.title} ${p.price:.2f}" for p in products)

    def page(self, product: _Product, kind: str, options: Sequence[str], sold_out: bool) -> str:
        return "\n".join(
            [
                f"{kind}: " + " ".join(f"[{option}]" for option in options),
                self.script.rng.choice(_WORDS.blurbs),
                "Currently unavailable." if sold_out else f"${product.price:.2f}",
            ]
        )

    def item(self, thing: str) -> Request:
        script, rng, words = self.script, self.script.rng, self.script.words
        goods = _WORDS.goods[thing]
        features, options, kind, (low, high) = (
            goods.features,
            goods.options,
            goods.kind,
            goods.price,
        )
        feature, option = rng.choice(features), rng.choice(options)
        prices = [round(rng.uniform(low, high), 1) for _ in range(rng.choice((2, 2, 2, 3)))]
        cap = 5 * (int(min(prices) // 5) + rng.randint(2, 4))
        said_option = rng.random() < 0.65
        after = not feature.endswith(_WORDS.adjectives)
        phrase = f"{thing} {feature}" if after else f"{feature} {thing}"
        article = "an" if phrase[0] in "aeio" else "a"
        phrase = f"{'{some|}' if thing in _WORDS.uncounted else article} {phrase}"
        others = [f for f in features if f != feature] if script.outcome == "failed" else features
        products = [
            _Product(
                f"{rng.choice('BCDFGHKLMNPQRST')}{index + 1}{rng.randint(0, 9)}",
                f"{brand} {thing}, {rng.choice(others) if index else feature}",
                price,
            )
            for index, (brand, price) in enumerate(
                zip(rng.sample(_WORDS.brands, len(prices)), sorted(prices), strict=True)
            )
        ]
        best = products[0]

        def search() -> None:
            script.act(
                f"search[{feature} {thing}{f' {option}' if said_option else ''}]",
                self.results(rng.sample(products, len(products))),
            )
            if script.chance(0.07):
                script.act(f"think[{best.code} is {feature} and the cheapest.]", "OK.")

        def look(sold_out: bool) -> None:
            script.act(f"click[{best.code}]", self.page(best, kind, options, sold_out))

        def run() -> None:
            search()
            if not said_option or script.chance(0.2):
                look(sold_out=False)
            script.mark_unfinished()
            if not said_option:
                script.say(
                    "{I found|There is|How about} the $title at $price. {Which $kind|It comes "
                    "in $options; which one|What $kind would you like}?",
                    title=best.title.split(",")[0],
                    price=f"${best.price:.2f}",
                    kind=kind,
                    options=", ".join(options),
                )
                script.mark_unfinished()
                script.reply(
                    "{$option|the $option one|$option, please|I'd take $option|$option I "
                    "think}{.|, if it's in stock.|}",
                    option=option,
                )
            elif script.chance(0.25):
                script.say(
                    "$title {costs|is|comes to} $price. {Take it?|Good for you?|Should I order "
                    "that one?}",
                    title=best.title.split(",")[0],
                    price=f"${best.price:.2f}",
                )
                script.mark_unfinished()
                script.reply(
                    "{Yes|yes, the $brand one|Take it|ok for that price|fine, under $cap is "
                    "what counts}{.|}",
                    brand=best.title.split()[0],
                    cap=cap,
                )
            self.basket.append(best.price)
            if self.cart:
                total = f"${sum(self.basket):.2f}"
                script.act(f"add[{best.code}, {option}]", f"Cart ({len(self.basket)}): {total}")
            else:
                order = self.number()
                self.orders.append(order)
                script.act(
                    f"buy[{best.code}, {option}]",
                    f"Order {order}. Charged ${best.price:.2f}.",
                )
            if not self.terse or script.chance(0.3):
                script.report(
                    "{Added|In the cart|Put in}: $thing{, $option,| ($option)} {at|for} "
                    "$price{.|, so below $cap.|.}"
                    if self.cart
                    else "{Ordered|Bought}{:| the} $thing in $option{ for|,} $price, order $order.",
                    thing=thing,
                    option=option,
                    price=f"${best.price:.2f}",
                    cap=cap,
                    order=self.orders[-1] if self.orders else "",
                )

        def fail() -> None:
            if script.chance(0.5):
                search()
                look(sold_out=True)
                script.say(
                    "{That $thing is|The only one that fits is|$code is} {currently "
                    "unavailable|out of stock}{, and the others cost more than $cap or lack "
                    "$feature.|. Nothing else fits $cap dollars and $feature.}",
                    thing=thing,
                    code=best.code,
                    cap=cap,
                    feature=feature,
                )
            else:
                script.act(f"search[{feature} {thing} under {cap}]", "No results. Use fewer words.")
                if script.chance(0.5):
                    script.act(f"search[{thing} {option}]", "No results. Use fewer words.")
                script.say(
                    "{No|The shop has no|I find no} $thing {at all|like that} {right now|at "
                    "the moment|today}; {I bought nothing.|so nothing was ordered.|}",
                    thing=thing,
                )

        command = words(
            f"{{find|get|order|buy}} {{me |}}{phrase}"
            + ("{,| in| - in} $option{,|}" if said_option else "")
            + " {under|below|for less than|max|for at most} $cap dollars",
            option=option,
            cap=cap,
        )
        return Request(command, f"the {thing}", run, fail, self.side_questions)

    def checkout(self) -> Request:
        script, words = self.script, self.script.words

        def run() -> None:
            items = sum(self.basket)
            if script.chance(0.5):
                script.say(
                    "{Cart is ready|In the cart: $n for $sum|That makes $sum}. {Send it to|Ship "
                    "to|Deliver to} $address, {name|for} $name?",
                    n=len(self.basket),
                    sum=f"${items:.2f}",
                    address=self.address,
                    name=self.name,
                )
                script.mark_unfinished()
                script.reply(
                    "{yes|Yes, that address|correct|that's right|yep, ring twice}{.|, $street.|}",
                    street=self.address.split(",")[0],
                )
            order = self.number()
            script.act(
                "checkout[]",
                f"Order {order}\nItems: ${items:.2f}\nShipping: ${self.ship:.2f}\nTotal: "
                f"${items + self.ship:.2f}\nShip to: {self.address}",
            )
            if script.chance(0.6):
                script.report(
                    "{Order|It went through as|Placed as} $order{, total| for|:} $total "
                    "{including|with} {shipping|delivery}.",
                    order=order,
                    total=f"${items + self.ship:.2f}",
                )

        def fail() -> None:
            script.act("checkout[]", "Payment declined. Your cart has been kept.")
            if script.chance(0.5):
                script.act("checkout[retry]", "Payment declined. Your cart has been kept.")
            script.say(
                "{The payment was declined|Your card was refused}, {so no order was "
                "placed|nothing is ordered}{.|; the cart is still there.}"
            )

        return Request(
            words(
                "{have it all sent|ship everything|send the lot} to $address", address=self.address
            ),
            "the {checkout|shipping|delivery}",
            run,
            fail,
            self.side_questions,
        )

    def side_questions(self) -> Sequence[SideQuestion]:
        words = self.script.words
        spent = sum(self.basket)
        return (
            (
                "{What is that together|How much is it so far|total so far}?",
                words(
                    "{So far|Together} $sum, basket of $n, before shipping.",
                    sum=f"${spent:.2f}",
                    n=len(self.basket),
                ),
            ),
            (
                "{Can I send it back|What about returns|Return policy}?",
                "{30 days|Within thirty days}, unused, {at no cost|label in the box}.",
            ),
        )


def converse(script: Script) -> str:
    """Writes one conversation and returns its goal: one purchase, several, or an order by cart."""
    rng = script.rng
    shop = _Shop(script)
    most = 2 if shop.cart else 3
    count = most if script.size != "usual" else rng.choice((1, 1, 1, 2))
    things = rng.sample(sorted(_WORDS.goods), count)
    requests = [shop.item(thing) for thing in things]
    if shop.cart:
        requests.append(shop.checkout())
    write_opening(script, [request.command for request in requests])
    write_requests(script, requests)
    if script.outcome == "complete":
        write_closing(script)
    return (
        "order by cart" if shop.cart else "buy " + ("one thing" if count == 1 else "several things")
    )
