#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chat_server_test.py --server PROGRAM --generate PROGRAM --make-model PROGRAM --work DIR: samples/chat_server answers as hg-generate does,
refuses what it does not support, and keeps running whatever its clients do. Uses the client `openai` if Python has it."""
import argparse
import http.client
import json
import random
import subprocess
from pathlib import Path

from chat_client import CHAT, COMPLETE, SAMPLING, Generate, Server, events, same, text_of
from chat_formats import check_formats, check_several
from chat_load import check_end, check_joined, check_many, check_vanished
from embeddings import check_embeddings
from openai_client import check_openai

SPELLED = "é日😀 ok\n"  # what the model `count` writes first: one byte per token, none twice
SPECIAL = ["<|user|>", "<|assistant|>", "<|end|>"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_characters():
    """The characters that stand for bytes in vocabularies of byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def tokenizer():
    """Byte-level BPE: all bytes, first those of SPELLED in order, two merges, special tokens."""
    of = byte_characters()
    first = list(SPELLED.encode())
    assert len(set(first)) == len(first)
    pieces = [of[b] for b in first + [b for b in range(256) if b not in first]] + ["th", "the"]
    added = [{"id": len(pieces) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in enumerate(SPECIAL)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": level,
            "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "vocab": {p: i for i, p in enumerate(pieces)},
                      "merges": [["t", "h"], ["th", "e"]]}}


def check_answers(server, generate):
    for prompt in "the man", "é日", "a", "<|user|>hi":
        for options, given in SAMPLING:
            expected = generate("--prompt", prompt, "--max-tokens=20", *given)
            same(server.ask(COMPLETE, prompt=prompt, max_tokens=20, **options), expected)
            parts = server.stream(COMPLETE, prompt=prompt, max_tokens=20, **options)
            assert text_of(parts, COMPLETE) == expected["text"] and parts[-1]["choices"][0]["finish_reason"] == expected["finish"]
    expected = generate("--ids=5,17,3", "--max-tokens=16")  # OpenAI's default is 16 tokens
    for prompt in [5, 17, 3], [[5, 17, 3]]:
        answer = server.ask(COMPLETE, prompt=prompt, temperature=0)
        assert answer["usage"]["completion_tokens"] == len(expected["ids"]) and answer["object"] == "text_completion", answer
    same(server.ask(COMPLETE, prompt=["the man"], max_tokens=5, temperature=0, stop=None), generate("--prompt=the man", "--max-tokens=5"))
    assert server.ask(COMPLETE, prompt="a", max_tokens=0)["choices"][0] == {
        "index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
    # Without a seed, answers differ.
    assert len({server.ask(COMPLETE, prompt="the man", temperature=1.5)["choices"][0]["text"] for _ in range(8)}) > 1


def check_chat(server, generate):
    turns = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]
    for options, given in SAMPLING:
        expected = generate("--chat", "--system=be kind", "--prompt=hello", "--max-tokens=20", *given)
        answer = server.ask(CHAT, messages=turns, max_completion_tokens=20, **options)
        same(answer, expected)
        assert answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-") and answer["model"] == "m", answer
        parts = server.stream(CHAT, messages=turns, max_tokens=20, stream_options={"include_usage": True}, **options)
        assert text_of(parts, CHAT) == expected["text"] and len({p["id"] for p in parts}) == 1
        assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""} and parts[0]["object"] == "chat.completion.chunk"
        assert all(p["usage"] is None for p in parts[:-1]) and parts[-1]["choices"] == []
        assert parts[-1]["usage"]["completion_tokens"] == expected["tokens"], parts[-1]
        assert parts[-2]["choices"][0]["finish_reason"] == expected["finish"] and parts[-2]["choices"][0]["delta"] == {}
    # The same conversation in other forms.
    expected = generate("--chat", "--system=be kind", "--prompt=hello", "--max-tokens=9")
    pieces = [{"type": "text", "text": "be"}, {"type": "text", "text": "kind"}]
    lines = server.ask(CHAT, messages=[{"role": "developer", "content": pieces}, turns[1]], max_tokens=9, temperature=0)
    same(lines, generate("--chat", "--system=be\nkind", "--prompt=hello", "--max-tokens=9"))
    answer = server.ask(CHAT, messages=turns, max_tokens=9, temperature=0)
    same(answer, expected)
    # The next turn reads only what is new, and its answer is that of the whole prompt.
    more = [*turns, answer["choices"][0]["message"], {"role": "user", "content": "more"}]
    second = server.ask(CHAT, messages=more, max_tokens=9, temperature=0)
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= answer["usage"]["prompt_tokens"] - 1, second
    server.ask(CHAT, messages=[{"role": "user", "content": "another text"}], max_tokens=9)
    third = server.ask(CHAT, messages=more, max_tokens=9, temperature=0)
    assert third["choices"] == second["choices"] and third["usage"]["prompt_tokens_details"]["cached_tokens"] < 10, third


