"""headway synth: what it writes is what it says, reads back elsewhere, answers where it runs, and is one model in every
format."""
import json
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import HEADWAY, ROOT

CONFIGS = ROOT / "tests" / "data" / "configs"
FAMILIES = sorted(p.stem for p in CONFIGS.glob("tiny_*.json"))
TYPES = {
    "gguf": ["f32", "f16", "bf16", "q8_0", "q4_0", "mxfp4"],
    "hf": ["f32", "f16", "bf16"],
    "mlx": ["f32", "bf16", "mxfp8", "mxfp4", "affine4"],
}
PARAMETERS = {  # of these shapes, by hand from models.md A.2 and B.2
    "tiny_llama": 143_808,
    "tiny_qwen3": 213_632,
}


def headway(*arguments):
    return subprocess.run([HEADWAY, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60)


def synth(out, family, kind="gguf", dtype="bf16", seed=1, *more):
    done = headway("synth", "--config", CONFIGS / f"{family}.json", "--format", kind, "--type", dtype, "--seed", seed,
                   "--out", out, *more)
    assert done.returncode == 0, done.stderr
    return out


def inspect(path):
    done = headway("inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_type_is_what_it_says(tmp_path, family, kind):
    sizes = {}
    for dtype in TYPES[kind]:
        out = synth(tmp_path / f"m.{dtype}", family, kind, dtype, 7)
        facts = inspect(out)
        assert facts["synthetic"] is True and facts["chat_template"] is True
        assert facts["parameters"] == PARAMETERS.get(family, facts["parameters"])
        own = "affine4_bf16" if dtype == "affine4" else dtype  # as the file's scales are kept
        stored = {t["type"].lower(): t["tensors"] for t in facts["types"]}
        assert max(stored, key=stored.get) in (own, "f32") and own in stored
        sizes[dtype] = facts["memory"]["weight_bytes"]
        assert not list(tmp_path.glob("*.part"))
    assert sizes["f32"] > 1.9 * sizes["bf16"]
    assert sizes[TYPES[kind][-1]] <= sizes["bf16"]


def test_recurrent_layers_alone_are_refused(tmp_path):
    """Checkpoints of a state lie in pages of keys and values, which such a model has none of."""
    config = json.loads((CONFIGS / "tiny_qwen3_5.json").read_text())
    config["text_config"].update(layer_types=["linear_attention"] * 4, full_attention_interval=1000)
    (tmp_path / "c.json").write_text(json.dumps(config))
    headway("synth", "--config", tmp_path / "c.json", "--out", tmp_path / "m.gguf", "--type", "f32")
    for code, command in ((0, ["inspect", tmp_path / "m.gguf"]),
                          (1, ["bench", "--model", tmp_path / "m.gguf", "--keep", "off"]),
                          (1, ["serve", "--port", "0", "--model", tmp_path / "m.gguf"])):
        done = headway(*command)
        assert done.returncode == code and "no layer has attention" in done.stdout + done.stderr


def test_metadata_and_names_say_that_it_is_synthetic(tmp_path):
    shown = headway("inspect", synth(tmp_path / "m.gguf", "tiny_qwen3", seed=99)).stdout
    assert "Synthetic qwen3" in shown.splitlines()[0] and "random weights (seed 99)" in shown
    folder = synth(tmp_path / "m.hf", "tiny_qwen3", "hf", "bf16", 99)
    assert json.loads((folder / "config.json").read_text())["headway_synthetic"]["seed"] == "99"
    raw = (folder / "model.safetensors").read_bytes()
    header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
    assert header["__metadata__"]["headway.synthetic"] == "true"
    assert "random weights (seed 99)" in headway("inspect", folder).stdout


def test_the_same_seed_is_the_same_file_and_another_is_not(tmp_path):
    one, two, other = (synth(tmp_path / f"{i}.gguf", "tiny_qwen3_5_moe", "gguf", "mxfp4", seed).read_bytes()
                       for i, seed in enumerate((5, 5, 6)))
    assert one == two and one != other


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_answers_alike_from_every_format(tmp_path, serve, family):
    answers = {}
    for kind in TYPES:
        path = synth(tmp_path / f"m.{kind}", family, kind, "f32")
        if not inspect(path)["runs"]:
            continue
        server = serve("--model", path, "--ctx", 256, "--parallel", 1)
        reply = server.post("/v1/completions", {"model": "m", "prompt": "abc", "max_tokens": 12, "temperature": 0,
                                                "logprobs": 1}).json()
        assert reply["usage"]["completion_tokens"] > 0, reply
        assert server.chat("hi", max_tokens=4).status_code == 200
        answers[kind] = reply["choices"][0]["text"]
    assert answers and len(set(answers.values())) == 1, answers


@pytest.mark.parametrize("kind,dtype", [("gguf", "f16"), ("gguf", "q8_0"), ("gguf", "q4_0"), ("gguf", "mxfp4"),
                                        ("hf", "bf16"), ("mlx", "mxfp8"), ("mlx", "mxfp4"), ("mlx", "affine4")])
@pytest.mark.parametrize("family", ["tiny_gemma3", "tiny_qwen3_5_moe", "tiny_qwen3_next"])
def test_every_type_chats(tmp_path, serve, family, kind, dtype):
    path = synth(tmp_path / "m", family, kind, dtype)
    assert inspect(path)["runs"] is True
    reply = serve("--model", path, "--ctx", 256, "--parallel", 1).chat("hi", max_tokens=8, temperature=0)
    assert reply.status_code == 200 and reply.json()["usage"]["completion_tokens"] > 0


# --- another reader ---


def safetensors(folder):
    import numpy as np
    raw = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    return {name: np.frombuffer(raw[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]],
                                np.float32).reshape(v["shape"])
            for name, v in header.items() if name != "__metadata__"}


@pytest.mark.parametrize("dtype,bound", [("f32", 0), ("f16", 1e-3), ("bf16", 5e-3), ("q8_0", 0.01), ("q4_0", 0.12),
                                         ("mxfp4", 0.14)])
def test_the_gguf_package_reads_the_weights_of_the_directory(tmp_path, dtype, bound):
    gguf = pytest.importorskip("gguf")
    import numpy as np
    reader = gguf.GGUFReader(synth(tmp_path / "m.gguf", "tiny_qwen3", "gguf", dtype))
    assert bytes(reader.fields["general.architecture"].parts[-1]) == b"qwen3"
    assert bool(reader.fields["headway.synthetic"].parts[-1][0])
    want = safetensors(synth(tmp_path / "m.hf", "tiny_qwen3", "hf", "f32"))
    names = {"token_embd.weight": "model.embed_tokens.weight", "output.weight": "lm_head.weight",
             "output_norm.weight": "model.norm.weight", "blk.1.attn_q.weight": "model.layers.1.self_attn.q_proj.weight",
             "blk.2.ffn_down.weight": "model.layers.2.mlp.down_proj.weight",
             "blk.0.attn_k_norm.weight": "model.layers.0.self_attn.k_norm.weight"}
    seen = 0
    for tensor in reader.tensors:
        if tensor.name not in names:
            continue
        got = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        expected = want[names[tensor.name]]
        error = np.sqrt(((got.reshape(expected.shape) - expected)**2).mean()) / expected.std()
        assert error <= bound, (tensor.name, error)
        seen += 1
    assert seen == len(names) and len(reader.tensors) == len(want)


# --- tokenizers ---


def tokens(model, text):
    done = subprocess.run([HEADWAY, "tokenize", "--model", str(model), "--specials"], input=text, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_vocabulary_of_bytes_is_the_same_in_every_format(tmp_path):
    text = "<|im_start|>hi \u00e9\n"
    ids = [257, *"hi \u00e9\n".encode()]
    for kind in TYPES:
        assert tokens(synth(tmp_path / f"m.{kind}", "tiny_llama", kind, "f32"), text) == ids


def test_a_real_tokenizer_goes_from_file_to_file(tmp_path):
    """A byte-level BPE with merges: from tokenizer.json to GGUF to tokenizer.json, the ids stay."""
    letters = {c: i for i, c in enumerate("abcdefghij\u0120")}
    vocab = {**letters, "ab": 11, "abc": 12, "\u0120a": 13}
    added = [{"id": 14, "content": "<|im_end|>", "special": True, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab, "merges": ["a b", ["ab", "c"], "\u0120 a"]}}))
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    first = synth(tmp_path / "1.gguf", "tiny_llama", "gguf", "f32", 1, "--tokenizer", tmp_path / "tokenizer.json")
    second = synth(tmp_path / "2", "tiny_llama", "hf", "f32", 1, "--tokenizer", first)
    third = synth(tmp_path / "3.gguf", "tiny_llama", "gguf", "f32", 1, "--tokenizer", second / "tokenizer.json")
    fourth = synth(tmp_path / "4.gguf", "tiny_llama", "gguf", "f32", 1, "--tokenizer", first)
    for model in (first, second, third, fourth):
        assert tokens(model, "abcab a<|im_end|>") == [12, 11, 13, 14]
        assert inspect(model)["chat_template"] is True


