#!/usr/bin/env python3
"""Writes a llama of hidden 2,048 and 4 layers with seeded random weights (f16), to measure block types that small
models cannot use.

usage: random_llama.py OUT.gguf
"""
import os, sys
import numpy as np
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "numeric"))
import gguf_writer

V, H, F, L, HEADS, KV = 4096, 2048, 5632, 4, 32, 8
rng = np.random.default_rng(0)
t = {"token_embd.weight": rng.standard_normal((V, H), np.float32), "output_norm.weight": np.ones(H, np.float32)}
for i in range(L):
    shapes = {"attn_q": (H, H), "attn_k": (KV * 64, H), "attn_v": (KV * 64, H), "attn_output": (H, H),
              "ffn_gate": (F, H), "ffn_up": (F, H), "ffn_down": (H, F)}
    for name, shape in shapes.items():
        t[f"blk.{i}.{name}.weight"] = rng.standard_normal(shape, np.float32) / np.float32(shape[1] ** 0.5)
    t[f"blk.{i}.attn_norm.weight"] = t[f"blk.{i}.ffn_norm.weight"] = np.ones(H, np.float32)
m = {
    "general.architecture": "llama",
    "general.name": "random llama 2048",
    "llama.block_count": L,
    "llama.context_length": 8192,
    "llama.embedding_length": H,
    "llama.feed_forward_length": F,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 1e5,
    "llama.rope.dimension_count": 64,
    "llama.vocab_size": V,
    "general.file_type": 1,
}
gguf_writer.write(sys.argv[1] + ".part", m | gguf_writer.tokenizer_metadata(V), t, "f16")
os.rename(sys.argv[1] + ".part", sys.argv[1])