def check_stops(server, generate):
    whole = generate("--prompt=the man", "--max-tokens=40")["text"]
    for begin in range(0, len(whole) - 4, 3):
        for size in 1, 2, 4:
            stop = whole[begin:begin + size]
            if "\ufffd" in stop or "\0" in stop:
                continue
            expected = generate("--prompt=the man", "--max-tokens=40", f"--stop={stop}")
            same(server.ask(COMPLETE, prompt="the man", max_tokens=40, temperature=0, stop=stop), expected)
            parts = server.stream(COMPLETE, prompt="the man", max_tokens=40, temperature=0, stop=["\x00never", stop])
            assert text_of(parts, COMPLETE) == expected["text"] == whole[:whole.find(stop)]
            assert parts[-1]["choices"][0]["finish_reason"] == "stop"
    special = generate("--prompt=the man", "--max-tokens=60", "--temperature=2", "--seed=5", "--stop=<|end|>")
    same(server.ask(COMPLETE, prompt="the man", max_tokens=60, temperature=2, seed=5, stop="<|end|>"), special)


def check_log_probabilities(server, generate):
    expected = generate("--prompt=the man", "--max-tokens=12", "--temperature=1.25", "--seed=2")
    ask = {"max_tokens": 12, "temperature": 1.25, "seed": 2}
    for top in 0, 3:
        answer = server.ask(COMPLETE, prompt="the man", logprobs=top, **ask)
        same(answer, expected)
        told = answer["choices"][0]["logprobs"]
        assert near(told["token_logprobs"], expected["log_probabilities"]), (told, expected)
        assert told["text_offset"][0] == 0 and len(told["text_offset"]) == len(told["tokens"]) == expected["tokens"]
        if top == 0:
            assert told["top_logprobs"] is None
        else:
            assert all(1 <= len(t) <= 4 and max(t.values()) >= v - 1e-5 for t, v in zip(told["top_logprobs"], told["token_logprobs"]))
        parts = server.stream(COMPLETE, prompt="the man", logprobs=top, **ask)
        rows = [p["choices"][0]["logprobs"] for p in parts]
        assert near([x for r in rows if r for x in r["token_logprobs"]], expected["log_probabilities"])
    turns = [{"role": "user", "content": "hi"}]
    expected = generate("--chat", "--prompt=hi", "--max-tokens=12")
    answer = server.ask(CHAT, messages=turns, max_tokens=12, temperature=0, logprobs=True, top_logprobs=2)
    content = answer["choices"][0]["logprobs"]["content"]
    assert near([t["logprob"] for t in content], expected["log_probabilities"])
    for token in content:  # greedy: the first alternative is the token
        assert len(token["top_logprobs"]) == 2 and token["top_logprobs"][0]["logprob"] == token["logprob"], token
        assert token["top_logprobs"][0]["token"] == token["token"] and token["top_logprobs"][1]["logprob"] <= token["logprob"]
        assert token["bytes"] == (None if "\ufffd" in token["token"] else list(token["token"].encode()))
    assert "\ufffd" in answer["choices"][0]["message"]["content"] or "".join(
        t["token"] for t in content) == answer["choices"][0]["message"]["content"]


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) < 1e-4 for x, y in zip(a, b))


def check_changed_logits(server):
    """On the model `count`: after the id i, i + 1 has a logit of 4, and all others have 0."""
    ask = {"prompt": [0], "temperature": 0, "max_tokens": 6, "logprobs": 0}

    def tokens(**more):
        return server.ask(COMPLETE, **{**ask, **more})["choices"][0]["logprobs"]["tokens"]

    assert tokens(logit_bias={"256": 100}) == ["th"] * 6
    # "th" has 5, and after it "the" has 4.
    assert tokens(logit_bias={"256": 5}) == ["th"] * 6
    assert tokens(logit_bias={"256": 5}, presence_penalty=2)[:2] == ["th", "the"]
    assert tokens(logit_bias={"256": 5}, frequency_penalty=0.375)[:4] == ["th", "th", "th", "the"]
    assert tokens(prompt=[9])[:2] == ["o", "k"] and tokens(prompt=[9], logit_bias={"10": -100})[0] == "\ufffd"
    # Probabilities are those of the model.
    plain, biased = (server.ask(COMPLETE, **ask, logit_bias=bias)["choices"][0]["logprobs"]["token_logprobs"] for bias in ({}, {"1": 50}))
    assert plain[0] == biased[0] < 0, (plain, biased)


