#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""server_test.py --server PROGRAM --make-model PROGRAM --work DIR: samples/server answers valid requests, reports errors, and keeps
running whatever its clients do. The model is y = x w' + b of tests/c/model.cpp, whose numbers are exact."""
import argparse
import concurrent.futures
import contextlib
import gzip
import json
import random
import re
import struct
import subprocess
import threading
import time
from pathlib import Path

from served import Served, close_by_reset

W, B = [[0.5, -1, 2], [0.25, 3, -0.75]], [0.125, -2]
INFER = "/v2/models/m/infer"


def expected(rows):
    return [sum(x * w for x, w in zip(row, ws)) + b for row in rows for ws, b in zip(W, B)]


def random_rows(count):
    return [[random.randrange(-64, 64) / 4 for _ in range(3)] for _ in range(count)]


class Server(Served):
    def __init__(self, program, model, *options):
        super().__init__(program, f"m={model}", *options)

    def infer(self, request, extra=b"", headers=None):
        text = request if isinstance(request, bytes) else json.dumps(request).encode()
        headers = dict(headers or {})
        if extra:
            headers["Inference-Header-Content-Length"] = str(len(text))
        return self.call("POST", INFER, text + extra, headers)

    def rows(self, rows, **more):
        x = {"name": "x", "shape": [len(rows), 3], "datatype": "FP32", "data": rows}
        status, body, _ = self.infer({"inputs": [x], **more})
        return status, json.loads(body)

    def peak_kb(self):
        return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())[1])


def check_protocol(server):
    assert server.get("/v2/health/live")[0] == server.get("/v2/health/ready")[0] == 200
    assert server.get("/v2/models/m/ready")[0] == 200
    assert server.get("/v2")[1]["extensions"] == ["binary_tensor_data"]
    for path in "/v2/models/m", "/v2/models/m/versions/1":
        status, told = server.get(path)
        assert status == 200 and told["platform"] == "hologram", told
        assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}], told
        assert told["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}], told
    status, answer = server.rows([[1, 2, 3], [4, 5, 6]], id="seven")
    assert status == 200 and answer["id"] == "seven" and answer["model_name"] == "m", answer
    output = answer["outputs"][0]
    assert output["shape"] == [2, 2] and output["data"] == expected([[1, 2, 3], [4, 5, 6]]), answer
    flat = {"name": "x", "shape": [2, 3], "datatype": "FP32", "data": [1, 2, 3, 4, 5, 6]}
    status, body, _ = server.infer({"inputs": [flat], "outputs": [{"name": "y"}]})
    assert json.loads(body)["outputs"] == answer["outputs"]
    # Bytes in, bytes out.
    rows = random_rows(5)
    data = struct.pack("<15f", *[x for row in rows for x in row])
    x = {"name": "x", "shape": [5, 3], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}
    status, body, headers = server.infer({"inputs": [x], "parameters": {"binary_data_output": True}}, data)
    assert status == 200, body
    length = int(headers["Inference-Header-Content-Length"])
    told = json.loads(body[:length])["outputs"][0]
    assert told["parameters"] == {"binary_data_size": 40} and told["shape"] == [5, 2], told
    assert list(struct.unpack("<10f", body[length:])) == expected(rows)
    status, body, _ = server.infer({"inputs": [x]}, data)
    assert json.loads(body)["outputs"][0]["data"] == expected(rows)


def check_broken(server):
    def x(**changes):
        return {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3], **changes}]}

    def nested(request, left, right):  # deeper than a stack
        return json.dumps(request).replace('"deep"', left * 150000 + "1" + right * 150000).encode()

    binary = {"binary_data_size": 12}
    broken = [
        (b"", 400, "no JSON object"), (b"[1]", 400, "no JSON object"), (b"{\"inputs\": [", 400, "no JSON object"),
        (b"\xff\xfe{}", 400, "no JSON object"), (b"[" * 100000, 400, "no JSON object"),
        ({}, 400, "'inputs'"), ({"inputs": 3}, 400, "'inputs'"), ({"inputs": []}, 400, "0 inputs; the model takes 1"),
        ({"inputs": [7]}, 400, "no object"), (x(name="z"), 400, "no input"), (x(name=None), 400, "'name'"),
        (x(datatype="INT64"), 400, "is INT64; the model takes FP32"), (x(shape=None), 400, "'shape'"),
        (x(shape=[1, -3]), 400, "a size -3"), (x(shape=[1] * 13), 400, "13 dims"), (x(shape=[1, 2]), 400, "more elements"),
        (x(shape=[2, 3]), 400, "3 elements; its shape"), (x(shape=[2**31, 2**31]), 400, "2^40 elements or more"),
        (x(shape=[2**29, 3]), 400, "less data"), (x(shape=[1, 3.5]), 400, "a size 3.5"),
        (x(shape=[3]), 400, "the model takes f32[n, 3]"), (x(shape=[3, 1]), 400, "the model takes f32[n, 3]"),
        (x(data=[1, 1e39, 3]), 400, "1e+39, which does not fit"), (x(shape=[], data=[[1]]), 400, "other levels"),
        (x(data=[1, "2", 3]), 400, "no number"), (x(data=[1, [2, 3]]), 400, "other levels"), (x(data={}), 400, "'data'"),
        (x(data=[[1, [2], 3]]), 400, "other levels"), (x(data=[[[1, 2, 3]]]), 400, "list of 1 in dim 1"),
        (x(shape=[2, 3], data=[[1, 2], [3, 4, 5, 6]]), 400, "list of 2 in dim 1"),
        (x(parameters=binary), 400, "12 bytes of 0"), (x(parameters={"binary_data_size": -1}), 400, "binary_data_size"),
        ({"outputs": [{"name": "no"}], **x()}, 404, "no output 'no'"), ({"outputs": 5, **x()}, 400, "'outputs' is no array"),
        ({"outputs": [{"name": "y"}] * 2, **x()}, 400, 'the output "y" is wanted twice'),
        ({"parameters": {"timeout": "soon"}, **x()}, 400, "timeout"),
        (x(data=["9" * 1000, 2, 3]), 400, '"999999999999999999999999999999999999999...'),
        (nested(x(data=["deep", 2, 3]), '{"a":', "}"), 400, "has the element {...}, which is no number"),
        (nested(x(data=[2, ["deep"], 3]), "[", "]"), 400, "other levels"),
        (nested(x(shape=["deep", 3]), "[", "]"), 400, "a size [...]"),
    ]
    for request, wanted, words in broken:
        status, body, _ = server.infer(request)
        told = json.loads(body).get("error", "no error")
        assert status == wanted and words in told, (request, status, told)
    for length in "999999", "-1", "x", "9" * 40:
        status, body, _ = server.infer(x(), headers={"Inference-Header-Content-Length": length})
        assert status == 400 and b"Inference-Header-Content-Length" in body, (length, status, body)
    status, body, _ = server.infer(x(), b"left over")
    assert status == 400 and b"belong to no input" in body, body
    assert server.get("/v2/models/none")[0] == 404 and server.get("/nothing")[0] == 404
    assert server.call("POST", "/v2/models/none/infer", b"{}")[0] == 404
    assert server.call("POST", INFER, b" " * (2 << 20))[0] == 413
    # Random damage gives an answer or an error, and the server keeps running.
    whole = json.dumps(x()).encode()
    for _ in range(200):
        text = bytearray(whole)
        for _ in range(random.randrange(1, 6)):
            text[random.randrange(len(text))] = random.randrange(256)
        status, body, _ = server.infer(bytes(text))
        assert status in (200, 400), (text, status, body)


