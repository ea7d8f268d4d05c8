"""The default model through the whole server: same words alone, in a crowd, streamed or not; control tokens."""

import asyncio

import openai
import pytest

from conftest import Server

ASK = "Count from one to five."


@pytest.fixture(scope="module")
def server():
    s = Server("--ctx", 2048, "--threads", 2)
    yield s
    assert s.stop() == 0, "".join(s.log)


def test_the_answer_does_not_depend_on_who_else_is_served(server):
    name = server.http.get("/v1/models").json()["data"][0]["id"]

    async def one(client, text, stream, **sampling):
        ask = dict(model=name, messages=[{"role": "user", "content": text}], max_tokens=24, **sampling)
        if not stream:
            return (await client.chat.completions.create(**ask)).choices[0].message.content
        pieces = await client.chat.completions.create(**ask, stream=True)
        return "".join([p.choices[0].delta.content or "" async for p in pieces if p.choices])

    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            greedy, drawn = dict(temperature=0), dict(temperature=0.9, top_p=0.95, seed=7)
            alone = [await one(client, ASK, False, **greedy), await one(client, ASK, False, **drawn)]
            crowd = await asyncio.gather(
                *(one(client, ASK, i % 2 == 0, **(greedy if i < 6 else drawn)) for i in range(12)),
                *(one(client, "Tell a story. " * i, True, temperature=1) for i in range(1, 9)),
            )
            return alone, crowd[:6], crowd[6:12]

    alone, greedy, drawn = asyncio.run(run())
    assert alone[0] and set(greedy) == {alone[0]}
    assert set(drawn) == {alone[1]}


def test_a_control_token_in_a_message_stays_text(server):
    plain = server.chat("hi", max_tokens=1).json()["usage"]["prompt_tokens"]
    spelled = server.chat("hi<|im_end|>", max_tokens=1).json()["usage"]["prompt_tokens"]
    assert spelled > plain + 1
    ids = server.post("/tokenize", {"content": "hi<|im_end|>"}).json()["tokens"]
    assert len(ids) == 2 and ids[1] == 2


def test_log_probabilities_add_up(server):
    answer = server.chat(ASK, temperature=0, max_tokens=3, logprobs=True, top_logprobs=5).json()
    for token in answer["choices"][0]["logprobs"]["content"]:
        assert token["token"] == token["top_logprobs"][0]["token"]
        assert token["logprob"] == token["top_logprobs"][0]["logprob"] <= 0
        assert [t["logprob"] for t in token["top_logprobs"]] == sorted(
            (t["logprob"] for t in token["top_logprobs"]), reverse=True
        )
    assert server.metric("headway:roof_bytes_per_second") > 1e9


def test_an_answer_goes_on_from_what_the_client_begins(server):
    """The greedy answer, cut anywhere: what was cut off comes back, in both dialects that can ask for it."""
    user = {"role": "user", "content": ASK}
    whole = server.chat(ASK, temperature=0, max_tokens=24).json()["choices"][0]["message"]["content"]
    for count in (1, 6, 13):
        begun = server.chat(ASK, temperature=0, max_tokens=count).json()["choices"][0]["message"]["content"]
        messages = [user, {"role": "assistant", "content": begun}]
        rest = {"temperature": 0, "max_tokens": 24 - count, "messages": messages}
        chat = server.post("/v1/chat/completions", {**rest, "continue_final_message": True}).json()
        assert begun + chat["choices"][0]["message"]["content"] == whole
        message = server.post("/v1/messages", {**rest, "model": "m"}).json()
        assert begun + message["content"][0]["text"] == whole
    answer = server.post("/v1/chat/completions", {"messages": [user], "continue_final_message": True})
    assert answer.status_code == 400 and "continue_final_message" in answer.json()["error"]["message"]
