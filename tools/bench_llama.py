#!/usr/bin/env python3
"""One measurement of llama.cpp through llama-cpp-python: prefill and decode rates of a GGUF file, as one JSON object.

usage: bench_llama.py FILE THREADS FLASH(0|1) PREFILL_LIST DEPTH_LIST TOKENS
"""
import ctypes, json, sys, time
import numpy as np
import llama_cpp as L

path, threads, flash = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lengths = [int(n) for n in sys.argv[4].split(",") if n]
depths = [int(n) for n in sys.argv[5].split(",") if n]
tokens = int(sys.argv[6])
L.llama_backend_init()
quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda a, b, c: None)
L.llama_log_set(quiet, None)
model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
params = L.llama_context_default_params()
params.n_ctx, params.n_batch, params.n_ubatch = 8192, 2048, 512
params.n_threads = params.n_threads_batch = threads
if hasattr(params, "flash_attn_type"):
    params.flash_attn_type = flash
else:
    params.flash_attn = bool(flash)
context = L.llama_init_from_model(model, params)
vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
rng = np.random.default_rng(0)


def feed(ids):
    array = (L.llama_token * len(ids))(*[int(i) for i in ids])
    assert L.llama_decode(context, L.llama_batch_get_one(array, len(ids))) == 0
    L.llama_synchronize(context)


def prefill(count):
    L.llama_memory_clear(L.llama_get_memory(context), True)
    ids = rng.integers(0, vocab, count)
    start = time.perf_counter()
    for at in range(0, count, 2048):
        feed(ids[at:at + 2048])
    return count / (time.perf_counter() - start)


out = {}
feed([1])
for n in lengths:
    out[f"prefill{n}"] = prefill(n)
for depth in depths:
    L.llama_memory_clear(L.llama_get_memory(context), True)
    if depth:
        prefill(depth)
    feed([1])
    start = time.perf_counter()
    for _ in range(tokens):
        feed([int(rng.integers(0, vocab))])
    out[f"decode{depth}"] = tokens / (time.perf_counter() - start)
print(json.dumps(out))