def check_http(server):
    """However a body arrives, at most --most-bytes of it are kept."""
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}).encode()
    large, spaces = body + b" " * (1 << 17), b" " * (1 << 20)
    packed = {"Content-Encoding": "gzip"}
    sent = [(iter([body[:9], body[9:]]), {}, 200, b"4.625"), (gzip.compress(body), packed, 200, b"4.625"),
            (large, {"Content-Type": "application/x-www-form-urlencoded"}, 200, b"4.625"),  # as curl -d says
            (iter([spaces] * 40), {}, 413, b"more than 1048576 bytes"),
            (gzip.compress(spaces * 40), packed, 413, b"more than 1048576 bytes"),
            (body, {"Content-Type": "multipart/form-data; boundary=x"}, 415, b"a form of parts"),
            (body, {"Range": "bytes=" + ",".join(["0-"] * 1000)}, 400, b"answers have no ranges")]
    before = server.peak_kb()
    for data, headers, wanted, words in sent:
        status, told, _ = server.call("POST", INFER, data, headers)
        assert status == wanted and words in told, (headers, status, told)
    assert server.peak_kb() < before + (16 << 10), (before, server.peak_kb())
    for method, path, wanted in ("GET", "/nothing", 404), ("PUT", INFER, 404), ("GET", "/" + "a" * 9000, 414):
        status, told, _ = server.call(method, path)
        assert status == wanted and f"HTTP status {wanted}" in json.loads(told)["error"], (path, status, told)
    # A silent client can keep a connection open only for --read-timeout.
    ask = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    idle = [server.raw(ask) for _ in range(8)]
    assert server.rows([[1, 2, 3]])[0] == 200
    for connection in idle:
        connection.close()


