"""JSON schemas as the grammars that llama.cpp reads."""

from __future__ import annotations

import json

from llama_cpp.llama_grammar import SchemaConverter

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\r": "\\r", "\n": "\\n"})


def grammar_of(schema: str) -> str:
    """The grammar of a JSON schema, given as text; keys and values are written as themselves, whatever is in them."""
    converter = SchemaConverter(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
    # The binding's own leaves backslashes as they are: a quote in a key or a value ends the literal, and JSON's escapes
    # are taken for the grammar's.
    converter._format_literal = _literal
    converter.visit(converter.resolve_refs(json.loads(schema), "schema"), "")
    return str(converter.format_grammar())


def _literal(literal: str) -> str:
    try:
        text = json.dumps(json.loads(literal), ensure_ascii=False)
    except ValueError:
        text = literal
    return f'"{text.translate(_ESCAPES)}"'
