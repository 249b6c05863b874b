"""Writes numbers as text, in one way for all screens, commands and documents: each function returns the text of what it
is called after.

- a probability: `probability`; an estimated one, which is never certain: `estimate`; one far below .01:
  `small_probability`
- a difference of two probabilities: `difference`; of two shares: `points`
- a coefficient that may be beyond 1: `signed`; its interval: `interval`
- an AUROC and the like, with two digits even where it is 1: `figure`; its interval: `figure_range`
- a share with its interval: in a sentence `share_range`, in a column `rate`, which is narrow
"""

from __future__ import annotations

from engine.base.statistics.intervals import wilson

BAR_WIDTH = 8
"""Default width of `bar`, in cells of a terminal."""

RATE_WIDTH = 14
"""Width of `rate`, in cells of a terminal."""

Range = tuple[float, float]
"""The least and the most that an amount may be."""


def with_minus(text: str) -> str:
    """Returns the text of a number, or of several, with minus signs in place of the hyphens that Python writes."""
    return text.replace("-", "−")


# Probabilities and other figures


def probability(p: float | None, digits: int = 2) -> str:
    """Returns a probability without its leading zero, `.63`; `1.0` when it rounds to one, a dash for None."""
    if p is None:
        return "–"
    text = f"{p:.{digits}f}"
    return "1.0" if text.startswith("1") else text[1:]


def estimate(p: float | None) -> str:
    """Returns an estimated probability as `probability` writes it, but never as certain: `>.99`, `<.01`."""
    if p is None or 0.005 <= p < 0.995:  # what two digits write as .01 to .99
        return probability(p)
    return ">.99" if p > 0.5 else "<.01"


def small_probability(p: float) -> str:
    """Returns a probability that may be far below .01 in about four characters: `.63`, `.004`, `2e−5`."""
    if p >= 0.01 or p <= 0:
        return probability(p)
    if p >= 0.001:
        return probability(p, 3)
    digit, _, power = f"{p:.0e}".partition("e-")
    return f"{digit}e−{power.lstrip('0')}"


def difference(value: float) -> str:
    """Returns a difference of probabilities with its sign, `+.12`, `−.05`; `.00` when it rounds to nothing."""
    text = probability(abs(value))
    return text if not text.strip(".0") else f"{'+' if value > 0 else '−'}{text}"


def signed(value: float) -> str:
    """Returns a number as probabilities are written, `.86`, `1.0`, `−1.20`: with a minus below 0, without a plus."""
    if abs(value) >= 1.005:
        return with_minus(f"{value:.2f}")
    text = probability(abs(value))
    return f"−{text}" if value < 0 and text.strip(".0") else text


def figure(value: float) -> str:
    """Returns a figure in [-1, 1] with two digits and without its leading zero: `.63`, `−.25`, `1.00`."""
    text = with_minus(f"{value:.2f}")
    return text if abs(value) >= 0.995 else text.replace("0.", ".", 1).replace("−.00", ".00")


def log_probability(value: float | None) -> str:
    """Returns a natural log-probability, `−0.97`; a dash for None."""
    return "–" if value is None else with_minus(f"{value:.2f}")


def trouble(total: float | None) -> str:
    """Returns a sum of standard scores of signs with its sign: `+3.2`, `−1.0`; a dash for None."""
    return "–" if total is None else with_minus(_signed_tenths(total))


def bar(p: float | None, width: int = BAR_WIDTH) -> str:
    """Returns a probability as a bar of `width` cells; blank for None."""
    if p is None:
        return " " * width
    filled = round(min(max(p, 0.0), 1.0) * width)
    return "▇" * filled + "▁" * (width - filled)


# Intervals and shares


def interval(low: float, high: float) -> str:
    """Returns both ends of an interval: `[.50, .73]`, `[−.20, .10]`."""
    return f"[{signed(low)}, {signed(high)}]"


def figure_range(low: float, high: float) -> str:
    """Returns both ends of a figure's interval: `.41 to .60`."""
    return f"{figure(low)} to {figure(high)}"


def percent_range(low: float, high: float) -> str:
    """Returns both ends of a share's interval: `81.0% to 96.8%`."""
    return f"{low:.1%} to {high:.1%}"


def share_range(part: int, of: int) -> str:
    """Returns the share of a part with its 95% interval, `71% (68% to 74%)`; `of`, the whole, is not 0."""
    share = wilson(part, of)
    return f"{share.value:.0%} ({share.low:.0%} to {share.high:.0%})"


def rate(part: int, total: int) -> str:
    """Returns a share with the ends of its 95% interval, `71% [68, 74]`; a dash when there is nothing to share.

    Its lower end is never written as 100, and its upper end never as 0.
    """
    if total <= 0:
        return "–"
    share = wilson(part, total)
    low, high = min(99, round(100 * share.low)), max(1, round(100 * share.high))
    return f"{100 * part / total:.0f}% [{low}, {high}]"


def points(share: float) -> str:
    """Returns a difference of shares in percentage points with its sign: `+4.0`, `−14.5`."""
    return with_minus(_signed_tenths(100 * share))


def _signed_tenths(value: float) -> str:
    """Returns a number with its sign and one digit; `+0.0` for what rounds to nothing."""
    return f"{round(value, 1) + 0.0:+.1f}"  # -0.0 + 0.0 is 0.0


def is_few(number: int) -> bool:
    """Returns whether so few conversations are behind a figure that it is drawn faint: its range says more than the
    figure."""
    return number < 10


def at_least(threshold: float) -> str:
    """Returns which scores count as ended, beside a rate of them: `≥ .50`."""
    return f"≥ {probability(threshold)}"


# Amounts


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun, `1 turn`, `1,204 turns`; a plural without a mere `s` is given too."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def amount(number: float) -> str:
    """Returns a count in at most five characters, `912`, `12.4k`, `3.1M`, up to `9999G`."""
    units = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
    divisor, unit = next(((least, unit) for least, unit in units if number >= least), (1.0, ""))
    value = number / divisor
    digits = 1 if unit and value < 99.95 else 0  # one digit of 99.95 would be 100.0
    return f"{value:.{digits}f}{unit}"


def size(count: int | None) -> str:
    """Returns a number of bytes in words, `7.1 GB`, `98 MB`, `27 kB`; a dash for None."""
    if count is None:
        return "–"
    if count < 1e6:
        return f"{count / 1e3:,.0f} kB"
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"


def duration(seconds: float | None) -> str:
    """Returns a time to wait in words, `40 s`, `6 min`, `3 h 10 min`; `an unknown time` for None."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def cost_text(requests: Range, read: Range, written: Range, cost: Range | None) -> str:
    """Returns an estimate of requests to endpoints in words, as in "about 24 to 48 requests, 9,000 tokens read, …"."""
    request_count, token_count = _counted_span(requests, "request"), _counted_span(read, "token")
    text = f"about {request_count}, {token_count} read, {_span(written)} written"
    return text if cost is None else f"{text}, cost {_span(cost, 4)}"


def _counted_span(span: Range, noun: str) -> str:
    """Returns the least and the most of an amount with its noun."""
    return f"{_span(span)} {noun if span == (1, 1) else noun + 's'}"


def _span(span: Range, digits: int = 0) -> str:
    """Returns the least and the most of an amount, once where they are alike."""
    return " to ".join(dict.fromkeys(f"{number:,.{digits}f}" for number in span))
