# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, clients that leave, and the end of the server."""
import concurrent.futures
import contextlib
import json
import random
import signal
import socket
import threading
import time

from chat_client import COMPLETE, SAMPLING, Server, same, text_of
from served import close_by_reset


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
