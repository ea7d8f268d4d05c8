"""Models as directories: inspect and serve take them like a file; what their companions say is followed."""
import json
import shutil
import subprocess

import pytest

from conftest import HEADWAY, ROOT

VECTORS = ROOT / "tests" / "numeric" / "vectors" / "hf"
RUNNABLE = ["mlx_affine", "mlx_floats", "mlx_qwen35moe"]


@pytest.mark.parametrize("name", RUNNABLE)
def test_inspect_says_what_a_directory_is_and_that_it_runs(name):
    done = subprocess.run([HEADWAY, "inspect", VECTORS / name, "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["runs"] and facts["format"] == "safetensors" and facts["vocabulary"] == 264


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(VECTORS / "mlx_affine", tmp_path / "model")


def test_a_chat_with_a_directory_samples_and_ends_as_its_generation_config_says(serve, copy):
    ends = list(range(0, 264, 2))  # half of the vocabulary ends an answer
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": ends, "temperature": 1.0, "top_k": 1}))
    server = serve("--model", copy)
    answers = [server.chat("hello", seed=seed, max_tokens=32, ignore_eos=False).json() for seed in range(4)]
    texts = {answer["choices"][0]["message"]["content"] for answer in answers}
    assert len(texts) == 1  # top_k 1 is greedy, whatever the seed
    free = server.chat("hello", seed=1, max_tokens=8, top_k=0, temperature=2, n=8).json()["choices"]
    assert len({choice["message"]["content"] for choice in free}) > 1
    assert "stop" in {choice["finish_reason"] for choice in free}


@pytest.mark.parametrize("change, words", [
    ({"num_hidden_layers": 9}, "blk.1"),
    ({"model_type": "mamba"}, "model_type"),
    ({"quantization": {"group_size": 64, "bits": 5}}, "tensor"),
])
def test_a_directory_that_lies_gets_one_line(copy, change, words):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | change))
    command = [HEADWAY, "serve", "--model", copy, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2)
    assert words in done.stderr.strip().splitlines()[-1] or words in done.stderr
