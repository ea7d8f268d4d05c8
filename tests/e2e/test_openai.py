"""The OpenAI dialect, by the openai package and by hand."""

import asyncio
import json

import openai
import pytest

from conftest import events


@pytest.fixture
def client(sim):
    with openai.OpenAI(base_url=sim.url + "/v1", api_key="none", max_retries=0) as c:
        yield c


def test_chat_and_streamed_chat_say_the_same(client):
    ask = dict(model="sim", messages=[{"role": "user", "content": "hello"}], temperature=0,
               extra_body={"cache_prompt": False})
    whole = client.chat.completions.create(**ask)
    assert whole.choices[0].finish_reason == "stop"
    assert whole.choices[0].message.role == "assistant"
    assert whole.usage.completion_tokens == 40
    assert whole.usage.prompt_tokens_details.cached_tokens == 0
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert len({c.id for c in chunks}) == 1


def test_async_streams_run_side_by_side(sim):
    async def one(client, text):
        stream = await client.chat.completions.create(
            model="sim", messages=[{"role": "user", "content": text}], temperature=0, stream=True
        )
        return "".join([c.choices[0].delta.content or "" async for c in stream])

    async def many():
        async with openai.AsyncOpenAI(base_url=sim.url + "/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client, f"text {i % 3}") for i in range(30)))

    texts = asyncio.run(many())
    assert len(set(texts)) == 3 and all(len(t) == 40 for t in texts)


def test_completions_in_every_form(client):
    text = client.completions.create(model="sim", prompt="abc", max_tokens=5, temperature=0)
    assert len(text.choices[0].text) == 5 and text.choices[0].finish_reason == "length"
    assert client.completions.create(model="sim", prompt="abc").usage.completion_tokens == 16
    ids = client.completions.create(model="sim", prompt=[97, 98, 99], max_tokens=5, temperature=0)
    assert ids.choices[0].text == text.choices[0].text
    many = client.completions.create(model="sim", prompt=["abc", "xyz"], n=2, max_tokens=5, temperature=0)
    assert [c.index for c in many.choices] == [0, 1, 2, 3]
    assert many.choices[0].text == many.choices[1].text == text.choices[0].text != many.choices[2].text
    assert many.usage.prompt_tokens == 6 and many.usage.completion_tokens == 20
    parts = list(client.completions.create(model="sim", prompt="abc", max_tokens=5, temperature=0, stream=True))
    assert "".join(p.choices[0].text for p in parts) == text.choices[0].text


def test_choices_of_a_stream_are_told_apart(client):
    chunks = client.chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "x"}], n=3, temperature=1, seed=4, stream=True
    )
    texts, ends = {}, {}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            ends[choice.index] = ends.get(choice.index) or choice.finish_reason
    assert sorted(texts) == [0, 1, 2] and set(ends.values()) == {"stop"}
    assert len(set(texts.values())) == 3  # seeds differ by choice


def test_the_seed_decides(client):
    def ask(seed):
        return (
            client.chat.completions.create(
                model="sim", messages=[{"role": "user", "content": "x"}], temperature=1, seed=seed
            )
            .choices[0]
            .message.content
        )

    assert ask(1) == ask(1) != ask(2)


def test_log_probabilities_in_both_shapes(client):
    chat = client.chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "x"}], logprobs=True, top_logprobs=3, max_tokens=4
    )
    content = chat.choices[0].logprobs.content
    assert len(content) == 4 and all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in content)
    assert "".join(t.token for t in content) == chat.choices[0].message.content
    assert bytes(content[0].bytes).decode() == content[0].token
    old = client.completions.create(model="sim", prompt="x", logprobs=2, max_tokens=4).choices[0].logprobs
    assert len(old.tokens) == len(old.token_logprobs) == len(old.top_logprobs) == 4 and old.text_offset == [0, 1, 2, 3]
    streamed = client.chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "x"}], logprobs=True, max_tokens=4, stream=True
    )
    assert sum(len(c.choices[0].logprobs.content) for c in streamed if c.choices and c.choices[0].logprobs) == 4


def test_stop_strings_across_tokens(serve):
    server = serve(script=[{"reply": "one two STOP three", "times": 0}])
    for stream in (False, True):
        with openai.OpenAI(base_url=server.url + "/v1", api_key="none") as client:
            ask = dict(model="m", messages=[{"role": "user", "content": "x"}], stop=["STOP", "never"])
            if stream:
                chunks = list(client.chat.completions.create(**ask, stream=True))
                text = "".join(c.choices[0].delta.content or "" for c in chunks)
                finish = chunks[-1].choices[0].finish_reason
            else:
                answer = client.chat.completions.create(**ask).choices[0]
                text, finish = answer.message.content, answer.finish_reason
            assert (text, finish) == ("one two ", "stop")
    assert (
        server.chat(stop="STOP", include_stop_str_in_output=True).json()["choices"][0]["message"]["content"]
        == "one two STOP"
    )
    assert server.held_pages() == 0


def test_characters_arrive_whole(serve):
    text = 'naïve 🚀 日本語 \t " \\ \n end'
    server = serve(script=[{"reply": text, "times": 0}])
    with server.http.stream(
        "POST", "/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}], "stream": True}
    ) as r:
        pieces = [e["choices"][0]["delta"].get("content", "") for e in events(r.iter_lines()) if isinstance(e, dict)]
    assert "".join(pieces) == text and "\ufffd" not in "".join(pieces)


