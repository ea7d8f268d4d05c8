"""Client programs as people use them: `llm` and `litellm`, each from a virtual environment of its own.
`make test-clients` makes those and runs this file. The openai package and curl are in the other files here."""
import json
import os
import subprocess

import pytest

pytestmark = pytest.mark.clients
PATIENCE_S = 120


@pytest.fixture
def llm(serve, tmp_path):
    python = os.environ.get("HEADWAY_LLM_PYTHON")
    if not python:
        pytest.skip("HEADWAY_LLM_PYTHON is not set: make test-clients")
    server = serve(script=[{"reply": "Seine, Loire, Rhône.", "match": "rivers", "times": 0}])
    (tmp_path / "extra-openai-models.yaml").write_text(
        f'- model_id: headway\n  model_name: script\n  api_base: "{server.url}/v1"\n')
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}

    def run(*arguments):
        done = subprocess.run([python, "-m", "llm", *arguments], env=env, capture_output=True, text=True,
                              timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_llm_streams(llm):
    assert llm("-m", "headway", "Name three rivers.") == "Seine, Loire, Rhône.\n"


def test_llm_without_streaming_and_with_a_system_message(llm):
    out = llm("-m", "headway", "--no-stream", "-s", "Be brief.", "-o", "temperature", "0", "Name three rivers.")
    assert out == "Seine, Loire, Rhône.\n"


def test_llm_continues_a_conversation(llm):
    llm("-m", "headway", "Name three rivers.")
    assert llm("-c", "And again.") == "Seine, Loire, Rhône.\n"


LITELLM = '''
import asyncio, json, sys
import litellm
base = sys.argv[1]
common = dict(model="openai/script", api_base=base, api_key="none", messages=[{"role": "user", "content": "rivers"}])
out = {}
whole = litellm.completion(**common, max_tokens=50, temperature=0, seed=1)
out["whole"], out["finish"] = whole.choices[0].message.content, whole.choices[0].finish_reason
out["usage"] = whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
stream = litellm.completion(**common, stream=True, stream_options={"include_usage": True})
out["stream"] = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


async def both():
    one = await litellm.acompletion(**common)
    pieces = [c async for c in await litellm.acompletion(**common, stream=True)]
    return one.choices[0].message.content, "".join(c.choices[0].delta.content or "" for c in pieces if c.choices)


out["async"], out["async_stream"] = asyncio.run(both())
text = litellm.text_completion(model="text-completion-openai/script", api_base=base, api_key="none", prompt="rivers",
                               max_tokens=50)
out["text"] = text.choices[0].text
try:
    litellm.completion(**common, response_format={"type": "structural_tag"})
except litellm.BadRequestError as problem:
    out["refused"] = "response_format" in str(problem)
print(json.dumps(out))
'''


def test_litellm_in_every_form(serve):
    python = os.environ.get("HEADWAY_LITELLM_PYTHON")
    if not python:
        pytest.skip("HEADWAY_LITELLM_PYTHON is not set: make test-clients")
    server = serve(script=[{"reply": "Seine, Loire, Rhône.", "match": "rivers", "times": 0}])
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # no network
    done = subprocess.run([python, "-c", LITELLM, f"{server.url}/v1"], env=env, capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    reply = "Seine, Loire, Rhône."
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "whole": reply, "finish": "stop", "usage": True, "stream": reply, "async": reply, "async_stream": reply,
        "text": reply, "refused": True}