def check_truth(program, model):
    """Bytes of booleans must be 0 or 1; no other value is valid in the type."""
    server = Server(program, model)

    def ask(x, t):
        inputs = [{"name": name, "shape": [1, 2], "datatype": "BOOL", "parameters": {"binary_data_size": 2}} for name in "xt"]
        text = json.dumps({"inputs": inputs}).encode()
        return server.call("POST", INFER, text + bytes(x) + bytes(t),
                           {"Inference-Header-Content-Length": str(len(text))})[:2]

    status, body = ask([1, 0], [1, 1])
    assert status == 200 and json.loads(body)["outputs"][0]["data"] == [True, False], body
    status, body = ask([1, 2], [1, 4])
    assert status == 400 and b"a byte, 1, that is neither 0 nor 1" in body, body
    server.end()


def check_load(server):
    before = server.metric("requests_answered_total")

    def client(seed):
        for k in range(40):
            rows = random_rows(1 + (seed + k) % 5)
            status, answer = server.rows(rows)
            assert status == 200 and answer["outputs"][0]["data"] == expected(rows), answer

    with concurrent.futures.ThreadPoolExecutor(12) as clients:
        list(clients.map(client, range(12)))
    assert server.metric("requests_answered_total") == before + 480
    assert server.metric("requests_waiting") == server.metric("batches_running") == 0
    buckets = [float(line.split()[-1]) for line in server.get("/metrics")[1].splitlines() if "_bucket" in line]
    assert buckets == sorted(buckets) and buckets[-1] == server.metric("requests_answered_total"), buckets


def check_slow_and_killed(server):
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n".encode()
    slow = [server.raw(head[:n]) for n in (5, 40, len(head))] + [server.raw(head + b'{"inp')]
    for _ in range(5):  # other clients are served meanwhile
        status, answer = server.rows([[1, 1, 1]])
        assert status == 200 and answer["outputs"][0]["data"] == expected([[1, 1, 1]])
    for connection in slow:  # the server closes slow connections
        connection.settimeout(60)
        with contextlib.suppress(ConnectionError):
            while connection.recv(4096):
                pass
        connection.close()
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}).encode()
    whole = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    for k in range(60):  # gone before, while and after it is sent
        connection = server.raw(whole[:random.randrange(len(whole))] if k % 2 else whole)
        close_by_reset(connection)
        connection.close()
    status, answer = server.rows([[2, 2, 2]])
    assert status == 200 and answer["outputs"][0]["data"] == expected([[2, 2, 2]])


def check_full_late_and_stopped(program, model):
    # A request waits 0.6 s for others, and one may wait.
    server = Server(program, model, "--delay-us=600000", "--most-waiting=1", "--sessions=1")
    status, told = server.rows([[1, 2, 3]], parameters={"timeout": 20000})
    assert status == 504 and "deadline" in told["error"], (status, told)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(server.rows([[1, 2, 3]])))
    waiting.start()
    while server.metric("requests_waiting") < 1:
        time.sleep(0.01)
    status, body, headers = server.infer({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})
    assert status == 503 and b"full" in body and headers["Retry-After"] == "1", (status, body)
    assert server.metric("requests_refused_total") == 1 and server.metric("requests_cancelled_total") == 1
    server.end()  # with a request that waits: it gets its answer
    waiting.join()
    assert answers[0][0] == 200 and answers[0][1]["outputs"][0]["data"] == expected([[1, 2, 3]]), answers


def check_triton(server):
    try:
        import numpy
        import tritonclient.http as triton
    except ImportError:
        print("tritonclient is not here: without it")
        return
    client = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("m")
    assert client.get_model_metadata("m")["inputs"][0]["name"] == "x"
    rows = random_rows(4)
    for binary in True, False:
        x = triton.InferInput("x", [4, 3], "FP32")
        x.set_data_from_numpy(numpy.array(rows, numpy.float32), binary_data=binary)
        result = client.infer("m", [x], outputs=[triton.InferRequestedOutput("y", binary_data=binary)])
        assert result.as_numpy("y").ravel().tolist() == expected(rows)
    client.close()
    print("tritonclient: the same numbers, as bytes and as JSON")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--make-model", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    model, truth = args.work / "served.hgm", args.work / "truth.hgm"
    subprocess.run([args.make_model, model, truth], check=True)
    server = Server(args.server, model, "--connections=8", "--read-timeout=1", f"--most-bytes={1 << 20}")
    try:
        check_protocol(server)
        check_broken(server)
        check_http(server)
        check_load(server)
        check_slow_and_killed(server)
        check_triton(server)
        server.end()
    finally:
        server.process.kill()
    check_full_late_and_stopped(args.server, model)
    check_truth(args.server, truth)
    print("all as it should be")


if __name__ == "__main__":
    main()
