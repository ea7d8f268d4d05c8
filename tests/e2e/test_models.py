"""The two larger real models (make test-models): they load, say what they are, and answer."""
import json
import os
import subprocess

import pytest

from conftest import HEADWAY

pytestmark = pytest.mark.models
MODELS = {"HEADWAY_GEMMA3": "gemma3", "HEADWAY_QWEN25": "qwen2"}


def path_of(variable):
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set: make test-models")
    return path


@pytest.mark.parametrize("variable", MODELS)
def test_inspect_says_that_it_runs(variable):
    done = subprocess.run([HEADWAY, "inspect", path_of(variable), "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert MODELS[variable] in json.dumps(json.loads(done.stdout))


@pytest.mark.parametrize("variable", MODELS)
def test_a_completion_is_the_same_alone_and_in_a_crowd(serve, variable):
    server = serve("--model", path_of(variable))
    ask = {"prompt": "The capital of France is", "max_tokens": 16, "temperature": 0}
    alone = server.post("/v1/completions", ask).json()["choices"][0]["text"]
    assert alone.strip()
    crowd = server.post("/v1/completions", {**ask, "n": 6}).json()["choices"]
    assert {choice["text"] for choice in crowd} == {alone}


def test_a_base_model_without_template_answers_completions_and_refuses_chat(serve):
    server = serve("--model", path_of("HEADWAY_GEMMA3"))
    refused = server.chat("hi")
    assert refused.status_code == 400 and "--chat-template" in refused.json()["error"]["message"]


def test_qwen_answers_a_chat(serve):
    server = serve("--model", path_of("HEADWAY_QWEN25"))
    reply = server.chat("Write hello world in C.", max_tokens=64, temperature=0).json()
    assert "ello" in reply["choices"][0]["message"]["content"]
