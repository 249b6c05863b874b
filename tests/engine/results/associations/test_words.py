"""The words and phrases of made-up conversations, by who says them and where."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.conversation import Role
from engine.results.associations.features import word_features
from engine.results.associations.records import WordFeature

Talk = Sequence[tuple[Role, str]]


def features_of(talks: Sequence[Talk], min_count: int = 1) -> dict[WordFeature, list[int]]:
    """The features of some conversations, each with those that have it."""
    messages = [(row, role, text) for row, talk in enumerate(talks) for role, text in talk]
    features, incidence = word_features(messages, len(talks), min_count)
    return {feature: incidence.rows_of(number).tolist() for number, feature in enumerate(features)}


OTHER: Talk = [("user", "Hello"), ("assistant", "Bye")]


class TestWords:
    def test_a_function_word_alone_is_no_feature(self) -> None:
        """Nor is a contraction of one; in a phrase with another word it counts."""
        features = features_of([[("user", "I'm sorry"), ("assistant", "ok")], OTHER])
        texts = {feature.text for feature in features if feature.speaker == "user"}
        assert texts >= {"sorry", "i'm sorry"}
        assert "i'm" not in texts

    def test_a_word_counts_apart_for_each_speaker(self) -> None:
        """The same word of the user and of a tool are two features."""
        features = features_of(
            [[("user", "Refund"), ("tool", "no refund")], [("tool", "refund")], OTHER]
        )
        assert features[WordFeature("user", "anywhere", "refund")] == [0]
        assert features[WordFeature("tool", "anywhere", "refund")] == [0, 1]

    def test_the_users_first_and_everybodys_last_message_are_places(self) -> None:
        """A word of the second message of the user is in the last one, not in the first."""
        talk: Talk = [
            ("user", "book it"),
            ("assistant", "done"),
            ("user", "cancel"),
            ("assistant", "ok"),
        ]
        features = features_of([talk, OTHER])
        assert WordFeature("user", "last", "cancel") in features
        assert WordFeature("user", "first", "book") in features
        assert WordFeature("user", "first", "cancel") not in features
        assert WordFeature("assistant", "last", "done") not in features
        assert WordFeature("assistant", "first", "done") not in features

    def test_a_phrase_has_only_white_space_within(self) -> None:
        """Two or three neighbors are a phrase; over a sign, a number or the border of messages there is none."""
        talk: Talk = [("user", "please stop\nnow. Cancel 3 flights"), ("user", "today")]
        texts = {
            feature.text for feature in features_of([talk, OTHER]) if feature.place == "anywhere"
        }
        assert {"please stop", "stop now", "please stop now"} <= texts
        assert not texts & {"now cancel", "cancel flights", "flights today"}

    def test_a_script_without_spaces_has_pairs_of_characters(self) -> None:
        """Each character is a word; phrases are written without spaces."""
        texts = {feature.text for feature in features_of([[("user", "请退款")], OTHER])}
        assert {"退", "退款", "请退款"} <= texts
