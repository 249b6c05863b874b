"""Text that would act, hide or break something if any part of the program took it for more than text."""

from __future__ import annotations

ASK = "\x1b[5n"
"""Asks a terminal for its state. No program here ever writes it, so it betrays a text that was let through."""

MARKUP = {
    "closing markup": "[/foo] a [/] b [/red] [bold",
    "markup action": "[@click=app.bell]press[/] [@click='app.quit']x[/]",
    "markup colour": "[red]gone?[/red] [link=https://example.org]l[/link] $text-muted [$primary]",
    "markdown": "# [x](javascript:1) ![i](file:///etc/passwd) <b onclick=x>`\n```\n| a |\n|---|",
}
CONTROLS = {
    "clipboard": "a\x1b]52;c;ZXZpbA==\x07b\x1b]52;p;ZXZpbA==\x1b\\c",
    "terminal link": "\x1b]8;;https://example.org/\x1b\\here\x1b]8;;\x1b\\",
    "title and colours": "\x1b]0;evil\x07\x1b]2;evil\x07\x1b]4;1;red\x07\x1b]10;?\x07\x1b]1337;File=:AA\x07",
    "clear screen": "a\x1b[2J\x1b[H\x1b[3J\x1b[?1049lb\x1b[1;1Hc",
    "colours and cursor": "\x1b[31;5mred\x1b[10Aup\x1b[99;99Hfar\x1b[6nwhere\x1b[c\x1b[>q",
    "device strings": "\x1bPq#0;2;0;0;0~-\x1b\\ \x1b_Gf=100;AA\x1b\\ \x1b^pm\x1b\\ \x1bXsos\x1b\\ \x1bP+q544e\x1b\\",
    "eight-bit controls": "a\x9b2Jb\x9d52;c;x\x9c\x90q\x9c\x9f1\x9c\x9e2\x9c\x98s\x9c\x84\x85\x8dd",
    "charsets": "\x1b(0lqk\x1b)B\x0e\x0f\x1b*B\x1b%@\x1b%G\x1bN\x1bO\x1b~\x1b#8",
    "reset": "\x1bc\x1b[!p\x1b[?7h\x1b[?1003h\x1b[20h\x1b7\x1b8\x1b=\x1b>",
    "cut sequence": "a\x1b",
    "cut clipboard": "b\x1b]52;c;",
    "NUL and friends": "a\x00b\x08\x08c\x0bd\x0ce\x7ff\rg\x1a\x05\x04\x07",
}
LETTERS = {
    "bidi": "a\u202egnp.exe\u202c\u2066x\u2069 \u061cb\u200f\u2067c",
    "zero width": "a\u200bb\u200dc\ufeffd\u2060e\u00adf\u115fg\u3164h\u180ei\U000e0041j",
    "combining flood": "a" + "\u0301\u0489" * 5_000 + "b",
    "other floods": "ก" + "\u0e31" * 900 + "\u1100" + "\u1161" * 900 + "x" + "\u05b0" * 900,
    "lone surrogate": "a\ud800b\udfffc\udc80",
    "wide": "日本語" * 50 + "👩‍👩‍👧‍👦" * 20 + "e\u0301 👍🏽 🇩🇪🇨🇭 ❤️ 1️⃣ ﷽ 𒐫",
    "tabs and lines": "\t\ta\tb\r\nc\rd\n\n\n" + "e\u2028f\u2029g\x85h\x1ci",
    "long word": "W" * 20_000 + "\u00a0" * 200 + "界" * 5_000,
}
PAYLOADS = {
    **MARKUP,
    **{name: text + ASK + text for name, text in CONTROLS.items()},
    **LETTERS,
}
"""Everything, by name."""

NAME = "x\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b5n\u202e[red][@click=app.quit]\x07\n日e\u0301\u0301" + ASK
"""A mixture short enough for the name of a file."""
