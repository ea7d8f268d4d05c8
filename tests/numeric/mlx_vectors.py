"""Tiny directories as mlx-lm writes them, the logits it computes from them, and quantized matrices with their values.

usage: mlx_vectors.py OUT_FOLDER SOURCE_FOLDER     (needs mlx, mlx-cpu and mlx-lm; the output is committed)
SOURCE_FOLDER/qwen3 and SOURCE_FOLDER/qwen35moe are Hugging Face directories of hf_vectors.py's --mlx-sources.
For each case NAME: the directory NAME and NAME.bin as hf_vectors.py has them; the cache keeps f32 here.
modes/: model.safetensors with one matrix per mode, and values.bin: for each, in the order of MODES, f32 [ROWS][COLS].
"""
import json, os, shutil, struct, sys
import mlx.core as mx
import numpy as np
from mlx_lm import convert
from mlx_lm.utils import load_model
from pathlib import Path

ROWS, COLS, TOKENS = 4, 256, 30
MODES = [("affine", 32, 2), ("affine", 64, 3), ("affine", 64, 4), ("affine", 128, 5), ("affine", 32, 6),
         ("affine", 64, 8), ("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]


def write_modes(folder):
    os.makedirs(folder, exist_ok=True)
    tensors, modules, values = {}, {}, b""
    for i, (mode, group, bits) in enumerate(MODES):
        w = mx.random.normal((ROWS, COLS), key=mx.random.key(i)) * 0.1
        w = w.astype([mx.bfloat16, mx.float16, mx.float32][i % 3])
        parts = mx.quantize(w, group_size=group, bits=bits, mode=mode)
        name = f"layers.{i}.w"
        for part, suffix in zip(parts, ("weight", "scales", "biases")):
            tensors[f"{name}.{suffix}"] = part
        modules[name] = {"group_size": group, "bits": bits} | ({"mode": mode} if mode != "affine" else {})
        if mode == "affine":
            wide = [parts[0], parts[1].astype(mx.float32), parts[2].astype(mx.float32)]
            value = mx.dequantize(*wide, group_size=group, bits=bits, mode=mode)
        else:
            value = mx.dequantize(*parts, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        values += np.array(value.astype(mx.float32)).astype("<f4").tobytes()
    mx.save_safetensors(f"{folder}/model.safetensors", tensors, {"format": "mlx"})
    json.dump({"model_type": "qwen3", "quantization": {"group_size": 64, "bits": 4, **modules}},
              open(f"{folder}/config.json", "w"), indent=1)
    open(f"{folder}/values.bin", "wb").write(values)


def mixed(path, module):
    """Another width for each projection, so that every one is a per-module override."""
    widths = {"q_proj": 2, "k_proj": 3, "v_proj": 5, "o_proj": 6, "gate_proj": 8, "lm_head": 6, "embed_tokens": 8}
    for name, bits in widths.items():
        if path.endswith(name):
            return {"group_size": 32, "bits": bits}
    return True


def floats(path, module):
    return {"group_size": 16, "bits": 4, "mode": "nvfp4"} if path.endswith("q_proj") else {
        "group_size": 32, "bits": 4, "mode": "mxfp4"} if path.endswith("o_proj") else not path.endswith("v_proj")


CASES = {"mlx_affine": ("qwen3", dict(q_group_size=64, q_bits=4, quant_predicate=mixed)),
         "mlx_floats": ("qwen3", dict(q_group_size=32, q_bits=8, q_mode="mxfp8", quant_predicate=floats)),
         "mlx_qwen35moe": ("qwen35moe", dict(q_group_size=32, q_bits=8, q_mode="mxfp8"))}


def write_case(out, name, source, options):
    folder = f"{out}/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    convert(source, folder, quantize=True, **options)
    for extra in os.listdir(folder):
        if extra == "README.md":
            os.remove(f"{folder}/{extra}")
    model, config = load_model(Path(folder))
    model.set_dtype(mx.float32)
    ids = np.random.default_rng(1).integers(0, 300, TOKENS).astype("<i4")
    ids %= config.get("text_config", config)["vocab_size"]
    logits = np.array(model(mx.array(ids)[None])[0].astype(mx.float32)).astype("<f4")
    with open(f"{out}/{name}.bin", "wb") as f:
        f.write(struct.pack("<II", *logits.shape) + ids.tobytes() + logits.tobytes())
    print(name, logits.shape, float(logits.min()), float(logits.max()), sorted(os.listdir(folder)))


if __name__ == "__main__":
    write_modes(f"{sys.argv[1]}/modes")
    for case, (source, options) in CASES.items():
        write_case(sys.argv[1], case, f"{sys.argv[2]}/{source}", options)
