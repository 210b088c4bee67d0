# SPDX-License-Identifier: Apache-2.0
"""Several answers to one request, and answers that fit a schema."""

import json

COMPLETE, CHAT = "/v1/completions", "/v1/chat/completions"
TURNS = [{"role": "user", "content": "hi"}]


def check_several(server):
    """Answer k has the seed of the request plus k."""
    for path, given, part in (COMPLETE, {"prompt": "the man"}, "text"), (CHAT, {"messages": TURNS}, "message"):
        given = {**given, "max_tokens": 8, "temperature": 1}
        alone = [server.ask(path, **given, seed=5 + k)["choices"][0][part] for k in range(3)]
        several = server.ask(path, **given, seed=5, n=3)
        assert [choice["index"] for choice in several["choices"]] == [0, 1, 2]
        assert [choice[part] for choice in several["choices"]] == alone
        usage = several["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] and usage["completion_tokens"] > 8
        texts, events = ["", "", ""], server.stream(path, **given, seed=5, n=3, stream_options={"include_usage": True})
        for choice in (choice for event in events for choice in event["choices"]):
            texts[choice["index"]] += choice["text"] if path == COMPLETE else choice["delta"].get("content") or ""
        assert texts == [each if path == COMPLETE else each["content"] for each in alone]
        assert events[-1]["usage"]["completion_tokens"] == usage["completion_tokens"]


def fits(value, schema):
    """Whether a value fits the schemas of this test."""
    kind = schema["type"]
    if kind == "object":
        known = schema.get("properties", {})
        return isinstance(value, dict) and (not known or (set(schema["required"]) <= set(value) <= set(known) and all(
            fits(each, known[name]) for name, each in value.items())))  # fmt: skip
    if kind == "array":
        return isinstance(value, list) and len(value) <= schema["maxItems"] and all(fits(each, schema["items"]) for each in value)
    kinds = {"string": str, "integer": int, "boolean": bool, "null": type(None)}
    return type(value) is kinds[kind] and (kind != "string" or len(value) <= schema.get("maxLength", 1000))


def check_formats(server):
    """A model of random weights writes JSON of the schema, unless the answer is cut."""
    point = {"type": "object", "required": ["y"], "additionalProperties": False,
             "properties": {"y": {"type": "integer"}, "name": {"type": "string", "maxLength": 3}}}  # fmt: skip
    schemas = [
        {"type": "object", "required": ["points"], "properties": {"points": {"type": "array", "maxItems": 2, "items": point}}},
        {"type": "object", "required": ["b", "a"], "properties": {"b": {"type": "boolean"}, "a": {"type": "null"}}},
        {"type": "object"},
    ]
    whole = 0
    for schema in schemas:
        asked = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}
        asked = asked if "properties" in schema else {"type": "json_object"}
        for seed in range(12):
            reply = server.ask(CHAT, messages=TURNS, response_format=asked, seed=seed, temperature=1.5, max_tokens=100)["choices"][0]
            text = reply["message"]["content"]
            assert text.startswith("{"), text
            if reply["finish_reason"] == "stop":
                whole += 1
                value = json.loads(text)
                assert fits(value, schema), text
                assert list(value) == [name for name in schema.get("properties", value) if name in value]  # in the schema's order
    assert whole > 8, whole