def check_characters(server):
    """One byte per token: events hold whole characters."""
    first = list(SPELLED.encode())
    parts = server.stream(COMPLETE, prompt=[1], max_tokens=len(first) - 2, temperature=0)
    shown = [p["choices"][0]["text"] for p in parts]
    assert "".join(shown) == SPELLED[1:] and shown[:2] == ["日", "😀"], shown
    cut = server.stream(COMPLETE, prompt=[1], max_tokens=2, temperature=0)  # ends inside a character
    assert text_of(cut, COMPLETE) == "\ufffd", cut
    assert server.ask(COMPLETE, prompt=[1], max_tokens=20, temperature=0, stop="😀")["choices"][0]["text"] == "日"
    assert server.ask(COMPLETE, prompt=[1], max_tokens=20, temperature=0, stop=["k", "日😀 o"])["choices"][0]["text"] == ""


def check_refusals(server):
    turns = [{"role": "user", "content": "hi"}]

    def message(**changes):
        return {"messages": [{"role": "user", "content": "hi", **changes}]}

    text = {"prompt": "hi"}
    wrong = [
        (COMPLETE, {}, "prompt: is missing", "prompt"), (COMPLETE, {"prompt": 5}, "prompt: expected a string", "prompt"),
        (COMPLETE, {"prompt": []}, "has no token ids", "prompt"), (COMPLETE, {"prompt": ["a", "b"]}, "one prompt per request, got 2", "prompt"),
        (COMPLETE, {"prompt": [1, -1]}, "expected token ids", "prompt"), (COMPLETE, {"prompt": [1, "a"]}, "expected token ids", "prompt"),
        (COMPLETE, {"prompt": [999]}, "the id 999, but the model has 261 tokens", "prompt"),
        (COMPLETE, {"prompt": ""}, "the prompt has no tokens", "prompt"), (COMPLETE, {"prompt": {"a": 1}}, "got object", "prompt"),
        (COMPLETE, {**text, "echo": True}, "echo: this server supports only false", "echo"),
        (COMPLETE, {**text, "best_of": 2}, "best_of: this server supports only 1", "best_of"),
        (COMPLETE, {**text, "suffix": "x"}, "suffix", "suffix"), (COMPLETE, {**text, "logprobs": 6}, "from 0 to 5, got 6", "logprobs"),
        (COMPLETE, {**text, "logprobs": True}, "logprobs: expected an integer, got boolean", "logprobs"),
        (COMPLETE, {**text, "messages": turns}, "messages: this server does not know the parameter", "messages"),
        (CHAT, {}, "messages: is missing", "messages"), (CHAT, {"messages": []}, "at least one message", "messages"),
        (CHAT, {"messages": "hi"}, "at least one message", "messages"), (CHAT, {"messages": ["hi"]}, "messages[0]: expected an object", "messages[0]"),
        (CHAT, message(role="robot"), "system, developer, user and assistant", "messages[0].role"),
        (CHAT, message(role=None), "system, developer, user and assistant", "messages[0].role"),
        (CHAT, message(role=["user"]), "expected a string, got array", "messages[0].role"),
        (CHAT, message(content=None), "content: is missing", "messages[0].content"),
        (CHAT, message(content=7), "expected a string or a list of parts", "messages[0].content"),
        (CHAT, message(content=[{"type": "image_url", "image_url": {"url": "x"}}]), "only parts with type", "messages[0].content"),
        (CHAT, message(content=[]), "list of parts", "messages[0].content"),
        (CHAT, message(tool_call_id="x"), "does not know the parameter", "messages[0].tool_call_id"),
        (CHAT, {"messages": [*turns, {"role": "assistant", "content": "", "tool_calls": [{}]}]}, "supports only []", "messages[1].tool_calls"),
        (CHAT, {"messages": [*turns, {"role": "system", "content": "x"}]}, "the template rejects the messages: late", "messages"),
        (CHAT, {"messages": turns, "tools": [{"type": "function"}]}, "tools: this server supports only []", "tools"),
        (CHAT, {"messages": turns, "response_format": {"type": "xml"}}, "expected the type text, json_object or json_schema", "response_format"),
        (CHAT, {"messages": turns, "response_format": {"type": "json_schema"}}, "json_schema needs an object with a schema", "response_format"),
        (CHAT, {"messages": turns, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "string", "pattern": "a"}}}},
         "the keyword 'pattern' is not supported here", "response_format"),
        (CHAT, {"messages": turns, "top_logprobs": 2}, "top_logprobs: needs logprobs", "top_logprobs"),
        (CHAT, {"messages": turns, "logprobs": 2}, "logprobs: expected true or false, got number", "logprobs"),
        (CHAT, {"messages": turns, "max_tokens": 3, "max_completion_tokens": 4}, "is 4, but max_tokens is 3", "max_completion_tokens"),
        (CHAT, {"messages": turns, "reasoning_effort": "high"}, "reasoning_effort: this server does not know", "reasoning_effort"),
        (CHAT, {"messages": turns, "store": True}, "store", "store"),
    ]
    for path, given in (COMPLETE, text), (CHAT, {"messages": turns}):
        for name, value, words in [
            ("temperature", 2.5, "from 0 to 2, got 2.5"), ("temperature", "hot", "expected a number, got string"), ("temperature", -1, "got -1"),
            ("top_p", 1.5, "from 0 to 1"), ("top_k", -1, "from 0 to"), ("min_p", 2, "from 0 to 1"), ("repetition_penalty", 0, "from 0.01"),
            ("seed", 1.5, "expected an integer, got 1.5"), ("seed", 2**63, "expected an integer from"), ("seed", 10**30, "expected an integer"),
            ("max_tokens", -1, "from 0 to 2147483647, got -1"), ("max_tokens", 20.0, "expected an integer"), ("max_tokens", [5], "got array"),
            ("max_tokens", 101, "max_tokens is 101; the limit is 100"), ("n", 0, "from 1 to 128, got 0"), ("n", "1", "expected an integer"),
            ("stream", 1, "stream: expected true or false, got number"), ("stream_options", {"include_usage": True}, "stream_options: needs stream"),
            ("stop", 5, "expected a string or a list"), ("stop", ["a", 5], "expected strings, got number"), ("stop", ["a"] * 5, "at most 4"),
            ("stop", "", "is empty"), ("frequency_penalty", 3, "from -2 to 2"), ("presence_penalty", "a", "got string"),
            ("logit_bias", {"a": 1}, "token ids as names"), ("logit_bias", {"5": 101}, "from -100 to 100"), ("logit_bias", [1], "got array"),
            ("logit_bias", {"5": "a"}, "from -100 to 100"), ("logit_bias", {"999": 1}, "the id 999"), ("logit_bias", {"-1": 1}, "token ids as names"),
            ("frequncy_penalty", 1, "frequncy_penalty: this server does not know the parameter"), ("model", 5, "model: expected a string"),
            ("model", None, "model: expected the name"), ("beam_width", 3, "does not know"),
        ]:
            wrong.append((path, {**given, name: value}, words, name))
        wrong.append((path, {**given, "stream": True, "stream_options": {"x": 1}}, "x: this server does not know", "stream_options"))
        wrong.append((path, {**given, "stream": True, "stream_options": 5}, "expected an object", "stream_options"))
    for path, request, words, param in wrong:
        status, told, _ = server.post(path, **request)
        error = told.get("error", {})
        assert status == 400 and words in error["message"] and error["param"] == param, (path, request, status, told)
        assert error["type"] == "invalid_request_error", told
    # Defaults and null change nothing.
    harmless = {"n": 1, "stop": None, "logit_bias": {}, "user": "me", "metadata": {"a": "b"}, "seed": None, "temperature": None, "stream": False,
                "frequency_penalty": 0, "presence_penalty": 0.0, "stream_options": None, "unheard_of": None}
    server.ask(COMPLETE, **text, **harmless, best_of=1, echo=False, suffix=None, logprobs=None)
    server.ask(CHAT, messages=turns, **harmless, tools=[], tool_choice="none", response_format={"type": "text"}, parallel_tool_calls=True,
               service_tier="auto", modalities=["text"], logprobs=False, top_logprobs=0)
    for request, code in ({"model": "x"}, "model_not_found"),:
        status, told, _ = server.post(COMPLETE, **text, **request)
        assert status == 404 and told["error"]["code"] == code, told
    # Too long.
    for path, request in (COMPLETE, {"prompt": [1] * 401}), (CHAT, {"messages": [{"role": "user", "content": "x" * 500}]}):
        status, told, _ = server.post(path, **request)
        assert status == 400 and told["error"]["code"] == "context_length_exceeded" and "the limit is 400" in told["error"]["message"], told
    status, told, _ = server.post(COMPLETE, prompt=[1] * 390, max_tokens=12)
    assert status == 400 and told["error"]["code"] == "context_length_exceeded", told
    assert server.ask(COMPLETE, prompt=[1] * 390, max_tokens=11, temperature=0)["usage"]["completion_tokens"] == 11
    # A chat without max_tokens gets what is left, and at most --most-tokens.
    assert server.ask(CHAT, messages=turns, temperature=0)["usage"]["completion_tokens"] == 100
    long = server.ask(CHAT, messages=[{"role": "user", "content": "x" * 350}], temperature=0)["usage"]
    assert long["total_tokens"] == 401, long


