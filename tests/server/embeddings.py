# SPDX-License-Identifier: Apache-2.0
"""/v1/embeddings gives the embeddings of hg-generate, as numbers or as base64."""

import base64
import struct


def check_embeddings(server, generate):
    texts = ["the man", "hi", "the\u00e9"]
    wanted = [generate("--embed", f"--prompt={text}") for text in texts]
    made = server.ask("/v1/embeddings", input=texts)
    assert made["object"] == "list" and [each["index"] for each in made["data"]] == [0, 1, 2]
    for each, right in zip(made["data"], wanted, strict=True):
        assert all(abs(a - b) < 1e-5 for a, b in zip(each["embedding"], right["embedding"], strict=True))
    assert made["usage"]["prompt_tokens"] == made["usage"]["total_tokens"] == sum(each["prompt_tokens"] for each in wanted)
    ids = server.ask("/v1/embeddings", input=[5, 6])["data"][0]["embedding"]
    text = server.ask("/v1/embeddings", input=[[7], [5, 6]], encoding_format="base64")["data"][1]["embedding"]
    assert list(struct.unpack(f"<{len(ids)}f", base64.b64decode(text, validate=True))) == [struct.unpack("<f", struct.pack("<f", x))[0] for x in ids]
    for change, param in (({"input": None}, "input"), ({"input": []}, "input"), ({"input": [""]}, "input"), ({"input": ["a", [1]]}, "input"),
                          ({"input": [[-1]]}, "input"), ({"input": [10**6]}, "input"), ({"input": "a" * 401}, "input"), ({"input": {}}, "input"),
                          ({"input": ["a"] * 2049}, "input"), ({"encoding_format": "int8"}, "encoding_format"), ({"dimensions": 3}, "dimensions")):
        status, told, _ = server.post("/v1/embeddings", **{"input": "a", **change})
        assert status == 400 and told["error"]["param"] == param, (change, told)
    assert server.post("/v1/embeddings", model="none", input="a")[0] == 404
