"""Conversations written in the template of a chat model: ChatML, Llama, Gemma, Mistral, Alpaca and others.

A template is known by its own marks, of which each begins a turn. What stands before the first turn is the `preamble`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.formats.messages.roles import role_named

_ENDS = (
    r"(?:<s>|</s>|<bos>|<eos>|<end_of_turn>|\[gMASK\]|<sop>|<｜(?:begin|end)▁of▁sentence｜>"
    r"|<\|(?:im_end|eot_id|eom_id|end_of_text|begin_of_text|end|endoftext|end_of_turn|return|call)\|>"
    r"|<BOS_TOKEN>|<\|END_OF_TURN_TOKEN\|>)"
)
"""Matches a token that begins or ends a text or a turn; it says nothing."""
_AT_THE_EDGES = re.compile(rf"\A(?:\s*{_ENDS})+|(?:{_ENDS}\s*)+\Z")
"""Matches such tokens at the beginning and at the end of a turn."""

_SIDES = {"instruction": "user", "input": "user", "response": "assistant", "output": "assistant"}
"""Words of Alpaca, and who speaks after them."""


class Template(NamedTuple):
    """The template of a chat model.

    Attributes:
        name: What it is called in records.
        head: Matches the head of a turn; the group `speaker` is its word for who speaks, `about` may say more.
        speakers: The words that are not understood by themselves, in small letters, and the usual ones for them.
    """

    name: str
    head: re.Pattern[str]
    speakers: Mapping[str, str] = {}

    def _speaker(self, head: re.Match[str]) -> str:
        """Returns the usual word for who speaks after a head."""
        word = head["speaker"].strip()
        return self.speakers.get(word.lower(), word)

    def fits(self, text: str) -> bool:
        """Returns whether at least two speak in a text."""
        return len({self._speaker(head) for head in self.head.finditer(text)}) > 1

    def read(self, text: str) -> dict[str, Any]:
        """Returns the record of a text: its messages, each with speaker and content, and its preamble.

        A head that goes on with the same speaker under another word, as `Input` after `Instruction`, begins no message;
        nor does one of a usual speaker without text, as it stands at the end for the answer of a model.
        """
        heads = list(self.head.finditer(text))
        ends = [*(head.start() for head in heads[1:]), len(text)]
        messages: list[dict[str, Any]] = []
        last_word = ""
        for head, end in zip(heads, ends, strict=True):
            content = _AT_THE_EDGES.sub("", text[head.end() : end].strip()).strip()
            speaker = self._speaker(head)
            if not content and (speaker in self.speakers.values() or role_named(speaker)):
                continue
            if messages and messages[-1]["speaker"] == speaker and last_word != head["speaker"]:
                messages[-1]["content"] += "\n" + content
            else:
                about = {"about": word} if (word := head.groupdict().get("about")) else {}
                messages.append({"speaker": speaker, "content": content, **about})
            last_word = head["speaker"]
        before = _AT_THE_EDGES.sub("", text[: heads[0].start()].strip()).strip()
        return {"messages": messages, **({"preamble": before} if before else {})}


TEMPLATES = (
    Template("ChatML", re.compile(r"<\|im_start\|>(?P<speaker>[^\n|<]{1,40})(?:\n|<\|im_sep\|>)")),
    Template(
        "Llama 3",
        re.compile(r"<\|start_header_id\|>(?P<speaker>[^\n|<]{1,40})<\|end_header_id\|>\n*"),
    ),
    Template("Gemma", re.compile(r"<start_of_turn>(?P<speaker>[^\n<]{1,40})\n")),
    Template(
        "Granite", re.compile(r"<\|start_of_role\|>(?P<speaker>[^\n|<]{1,40})<\|end_of_role\|>")
    ),
    Template(
        "Harmony",
        re.compile(
            r"<\|start\|>(?P<speaker>[^\n|<]{1,40})(?:<\|channel\|>(?P<about>[^<]{1,80}))?"
            r"(?:<\|constrain\|>\w+)?<\|message\|>"
        ),
    ),
    Template(
        "Command",
        re.compile(
            r"<\|START_OF_TURN_TOKEN\|><\|(?P<speaker>USER|CHATBOT|SYSTEM)_TOKEN\|>(?:<\|START_RESPONSE\|>)?"
        ),
    ),
    Template("DeepSeek", re.compile(r"<｜(?P<speaker>User|Assistant)｜>")),
    Template(
        "Mistral",
        re.compile(r"(?P<speaker>\[/?INST\]|\[/?SYSTEM_PROMPT\]|<</?SYS>>|\[/?TOOL_RESULTS\])"),
        {
            "[inst]": "user",
            "[/inst]": "assistant",
            "<<sys>>": "system",
            "<</sys>>": "user",
            "[system_prompt]": "system",
            "[/system_prompt]": "user",
            "[tool_results]": "tool",
            "[/tool_results]": "assistant",
        },
    ),
    Template(
        "Zephyr",
        re.compile(
            r"<\|(?P<speaker>system|user|assistant|tool|observation|prompter|prompt|answer)\|>\n?"
        ),
        {"prompt": "user", "answer": "assistant"},
    ),
    Template(
        "Alpaca",
        re.compile(r"^###[ ]*(?P<speaker>Instruction|Input|Response|Output):[ \t]*\n?", re.M),
        _SIDES,
    ),
    Template(
        "Guanaco", re.compile(r"###[ ]*(?P<speaker>Human|User|Assistant|System):[ \t]*", re.I)
    ),
    Template("OpenChat", re.compile(r"GPT4 Correct (?P<speaker>User|Assistant):[ \t]*")),
    Template(
        "Vicuna", re.compile(r"(?:\A|(?<=\s)|(?<=</s>))(?P<speaker>USER|ASSISTANT):(?=\s|\Z)")
    ),
)
"""The templates, in the order in which they are tried."""