def test_usage_with_every_chunk(sim):
    body = {
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "max_tokens": 6,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    with sim.http.stream("POST", "/v1/chat/completions", json=body) as r:
        counts = [e["usage"]["completion_tokens"] for e in events(r.iter_lines()) if isinstance(e, dict)]
    assert counts == sorted(counts) and counts[0] == 1 and counts[-1] == 6


def test_comments_while_waiting_and_progress_when_asked(serve):
    server = serve("--runner", "sim:prefill_tokens_per_s=60,reply_tokens=2,max_chunk_tokens=64")
    body = {"prompt": "x" * 420, "stream": True}
    with server.http.stream("POST", "/v1/completions", json=body) as r:
        assert r.headers["content-type"].startswith("text/event-stream")
        seen = list(events(r.iter_lines()))
    assert seen.count(None) >= 1 and seen.index(None) == 0 and seen[-1] == "[DONE]"
    with server.http.stream(
        "POST", "/v1/completions", json={**body, "prompt": "y" * 130, "return_progress": True}
    ) as r:
        progress = [
            e["prompt_progress"] for e in events(r.iter_lines()) if isinstance(e, dict) and "prompt_progress" in e
        ]
    assert progress and all(p["total"] == 130 and p["cache"] == 0 for p in progress)
    assert [p["processed"] for p in progress] == sorted(p["processed"] for p in progress)


def test_an_overlong_prompt_names_both_numbers(sim):
    r = sim.post("/v1/completions", {"prompt": "x" * 9000})
    error = r.json()["error"]
    assert r.status_code == 400 and error["type"] == "exceed_context_size_error"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (9000, 8192)


def test_errors_have_one_shape(client, sim):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="sim", messages=[{"role": "user", "content": "x"}], response_format={"type": "structural_tag"}
        )
    assert caught.value.param == "response_format"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="sim", messages=[])
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")
    with pytest.raises(openai.APIStatusError) as caught:
        client.embeddings.create(model="sim", input="x")
    assert caught.value.status_code == 501
    for r in (
        sim.http.get("/nowhere"),
        sim.http.get("/v1/completions"),
        sim.http.post("/v1/completions", content="{}", headers={"content-type": "text/plain"}),
        sim.http.post("/v1/completions", content="{"),
        sim.post("/v1/completions", []),
    ):
        assert r.status_code in (400, 404, 405, 415)
        assert set(r.json()["error"]) >= {"message", "type", "code", "param"}


def test_models_and_unknown_fields(client, sim):
    assert [m.id for m in client.models.list()] == ["sim"]
    assert client.models.retrieve("sim").id == "sim"
    r = sim.chat(unheard_of=1, another=[2], service_tier="flex")
    assert r.headers["x-headway-warning"] == "ignored: unheard_of, another"
    assert r.json()["service_tier"] == "flex"
    assert (
        "not parsed" in sim.chat(tools=[{"type": "function", "function": {"name": "f"}}]).headers["x-headway-warning"]
    )


def test_tokenize_and_back(sim):
    ids = sim.post("/tokenize", {"content": "héllo<|im_end|>"}).json()["tokens"]
    assert ids == list("héllo".encode()) + [258]
    assert sim.post("/tokenize", {"content": "a<|im_end|>", "parse_special": False}).json()["tokens"] == list(
        b"a<|im_end|>"
    )
    assert sim.post("/detokenize", {"tokens": ids}).json()["content"] == "héllo<|im_end|>"
    answer = sim.post("/tokenize", {"prompt": "ab"}).json()
    assert answer["tokens"] == [97, 98] and answer["count"] == 2
    assert sim.post("/tokenize", {"content": "a", "with_pieces": True}).json()["tokens"] == [{"id": 97, "piece": "a"}]


def test_ignore_eos_and_max_tokens(sim):
    assert sim.chat(ignore_eos=True, max_completion_tokens=60).json()["choices"][0]["finish_reason"] == "length"
    assert sim.chat(n_predict=3).json()["usage"]["completion_tokens"] == 3


def test_timings_at_the_end_or_with_every_chunk(sim):
    for each, least in ((False, 1), (True, 5)):
        body = {"prompt": "x", "stream": True, "max_tokens": 5, "timings_per_token": each}
        with sim.http.stream("POST", "/v1/completions", json=body) as r:
            timings = [e["timings"] for e in events(r.iter_lines()) if isinstance(e, dict) and "timings" in e]
        assert len(timings) >= least and timings[-1]["predicted_n"] == 5 and timings[-1]["prompt_n"] == 1


def test_metrics_are_prometheus_text(sim):
    sim.chat()
    r = sim.http.get("/metrics")
    assert r.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in (
        "vllm:num_requests_running",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_count",
        "vllm:request_success_total",
        "llamacpp:tokens_predicted_total",
        "headway:useful_bytes_total",
        "headway:roof_share",
    ):
        assert name + "{" in r.text, name
    assert sim.metric("vllm:generation_tokens_total") >= 40


def test_a_model_without_template_names_the_flag(serve, tmp_path):
    template = tmp_path / "raise.jinja"
    template.write_text("{{ raise_exception('Only \"user\" roles, please') }}")
    server = serve("--runner", "sim", "--chat-template", template)
    r = server.chat()
    assert r.status_code == 400 and r.json()["error"]["message"] == 'Only "user" roles, please'
    assert json.loads(r.content)["error"]["param"] == "messages"