# --- what goes wrong ---


@pytest.mark.parametrize("arguments,words", [
    (["--out", "x"], "--config FILE is missing"),
    (["--config", "{tiny}"], "--out PATH is missing"),
    (["--config", "{tiny}", "--out", "{new}", "--type", "q5"], '--type: "q5", expected f32'),
    (["--config", "{tiny}", "--out", "{new}", "--format", "onnx"], '--format: "onnx", expected gguf, hf or mlx'),
    (["--config", "{tiny}", "--out", "{new}", "--seed", "-1"], "--seed"),
    (["--config", "nowhere.json", "--out", "{new}"], "nowhere.json"),
    (["--config", "{tiny}", "--out", "{new}", "--type", "affine4"], "format gguf has no type affine4"),
    (["--config", "{tiny}", "--out", "{old}"], "exists already"),
    (["--config", "{tiny}", "--out", "{new}/in/it"], "No such file or directory"),
    (["--config", "{tiny}", "--out", "{new}", "--tokenizer", "nowhere"], "nowhere: cannot be opened"),
    (["--config", "{bad}", "--out", "{new}"], "hidden_size: -3, expected 2 to"),
    (["--config", "{small}", "--out", "{new}"], "vocab_size: 200, expected at least 259"),
])
def test_a_mistake_gets_one_line_that_names_it(tmp_path, arguments, words):
    tiny = json.loads((CONFIGS / "tiny_llama.json").read_text())
    (tmp_path / "old").write_text("")
    (tmp_path / "bad.json").write_text(json.dumps({**tiny, "hidden_size": -3}))
    (tmp_path / "small.json").write_text(json.dumps({**tiny, "vocab_size": 200}))
    places = {"tiny": CONFIGS / "tiny_llama.json", "new": tmp_path / "new", "old": tmp_path / "old",
              "bad": tmp_path / "bad.json", "small": tmp_path / "small.json"}
    done = headway("synth", *(a.format(**places) for a in arguments))
    assert done.returncode in (1, 2) and done.stdout == ""
    assert words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.json", "old", "small.json"]


def test_a_model_larger_than_the_disk_is_refused_at_once(tmp_path):
    config = json.loads((CONFIGS / "qwen3_5_35b_a3b.json").read_text())
    config["text_config"].update(num_experts=4096, num_hidden_layers=400, layer_types=None)
    (tmp_path / "huge.json").write_text(json.dumps(config))
    done = headway("synth", "--config", tmp_path / "huge.json", "--out", tmp_path / "m", "--type", "f32")
    assert done.returncode == 1 and "GB free" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["huge.json"]


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    if shutil.disk_usage(tmp_path).free < 16e9:
        pytest.skip("needs room for a model that takes seconds to write")
    process = subprocess.Popen([HEADWAY, "synth", "--config", CONFIGS / "qwen3_5_35b_width_8_layers.json", "--type",
                                "bf16", "--format", "hf", "--out", tmp_path / "m"], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("m.part/*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    shards = list(tmp_path.glob("m.part/*.safetensors"))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130 and "stopped" in process.stderr.read()
    assert shards and list(tmp_path.iterdir()) == []
