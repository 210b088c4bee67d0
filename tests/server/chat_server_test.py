#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chat_server_test.py --server PROGRAM --generate PROGRAM --make-model PROGRAM --work DIR: samples/chat_server answers as hg-generate does,
refuses what it does not support, and keeps running whatever its clients do. Uses the client `openai` if Python has it."""
import argparse
import concurrent.futures
import contextlib
import http.client
import json
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from chat_formats import check_formats, check_several
from embeddings import check_embeddings
from openai_client import check_openai
from served import Served, close_by_reset

COMPLETE, CHAT = "/v1/completions", "/v1/chat/completions"
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


class Server(Served):
    def __init__(self, program, *options, name="m"):
        super().__init__(program, "--threads=1", *options, name=name)

    def post(self, path, **request):
        status, body, headers = self.call("POST", path, json.dumps({"model": self.name, **request}))
        return status, json.loads(body), headers

    def ask(self, path, **request):
        status, answer, _ = self.post(path, **request)
        assert status == 200, answer
        return answer

    def stream(self, path, **request):
        """The events of an answer, without [DONE]."""
        status, body, headers = self.call("POST", path, json.dumps({"model": self.name, "stream": True, **request}))
        assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), (status, body)
        return events(body)

    def until(self, name, least):
        end = time.time() + 60
        while self.metric(name) < least:
            assert time.time() < end, (name, least)
            time.sleep(0.02)

    def until_idle(self):
        end = time.time() + 60
        while self.metric("requests_running") + self.metric("requests_waiting") > 0:
            assert time.time() < end
            time.sleep(0.02)


def events(body):
    parts = body.decode().split("\n\n")  # fails if an event cuts a character
    assert parts[-2:] == ["data: [DONE]", ""], parts[-2:]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


class Generate:
    """hg-generate on the same model."""

    def __init__(self, program, model):
        self.command = [program, str(model), "--json", "--log-probabilities", "--threads=1"]

    def __call__(self, *options):
        return json.loads(subprocess.run([*self.command, *options], check=True, capture_output=True, text=True).stdout)


def same(answer, expected):
    choice = answer["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    assert text == expected["text"] and choice["finish_reason"] == expected["finish"], (answer, expected)
    usage = answer["usage"]
    assert usage["prompt_tokens"] == expected["prompt_tokens"] and usage["completion_tokens"] == expected["tokens"], (usage, expected)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def text_of(parts, path):
    return "".join((p["choices"][0]["delta"].get("content") or "") if path == CHAT else p["choices"][0]["text"] for p in parts if p["choices"])


SAMPLING = [
    ({"temperature": 0}, []),
    ({"temperature": 0.75, "seed": 7}, ["--temperature=0.75", "--seed=7"]),
    ({"temperature": 1.5, "top_p": 0.75, "seed": 123456789012}, ["--temperature=1.5", "--top-p=0.75", "--seed=123456789012"]),
    ({"seed": 3, "top_k": 5, "min_p": 0.125, "repetition_penalty": 1.25},
     ["--temperature=1", "--seed=3", "--top-k=5", "--min-p=0.125", "--repetition-penalty=1.25"]),
    ({"temperature": 2, "top_p": 0, "seed": 1}, []),  # the most likely token
]


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


def check_many(server, generate):
    cases = []
    for i in range(8):
        prompt, options = "the man says "[:4 + i] + str(i), SAMPLING[i % len(SAMPLING)]
        cases.append((prompt, options[0], generate("--prompt", prompt, "--max-tokens=30", *options[1])))

    def client(seed):
        draws = random.Random(seed)
        for _ in range(12):
            prompt, options, expected = draws.choice(cases)
            if draws.random() < 0.5:
                same(server.ask(COMPLETE, prompt=prompt, max_tokens=30, **options), expected)
            else:
                assert text_of(server.stream(COMPLETE, prompt=prompt, max_tokens=30, **options), COMPLETE) == expected["text"]

    before = server.metric("requests_answered_total")
    with concurrent.futures.ThreadPoolExecutor(10) as clients:
        list(clients.map(client, range(10)))
    assert server.metric("requests_answered_total") == before + 120
    assert server.metric("requests_waiting") == server.metric("requests_running") == 0
    text = server.get("/metrics")[1]
    for name in "first_token_seconds", "answer_seconds":
        buckets = [float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"hologram_{name}_bucket")]
        assert buckets == sorted(buckets) and buckets[-1] > 100, buckets
        assert f'hologram_{name}_count{{model="m"}} {int(buckets[-1])}\n' in text


def drain(connection):
    """Reads in the background: the server leaves a client that reads nothing for five seconds."""
    def read():
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass

    threading.Thread(target=read, daemon=True).start()


LONG = {"prompt": [1], "max_tokens": 10**6, "temperature": 0}


def vanish(connection):
    close_by_reset(connection)
    leave(connection)


def leave(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)  # ends drain()
    connection.close()


def check_vanished(program, model):
    """The generation of a client that has left ends; so does a request that waits."""
    server = Server(program, f"m={model}", "--most-tokens=1000000", "--most-context=2000000", "--most-waiting=2")
    for streams in False, True:
        for go in vanish, leave:
            before = server.metric("requests_cancelled_total")
            body = json.dumps({"model": "m", "stream": streams, **LONG}).encode()
            head = f"POST {COMPLETE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            running = server.raw(head + body)
            server.until("requests_running", 1)
            if streams:
                assert running.recv(100)
                drain(running)
            waiting = [server.raw(head + body) for _ in range(2)]
            server.until("requests_waiting", 2)
            status, told, headers = server.post(COMPLETE, prompt="a")
            assert status == 503 and told["error"]["code"] == "overloaded" and headers["Retry-After"] == "1", told
            assert told["error"]["type"] == "server_error"
            go(waiting[0])
            server.until("requests_cancelled_total", before + 1)
            go(running)
            server.until("requests_cancelled_total", before + 2)
            go(waiting[1])
            server.until("requests_cancelled_total", before + 3)
            server.until_idle()
            assert server.ask(COMPLETE, prompt=[1], max_tokens=3, temperature=0)["choices"][0]["text"] == "日"
    # Clients that leave at random moments.
    body = json.dumps({"model": "m", "stream": True, **LONG, "max_tokens": 2000}).encode()
    whole = f"POST {COMPLETE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    for k in range(60):
        connection = server.raw(whole[:random.randrange(len(whole))] if k % 2 else whole)
        time.sleep(random.random() * 0.01)
        vanish(connection)
    server.until_idle()
    assert server.ask(COMPLETE, prompt=[1], max_tokens=3, temperature=0)["choices"][0]["text"] == "日"
    server.end()


def check_joined(program, model, generate):
    """Requests join and leave a batch that runs."""
    server = Server(program, f"m={model}", "--most-tokens=60000", "--most-context=65000", "--rows=4", "--most-waiting=0")
    expected = {text: generate("--prompt", text, "--max-tokens=30") for text in ("the man", "a", "12345678")}
    long = []
    # The bias keeps sequences from ending at <|end|>.
    body = json.dumps({"model": "m", "stream": True, "prompt": "hi", "max_tokens": 60000, "temperature": 0, "logit_bias": {"260": -100}}).encode()
    head = f"POST {COMPLETE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(3):
        long.append(server.raw(head + body))
        assert long[-1].recv(1 << 16)
        drain(long[-1])
        for text, answer in expected.items():
            same(server.ask(COMPLETE, prompt=text, max_tokens=30, temperature=0), answer)
            assert server.metric("requests_running") == len(long)
    long.append(server.raw(head + body))
    drain(long[-1])
    server.until("requests_running", 4)
    assert server.post(COMPLETE, prompt="a")[0] == 503
    for connection in long[:2]:
        vanish(connection)
    server.until("requests_cancelled_total", 2)
    for text, answer in expected.items():
        same(server.ask(COMPLETE, prompt=text, max_tokens=30, temperature=0), answer)
    for connection in long[2:]:
        vanish(connection)
    server.until_idle()
    same(server.ask(COMPLETE, prompt="a", max_tokens=30, temperature=0), expected["a"])
    server.end()


def check_end(program, model):
    """SIGTERM: open requests get their answers, or an error after --grace."""
    options = [f"m={model}", "--most-tokens=1000000", "--most-context=2000000"]
    server = Server(program, *options, "--grace=60")
    answers = []
    ask = {"prompt": [1], "max_tokens": 8000, "temperature": 0}
    threads = [threading.Thread(target=lambda: answers.append(server.ask(COMPLETE, **ask)["usage"]["completion_tokens"])),
               threading.Thread(target=lambda: answers.append(len(server.stream(COMPLETE, **ask)) > 1000 and 8000))]
    for thread in threads:
        thread.start()
    server.until("requests_waiting", 1)
    server.end()
    for thread in threads:
        thread.join()
    assert answers == [8000, 8000], answers
    server = Server(program, *options, "--grace=1")
    open_ones = [server.raw(f"POST {COMPLETE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                 for body in (json.dumps({"model": "m", "stream": streams, **LONG}).encode() for streams in (True, False))]
    server.until("requests_waiting", 1)
    assert server.get("/health/ready")[0] == server.get("/health/live")[0] == 200
    server.process.send_signal(signal.SIGTERM)
    ends = []
    for connection in open_ones:
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
        ends.append(answer)
    streamed, whole = sorted(ends, key=len, reverse=True)
    assert b'"code":"stopping"' in streamed[-400:] and b"the server stops" in streamed[-400:] and b"[DONE]" not in streamed, streamed[-400:]
    assert whole.startswith(b"HTTP/1.1 503") and b'"code":"stopping"' in whole, whole
    assert server.process.wait(60) == 0


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