def check_http(server):
    whole = json.dumps({"model": "m", "prompt": "hi", "max_tokens": 3, "seed": 1, "stop": ["x"], "logit_bias": {"1": 2}}).encode()
    for body in (b"", b"[]", b"{", b"\xff\xfe{}", b"[" * 100000, b'{"model": "m", "prompt": "\xff"}', b'{"model": "m", "prompt": "\\ud800"}',
                 b'{"a":' * 100000 + b"1" + b"}" * 100000):
        for path in COMPLETE, CHAT:
            status, told, _ = server.call("POST", path, body)
            assert status == 400 and json.loads(told)["error"]["type"] == "invalid_request_error", (body[:40], status, told)
    deep = '{"enum": [' + "[" * 100000 + "]" * 100000 + "]}"
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], "response_format": {
        "type": "json_schema", "json_schema": {"name": "n", "schema": "DEEP"}}}).replace('"DEEP"', deep)
    assert server.call("POST", CHAT, body)[0] == 400
    for name in "prompt", "stop", "logit_bias", "messages", "metadata", "n", "response_format":  # deeper than a stack
        for left, right in ("[", "]"), ('{"a":', "}"):
            body = whole[:-1] + f', "{name}": '.encode() + left.encode() * 150000 + b"1" + right.encode() * 150000 + b"}"
            for path in COMPLETE, CHAT:
                status, told, _ = server.call("POST", path, body)
                assert status in (200, 400), (name, status, told[:200])
    for method, path, wanted in [("GET", "/v1/models/none", 404), ("GET", COMPLETE, 404), ("POST", "/v1/embeddings", 400), ("POST", "/v1/rerank", 404), ("GET", "/nothing", 404),
                                 ("PUT", CHAT, 404), ("GET", "/" + "a" * 9000, 414)]:
        status, told, _ = server.call(method, path, b"{}" if method == "POST" else None)
        assert status == wanted and json.loads(told)["error"]["message"], (path, status, told)
    status, told, _ = server.call("POST", COMPLETE, whole + b" " * (1 << 20))
    assert status == 413 and json.loads(told)["error"]["message"], told
    status, told, _ = server.call("POST", COMPLETE, iter([b" " * (1 << 20)] * 4))
    assert status == 413 and b"more than 1048576 bytes" in told, told
    status, told, _ = server.call("POST", COMPLETE, whole, {"Content-Type": "multipart/form-data; boundary=x"})
    assert status == 415, told
    for _ in range(200):
        text = bytearray(whole)
        for _ in range(random.randrange(1, 6)):
            text[random.randrange(len(text))] = random.randrange(256)
        status, body, _ = server.call("POST", COMPLETE, bytes(text))
        assert status in (200, 400, 404), (text, status, body)
    # HTTP/1.0 has no chunks.
    ask = json.dumps({"model": "m", "prompt": "hi", "max_tokens": 3, "temperature": 0, "stream": True}).encode()
    old = server.raw(f"POST {COMPLETE} HTTP/1.0\r\nContent-Length: {len(ask)}\r\n\r\n".encode() + ask)
    answer = b""
    while part := old.recv(4096):
        answer += part
    head, body = answer.split(b"\r\n\r\n", 1)
    assert b"200" in head.splitlines()[0] and b"chunked" not in head and len(events(body)) >= 2, answer
    # Connections are kept, after streams too.
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for streams in False, True, False, True:
        connection.request("POST", COMPLETE, json.dumps({"model": "m", "prompt": "hi", "max_tokens": 3, "stream": streams}))
        response = connection.getresponse()
        assert response.status == 200 and len(response.read()) > 20
    connection.close()


