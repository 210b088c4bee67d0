# SPDX-License-Identifier: Apache-2.0
"""samples/chat_server and hg-generate as processes, and what their answers have in common."""
import json
import subprocess
import time

from served import Served

COMPLETE, CHAT = "/v1/completions", "/v1/chat/completions"


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
