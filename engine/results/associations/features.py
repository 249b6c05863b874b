"""What can go with one of two sides: the words and phrases of conversations, and how strongly features go with a side.

A phrase is two or three words with nothing but white space between them. A word begins with a letter; of a script
without spaces each character is one. Of a long message both ends are read, as by the probe on words.

Mantel and Haenszel (1959, J. Natl. Cancer Inst. 22) give one odds ratio over all strata, Robins, Breslow and Greenland
(1986, Biometrics 42) the variance of its logarithm. Half a conversation in each cell of a stratum of its own keeps both
finite (after Haldane 1956, Ann. Hum. Genet. 20). The deviance of even odds (Dunning 1993, Comput. Linguist. 19) says
whether a ratio is chance, corrected for the number of tests by Benjamini and Hochberg (1995, J. R. Stat. Soc. B 57).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from typing import NamedTuple, get_args

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.conversation import Role
from engine.base.statistics.ranking import p_two_sided
from engine.base.text import CJK
from engine.completeness.words import END_LENGTH
from engine.goals.labels.word_kinds import (
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    PREPOSITIONS,
    PRONOUNS,
)
from engine.results.associations.records import Place, Speaker, WordFeature

MAX_WORDS = 3
"""Most words of a phrase."""

_GAP = " … "
"""Stands for what is not read of a long message; no phrase crosses it."""

_TOKEN = re.compile(rf"[{CJK}]|[^\W\d_{CJK}][^\W{CJK}]*(?:['’][^\W\d_{CJK}]+)?|[\d_]\w*|[^\w\s]+")
"""Matches a word, a number or signs; the latter two end a phrase."""

_APOSTROPHE = re.compile("['’]")
"""Matches what stands between the words of a contraction."""

_JOINED = re.compile(rf"(?<=[{CJK}]) (?=[{CJK}])")
"""Matches the space between two words of a script without spaces."""

_BREAK = 0
"""Number of all tokens that are no word."""

_SPEAKERS: tuple[Speaker, ...] = get_args(Speaker)
_SPEAKER_NUMBERS: dict[Role, int] = {
    "system": 0,
    "developer": 0,
    **{speaker: number for number, speaker in enumerate(_SPEAKERS)},
}
"""Index in `_SPEAKERS` of who speaks in a message of each role."""

_FUNCTION_WORDS = (PRONOUNS | DETERMINERS | AUXILIARIES | PREPOSITIONS | CONJUNCTIONS) - {"cannot"}
"""Words of which a phrase needs at least one other to be a feature; "cannot" says something alone."""


class Incidence(NamedTuple):
    """Which conversations have which features.

    Attributes:
        feature, row: Index of a feature and of a conversation that has it, each pair once, the features rising; both of
            shape (pairs,).
    """

    feature: Ints
    row: Ints

    def rows_of(self, feature: int) -> Ints:
        """Returns the conversations that have a feature."""
        low, high = np.searchsorted(self.feature, [feature, feature + 1])
        return self.row[low:high]


class _Vocabulary(dict[str, int]):
    """Numbers words in the order in which they come, from 1; every other token is `_BREAK`."""

    def __init__(self) -> None:
        super().__init__()
        self.words = [""]

    def __missing__(self, token: str) -> int:
        number = _BREAK
        if token[0].isalpha():
            number = len(self.words)
            self.words.append(token)
        self[token] = number
        return number


class _Tokens(NamedTuple):
    """The tokens of all messages; a token `_BREAK` ends each message.

    Attributes:
        words: The words by number.
        token: Number of the word at each token, shape (tokens,).
        message: Index of the message of each token, of the same shape.
        speech: A number for each conversation and speaker, by message: the index of the conversation times the number
            of speakers, plus that of the speaker; shape (messages,).
    """

    words: list[str]
    token: Ints
    message: Ints
    speech: Ints


class _Phrases(NamedTuple):
    """Phrases of one length.

    Attributes:
        start: Index of the token at which each occurrence begins, shape (occurrences,), rising.
        number: Number of its phrase, of the same shape.
        texts: The phrases by number.
    """

    start: Ints
    number: Ints
    texts: list[str]


def word_features(
    messages: Iterable[tuple[int, Role, str]], conversations: int, min_count: int
) -> tuple[list[WordFeature], Incidence]:
    """Returns the words and phrases that are features, and which conversations have them.

    At least `min_count` conversations have a feature, and at least as many do not. A phrase of function words alone,
    such as "to the" or "i'm", is no feature. The first message counts as a place for users only, the last message for
    all but the system.

    Args:
        messages: Index of the conversation, role and text of each message, conversation after conversation.
        conversations: Number of conversations.
    """
    vocabulary, token, message, speech = _read_tokens(messages)
    speaker_of = speech % len(_SPEAKERS)
    messages_in: dict[Place, Bools] = {
        "anywhere": np.ones(len(speech), bool),
        "first": _is_first(speech) & (speaker_of == _SPEAKER_NUMBERS["user"]),
        "last": _is_first(speech[::-1])[::-1] & (speaker_of != _SPEAKER_NUMBERS["system"]),
    }

    is_frequent = np.bincount(token, minlength=len(vocabulary)) >= min_count
    is_frequent[_BREAK] = False
    words = [vocabulary[number] for number in np.flatnonzero(is_frequent)]
    word = np.where(is_frequent, np.cumsum(is_frequent) - 1, -1)[token]
    start = np.flatnonzero(word >= 0)
    phrases = _Phrases(start, word[start], words)
    features: list[WordFeature] = []
    incidences: list[Incidence] = []
    for length in range(1, MAX_WORDS + 1):
        if length > 1:
            phrases = _lengthen(phrases, length - 1, word, words, min_count)
        has_content = np.array(
            [not all(map(_is_function_word, text.split())) for text in phrases.texts],
            bool,
        )
        for place, is_in_place in messages_in.items():
            counted = is_in_place[message[phrases.start]] & has_content[phrases.number]
            incidence, kinds = _select_eligible(
                phrases.number[counted],
                speech[message[phrases.start[counted]]],
                len(phrases.texts),
                conversations,
                min_count,
            )
            incidences.append(incidence._replace(feature=incidence.feature + len(features)))
            for kind in kinds:
                phrase, speaker = divmod(kind, len(_SPEAKERS))
                text = _JOINED.sub("", phrases.texts[phrase])
                features.append(WordFeature(_SPEAKERS[speaker], place, text))
    return features, join_incidences(incidences)


def _is_function_word(word: str) -> bool:
    """Returns whether a word only joins others; a contraction such as "i'm" is its first word."""
    return _APOSTROPHE.split(word)[0] in _FUNCTION_WORDS


def _read_tokens(messages: Iterable[tuple[int, Role, str]]) -> _Tokens:
    """Returns the tokens of messages; arguments as in `word_features`."""
    vocabulary = _Vocabulary()
    number_of = vocabulary.__getitem__
    tokens, sizes, speeches = array("q"), array("q"), array("q")
    for row, role, text in messages:
        read = (
            text if len(text) <= 2 * END_LENGTH else text[:END_LENGTH] + _GAP + text[-END_LENGTH:]
        )
        message_tokens = _TOKEN.findall(read.lower())
        tokens.extend(map(number_of, message_tokens))
        tokens.append(_BREAK)
        sizes.append(len(message_tokens) + 1)
        speeches.append(row * len(_SPEAKERS) + _SPEAKER_NUMBERS[role])
    speech = np.asarray(speeches, np.int64)
    message = np.repeat(np.arange(len(speech)), np.asarray(sizes, np.int64))
    return _Tokens(vocabulary.words, np.asarray(tokens, np.int64), message, speech)


def _select_eligible(
    phrase: Ints, speech: Ints, phrases: int, conversations: int, min_count: int
) -> tuple[Incidence, list[int]]:
    """Returns which conversations have the features of one place, counted from 0, and the kind of each feature.

    A kind is a phrase from the mouth of one speaker: the number of the phrase times the number of speakers, plus that
    of the speaker. It is a feature if enough conversations have it, and enough do not.

    Args:
        phrase: Number of the phrase of each occurrence, shape (occurrences,).
        speech: Conversation and speaker of each occurrence as in `_Tokens`, of the same shape.
        phrases: Number of phrases.
    """
    row, speaker = np.divmod(speech, len(_SPEAKERS))
    keys = (phrase * len(_SPEAKERS) + speaker) * conversations + row
    keys.sort()  # much quicker than `np.unique`
    kind, row = np.divmod(keys[np.diff(keys, prepend=-1) > 0], conversations)
    counts = np.bincount(kind, minlength=phrases * len(_SPEAKERS))
    is_feature = (counts >= min_count) & (counts <= conversations - min_count)
    feature_of_kind = np.cumsum(is_feature) - 1
    chosen = is_feature[kind]
    incidence = Incidence(feature_of_kind[kind[chosen]], row[chosen])
    return incidence, np.flatnonzero(is_feature).tolist()


def _is_first(speech: Ints) -> Bools:
    """Returns whether each message is the first of its speaker in its conversation, shape (messages,).

    Args:
        speech: A number for each conversation and speaker, of the same shape.
    """
    is_first = np.zeros(len(speech), bool)
    is_first[np.unique(speech, return_index=True)[1]] = True
    return is_first


def join_incidences(incidences: Iterable[Incidence]) -> Incidence:
    """Returns several incidences, at least one, as one; the features of a later one have higher numbers."""
    feature, row = zip(*incidences, strict=True)
    return Incidence(np.concatenate(feature), np.concatenate(row))


def _lengthen(
    phrases: _Phrases, length: int, word: Ints, words: list[str], min_count: int
) -> _Phrases:
    """Returns the frequent phrases of one word more.

    Args:
        phrases: The frequent ones of `length` words.
        word: Number of the frequent word at each token, -1 for another token; shape (tokens,).
        words: The frequent words by number.
    """
    # a message ends with a break, so that a token follows each phrase
    following = word[phrases.start + length]
    goes_on = following >= 0
    keys = phrases.number[goes_on] * len(words) + following[goes_on]
    unique, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    is_frequent = counts >= min_count
    chosen = is_frequent[number]
    pairs = (column.tolist() for column in np.divmod(unique[is_frequent], len(words)))
    return _Phrases(
        phrases.start[goes_on][chosen],
        (np.cumsum(is_frequent) - 1)[number[chosen]],
        [f"{phrases.texts[before]} {words[last]}" for before, last in zip(*pairs, strict=True)],
    )


_CELLS = 1 << 20
"""Most cells of a table of features by strata that are computed at once."""

_HALF = 0.5
"""Conversations in each cell of the additional stratum."""


class Odds(NamedTuple):
    """The association of features with the first of two sides; every array has shape (features,).

    Attributes:
        log_ratio: Natural logarithm of the odds ratio; positive where the feature goes with the first side.
        error: Its standard error.
        first_share, second_share: Share of each side that has the feature, over strata with both sides; that of the
            second side is weighted by the strata of the first (direct standardization).
        z: A standard normal statistic of even odds, of the sign of `log_ratio`.
        first, second: Number of conversations with the feature on each side.
    """

    log_ratio: Floats
    error: Floats
    first_share: Floats
    second_share: Floats
    z: Floats
    first: Ints
    second: Ints

    @property
    def p(self) -> Floats:
        """The two-sided p value of even odds for each feature, shape (features,)."""
        return np.array([p_two_sided(value) for value in self.z.tolist()])


def odds_ratios(incidence: Incidence, features: int, is_first: Bools, stratum: Ints) -> Odds:
    """Returns the odds ratios of features within strata.

    Args:
        incidence: Which conversations have which features.
        features: Number of features.
        is_first: Whether each conversation is on the first side, shape (conversations,).
        stratum: Number of its stratum, from 0, of the same shape.
    """
    strata = int(stratum.max(initial=0)) + 1
    first_size = np.bincount(stratum[is_first], minlength=strata)
    size = np.bincount(stratum, minlength=strata)
    mixed = (first_size > 0) & (first_size < size)  # the others say nothing of the odds
    columns = int(mixed.sum())
    column = (np.cumsum(mixed) - 1)[stratum[incidence.row]]
    on_first = is_first[incidence.row]
    figures = [np.empty((5, 0))]
    step = max(1, _CELLS // max(1, columns))
    for begin in range(0, features, step):
        end = min(begin + step, features)
        low, high = np.searchsorted(incidence.feature, [begin, end])
        pairs = low + np.flatnonzero(mixed[stratum[incidence.row[low:high]]])
        cell = (incidence.feature[pairs] - begin) * columns + column[pairs]
        both, have = (
            np.bincount(cells, minlength=(end - begin) * columns).reshape(end - begin, columns)
            for cells in (cell[on_first[pairs]], cell)
        )
        figures.append(_odds_figures(both, have, first_size[mixed], size[mixed]))
    first = np.bincount(incidence.feature[on_first], minlength=features)
    second = np.bincount(incidence.feature, minlength=features) - first
    log_ratio, error, first_share, second_share, z = np.concatenate(figures, axis=1)
    return Odds(log_ratio, error, first_share, second_share, z, first, second)


def _odds_figures(both: Ints, have: Ints, first_size: Ints, size: Ints) -> Floats:
    """Returns the logarithms of Mantel-Haenszel odds ratios, their standard errors, the shares of both sides, and the
    statistics of even odds; shape (5, features).

    The names of Robins, Breslow and Greenland are P for `agree`, Q for `differ`, R for `for_first`, S for `for_second`,
    each by stratum. The variance is sum(PR) / 2R^2 + sum(PS + QR) / 2RS + sum(QS) / 2S^2, where R and S alone are sums.

    Args:
        both: Conversations of the first side with the feature, shape (features, strata).
        have: Conversations with the feature, of the same shape.
        first_size, size: Conversations of the first side and of both, shape (strata,).
    """
    for_first = both * (size - first_size - have + both) / size
    for_second = (have - both) * (first_size - both) / size
    agree = (both + (size - first_size - have + both)) / size
    differ = 1 - agree
    # R and S of the additional stratum: the product of two opposite cells, divided by the size of the stratum.
    extra = _HALF * _HALF / (4 * _HALF)
    first_sum = for_first.sum(axis=1) + extra
    second_sum = for_second.sum(axis=1) + extra
    # In the additional stratum P and Q are a half each.
    variance = (
        ((agree * for_first).sum(axis=1) + _HALF * extra) / (2 * first_sum**2)
        + ((agree * for_second + differ * for_first).sum(axis=1) + extra)
        / (2 * first_sum * second_sum)
        + ((differ * for_second).sum(axis=1) + _HALF * extra) / (2 * second_sum**2)
    )
    weights = first_size / max(1, first_size.sum())
    first_share = (both / first_size) @ weights
    second_share = ((have - both) / (size - first_size)) @ weights
    log_ratio, error = np.log(first_sum / second_sum), np.sqrt(variance)
    return np.stack(
        [
            log_ratio,
            error,
            first_share,
            second_share,
            _signed_deviance(both, have, first_size, size),
        ]
    )


def _signed_deviance(both: Ints, have: Ints, first_size: Ints, size: Ints) -> Floats:
    """Returns the signed root of the deviance of even odds, shape (features,); arguments as in `_odds_figures`.

    Under even odds the number in each cell is a sum of hypergeometric numbers. The deviance is that of the binomial
    distribution with the same mean and variance, for the cell with the least mean, with half a conversation as
    correction for continuity. Unlike the logarithm in standard errors it holds where a cell is nearly empty.
    """
    means = have @ (first_size / size)
    spread = first_size * (size - first_size) / (size**2 * (size - 1))
    variance = (have * (size - have)) @ spread
    observed, totals = both.sum(axis=1), have.sum(axis=1)
    firsts, seconds = first_size.sum(), (size - first_size).sum()

    def cells_of_first(first: Floats | Ints) -> Floats:
        """Returns the four cells of each table, shape (4, features), from the first one."""
        second = totals - first
        return np.stack([first, second, firsts - first, seconds - second]).astype(float)

    expected = cells_of_first(means)
    least = expected.argmin(axis=0), np.arange(len(have))
    mean, count = expected[least], cells_of_first(observed)[least]
    varies = variance > 0
    # Any numbers keep the tables without a variance free of divisions by 0; their statistic is 0.
    mean, variance = np.where(varies, mean, 1.0), np.where(varies, variance, 0.5)
    # A binomial distribution of n trials has the variance mean * (1 - mean / n), so n follows from mean and variance.
    trials = mean / (1 - variance / mean)
    # The count moves half a conversation toward its mean, but not past it.
    nearer = mean + np.sign(count - mean) * np.maximum(0, np.abs(count - mean) - _HALF)
    nearer = nearer.clip(0, trials)
    deviance = _times_log(nearer, nearer / mean) + _times_log(
        trials - nearer, (trials - nearer) / (trials - mean)
    )
    return np.where(varies, np.sign(observed - means) * np.sqrt(2 * deviance.clip(min=0)), 0.0)


def _times_log(x: Floats, ratio: Floats) -> Floats:
    """Returns x ln(ratio), 0 where x is 0."""
    return x * np.log(np.where(x > 0, ratio, 1.0))


def adjust_p_values(p: Floats) -> Floats:
    """Returns p values corrected by Benjamini and Hochberg for all of them, shape (tests,)."""
    order = np.argsort(p)
    ratios = p[order] * len(p) / np.arange(1, len(p) + 1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum.accumulate(ratios[::-1])[::-1].clip(max=1)
    return corrected


def group_near_equal(
    incidence: Incidence, order: Ints, conversations: int, overlap: float
) -> list[Ints]:
    """Returns groups of features that nearly the same conversations have, each by its first feature.

    A feature joins the first group whose first feature has a Jaccard similarity of at least `overlap` with it.

    Args:
        incidence: Which conversations have which features.
        order: The features to group, shape (features,); the earlier one stands for a group.
    """
    place = np.full(int(incidence.feature.max(initial=-1)) + 1, -1)
    place[order] = np.arange(len(order))
    chosen = place[incidence.feature] >= 0
    has = np.zeros((len(order), conversations), bool)
    has[place[incidence.feature[chosen]], incidence.row[chosen]] = True
    sizes = has.sum(axis=1)
    left = np.arange(len(order))
    groups = []
    while len(left):
        head = left[0]
        shared = has[left][:, has[head]].sum(axis=1)
        near = shared >= overlap * (sizes[left] + sizes[head] - shared)
        groups.append(order[left[near]])
        left = left[~near]
    return groups
