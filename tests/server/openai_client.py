# SPDX-License-Identifier: Apache-2.0
"""The official client of OpenAI's API gets the answers of hg-generate."""

import json


def check_openai(server, generate):
    try:
        import openai
    except ImportError:
        print("openai is not here: without it")
        return
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
    assert [m.id for m in client.models.list()] == ["m"] and client.models.retrieve("m").owned_by == "hologram"
    expected = generate("--prompt=the man", "--max-tokens=12")
    whole = client.completions.create(model="m", prompt="the man", max_tokens=12, temperature=0, logprobs=2)
    assert whole.choices[0].text == expected["text"] and whole.usage.completion_tokens == expected["tokens"]
    assert len(whole.choices[0].logprobs.token_logprobs) == expected["tokens"]
    parts = client.completions.create(model="m", prompt="the man", max_tokens=12, temperature=0, stream=True)
    assert "".join(p.choices[0].text for p in parts) == expected["text"]
    turns = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]
    expected = generate("--chat", "--system=be kind", "--prompt=hello", "--max-tokens=12")
    chat = client.chat.completions.create(model="m", messages=turns, max_completion_tokens=12, temperature=0, logprobs=True, top_logprobs=2)
    assert chat.choices[0].message.content == expected["text"] and chat.choices[0].finish_reason == expected["finish"]
    assert all(abs(t.logprob - wanted) < 1e-4 for t, wanted in zip(chat.choices[0].logprobs.content, expected["log_probabilities"], strict=True))
    text, usage = "", None
    for part in client.chat.completions.create(model="m", messages=turns, max_tokens=12, temperature=0, stream=True,
                                               stream_options={"include_usage": True}, extra_body={"top_k": 4}):
        text += (part.choices[0].delta.content or "") if part.choices else ""
        usage = part.usage or usage
    assert text == expected["text"] and usage.total_tokens == expected["prompt_tokens"] + expected["tokens"]
    client.chat.completions.create(model="m", messages=[*turns, chat.choices[0].message, {"role": "user", "content": "more"}], max_tokens=5, seed=3)
    for bad, kind in (({"model": "x"}, openai.NotFoundError), ({"n": 0}, openai.BadRequestError), ({"temperature": -1}, openai.BadRequestError),
                      ({"tools": [{"type": "function", "function": {"name": "f"}}]}, openai.BadRequestError)):
        try:
            client.chat.completions.create(**{"model": "m", "messages": turns, "max_tokens": 3, **bad})
            raise SystemExit(f"{bad} was accepted")
        except kind as error:
            assert error.param == next(iter(bad)) and error.type == "invalid_request_error", error
    several = client.chat.completions.create(model="m", messages=turns, max_tokens=9, n=3, seed=1)
    assert [choice.index for choice in several.choices] == [0, 1, 2] and several.usage.completion_tokens <= 27
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"], "additionalProperties": False}
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    answer = client.chat.completions.create(model="m", messages=turns, max_tokens=90, response_format=asked).choices[0]
    assert answer.finish_reason == "length" or set(json.loads(answer.message.content)) == {"sure"}
    embedding = generate("--embed", "--prompt=the man")
    for extra in {}, {"encoding_format": "float"}:  # the client asks for base64 by default
        made = client.embeddings.create(model="m", input=["hello", "the man"], **extra)
        assert [each.index for each in made.data] == [0, 1] and made.usage.total_tokens == len("hello") + embedding["prompt_tokens"]
        assert all(abs(a - b) < 1e-5 for a, b in zip(made.data[1].embedding, embedding["embedding"], strict=True))
    print(f"openai {openai.__version__}: the same answers")