def check_starts(program, work, models):
    """Models without the files, and files in options."""
    def fails(words, *options):
        done = subprocess.run([program, "--port=0", *options], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and words in done.stderr, (options, done)

    bare = models["bare"]
    fails("no attachment tokenizer.json", f"m={bare}")
    fails("none.hgm", "none.hgm")
    fails("there are two models 'm'", f"m={models['random']}", f"m={models['count']}")
    fails("none.json", f"m={bare}", "--tokenizer=none.json")
    fails("none.jinja", f"m={models['random']}", "--chat-template=none.jinja")
    fails("at least one session", f"m={models['random']}", "--sessions=0")
    server = Server(program, f"m={bare}", f"--tokenizer={work / 'tokenizer.json'}")
    status, told, _ = server.post(CHAT, messages=[{"role": "user", "content": "hi"}])
    assert status == 400 and told["error"]["code"] == "no_chat_template", told
    assert server.ask(COMPLETE, prompt="hi", max_tokens=3)["usage"]["completion_tokens"] == 3
    server.end()
    (work / "other.jinja").write_text("{% for m in messages %}{{ m.name or 'nobody' }}: {{ m.content }}{% endfor %}")
    server = Server(program, f"a/b={models['random']}", str(models["count"]), f"--chat-template={work / 'other.jinja'}", name="a/b")
    assert [m["id"] for m in server.get("/v1/models")[1]["data"]] == ["a/b", "count"]
    assert server.get("/v1/models/a/b")[1] == {**server.get("/v1/models/a/b")[1], "id": "a/b", "object": "model", "owned_by": "hologram"}
    named = server.ask(CHAT, messages=[{"role": "user", "content": "hi", "name": "al"}], max_tokens=3)
    assert named["usage"]["prompt_tokens"] == len("al: hi") and named["model"] == "a/b", named
    assert server.ask(CHAT, messages=[{"role": "user", "content": "hi"}], max_tokens=3)["usage"]["prompt_tokens"] == len("nobody: hi")
    assert server.post(CHAT, model="count", messages=[{"role": "user", "content": "hi"}], max_tokens=3)[0] == 200
    server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--generate", required=True)
    parser.add_argument("--make-model", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    work = args.work
    work.mkdir(parents=True, exist_ok=True)
    vocabulary = tokenizer()
    words = str(len(vocabulary["model"]["vocab"]) + len(SPECIAL))
    (work / "tokenizer.json").write_text(json.dumps(vocabulary))
    (work / "chat_template.jinja").write_text(TEMPLATE)
    (work / "generation_config.json").write_text(json.dumps({"eos_token_id": int(words) - 1}))
    files = [work / name for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json")]
    models = {name: work / f"{name}.hgm" for name in ("random", "count", "bare")}
    subprocess.run([args.make_model, "random", words, models["random"], *files], check=True)
    subprocess.run([args.make_model, "count", words, models["count"], *files[:2]], check=True)
    subprocess.run([args.make_model, "count", words, models["bare"]], check=True)
    generate = Generate(args.generate, models["random"])
    common = [f"m={models['random']}", f"--most-bytes={1 << 20}", "--most-context=400", "--most-tokens=100", "--read-timeout=1"]
    for sessions, rows in (1, 1), (1, 4), (3, 1), (2, 3):
        server = Server(args.server, *common, f"--sessions={sessions}", f"--rows={rows}")
        try:
            assert server.get("/health/live")[0] == server.get("/health/ready")[0] == 200
            if sessions == 1:  # once for sequences alone, and once for batches
                check_answers(server, generate)
                check_chat(server, generate)
                check_stops(server, generate)
                check_log_probabilities(server, generate)
                check_refusals(server)
                check_http(server)
                check_several(server)
                check_formats(server)
                check_embeddings(server, generate)
                check_openai(server, generate)
            check_many(server, generate)
            server.end()
        finally:
            server.process.kill()
    server = Server(args.server, f"m={models['count']}")
    try:
        check_characters(server)
        check_changed_logits(server)
        server.end()
    finally:
        server.process.kill()
    check_joined(args.server, models["random"], generate)
    check_vanished(args.server, models["count"])
    check_end(args.server, models["count"])
    check_starts(args.server, work, models)
    print("all as it should be")


if __name__ == "__main__":
    main()
