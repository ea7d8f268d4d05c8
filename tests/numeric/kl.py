#!/usr/bin/env python3
"""Mean KL divergence from transformers' f32 logits of the same dequantized weights: Headway's and llama.cpp's, on
the same file and prompts.

usage: kl.py MODEL.gguf MODEL_LOGITS PYTHON_WITH_LLAMA_CPP [PROMPTS [KV_TYPES]]
KV_TYPES is a list such as f16,q8,q4: one line of results has each; with q8 llama.cpp's q8_0 cache stands beside it.
Runs in an environment with torch, transformers and gguf; MODEL_LOGITS is build/tools/model_logits. Prompts are 64
seeded pieces of
this repository's own documents and sources, 96 tokens each, tokenized by llama.cpp so that all three see the same ids.
The last line has the ratio of the two means over the same prompts, with the range that 95% of draws of as many prompts
give.
"""
import glob, json, os, random, subprocess, sys, tempfile
import numpy as np

LENGTH = 96
LLAMA = r"""
import ctypes, json, sys, numpy as np, llama_cpp as L
path, job, out, kv = sys.argv[1:]
quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda a, b, c: None)
L.llama_log_set(quiet, None)
model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
vocab = L.llama_model_get_vocab(model)
n_vocab = L.llama_vocab_n_tokens(vocab)
p = L.llama_context_default_params()
p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 512, 512, 512, 2, 2
if kv == "q8":
    p.type_k = p.type_v = 8 # GGML_TYPE_Q8_0; values of that type want flash attention
    if hasattr(p, "flash_attn_type"):
        p.flash_attn_type = 1
    else:
        p.flash_attn = True
ctx = L.llama_init_from_model(model, p)
prompts, result = [], []
for text in json.load(open(job)):
    raw = text.encode()
    ids = (L.llama_token * 4096)()
    n = L.llama_tokenize(vocab, raw, len(raw), ids, 4096, True, False)
    ids = list(ids[:min(n, LENGTH)])
    prompts.append(ids)
    L.llama_memory_clear(L.llama_get_memory(ctx), True)
    batch = L.llama_batch_init(512, 0, 1)
    batch.n_tokens = len(ids)
    for i, t in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = t, i, 1, 0, 1
    assert L.llama_decode(ctx, batch) == 0
    rows = [np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, i), (n_vocab,)).copy() for i in range(len(ids))]
    result.append(np.stack(rows))
    L.llama_batch_free(batch)
np.save(out, np.concatenate(result).astype(np.float32))
json.dump(prompts, open(job + ".ids", "w"))
""".replace("LENGTH", str(LENGTH))


def texts(count):
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    files = sorted(glob.glob(os.path.join(here, "docs/*.md")) + glob.glob(os.path.join(here, "README.md")) +
                   glob.glob(os.path.join(here, "src/*/*.c")))
    text, rng = "\n".join(open(f, encoding="utf-8").read() for f in files), random.Random(5)
    return [text[at:at + 1200] for at in (rng.randrange(len(text) - 1200) for _ in range(count))]


def kl(reference, other):
    """torch f32 logits -> mean KL(reference || other) and the share of equal argmax"""
    import torch
    p, q = torch.log_softmax(reference.double(), -1), torch.log_softmax(other.double(), -1)
    return float((p.exp() * (p - q)).sum(-1).mean()), float((p.argmax(-1) == q.argmax(-1)).double().mean())


def logits_of_all(model_path, tool, python, group, types):
    """prompts as ids, and {(engine, KV type): logits}"""
    with tempfile.TemporaryDirectory() as folder:
        job, file, out = folder + "/job.json", folder + "/logits", {}
        json.dump(group, open(job, "w"))
        for kv in [t for t in types if t in ("f16", "q8")] or ["f16"]:
            subprocess.run([python, "-c", LLAMA, model_path, job, file + ".npy", kv], check=True)
            out["llama.cpp", kv] = np.load(file + ".npy")
        prompts, shape = json.load(open(job + ".ids")), next(iter(out.values())).shape
        lines = "".join(" ".join(map(str, ids)) + "\n" for ids in prompts)
        for kv in types:
            subprocess.run([tool, model_path, file, "0", "2", kv], input=lines, text=True, check=True)
            out["headway", kv] = np.fromfile(file, np.float32).reshape(shape)
        return prompts, out


def paired(ours, theirs, rounds=10000):
    """Ratio of the means over the same prompts, and where 95% of them lie when the prompts are drawn again."""
    ours, theirs, rng = np.array(ours), np.array(theirs), np.random.default_rng(1)
    drawn = rng.integers(0, len(ours), (rounds, len(ours)))
    ratios = ours[drawn].mean(1) / theirs[drawn].mean(1)
    return [float(ours.mean() / theirs.mean()), *map(float, np.quantile(ratios, (0.025, 0.975)))]


def main():
    import torch, transformers
    transformers.utils.logging.disable_progress_bar()
    model_path, tool, python = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 64
    types = sys.argv[5].split(",") if len(sys.argv) > 5 else ["f16"]
    torch.set_num_threads(2)
    folder, file = os.path.split(os.path.abspath(model_path))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    sums, agree, work, done = {}, {}, texts(count), 0
    for at in range(0, count, 8):
        prompts, logits = logits_of_all(model_path, tool, python, work[at:at + 8], types)
        row = 0
        for ids in prompts:
            with torch.no_grad():
                reference = model(torch.tensor([ids])).logits[0]
            for name, rows in logits.items():
                d, same = kl(reference, torch.from_numpy(rows[row:row + len(ids), :reference.shape[1]]))
                sums.setdefault(name, []).append(d)
                agree.setdefault(name, []).append(same)
            row += len(ids)
            done += 1
        so_far = {
            " ".join(name): {"mean_kl": float(np.mean(v)), "same_argmax": float(np.mean(agree[name]))}
            for name, v in sorted(sums.items())
        }
        print(json.dumps({"model": file, "prompts": done, **so_far}), flush=True)
    for kv in types:
        if ("llama.cpp", kv) in sums:
            ratio = paired(sums["headway", kv], sums["llama.cpp", kv])
            print(json.dumps({"model": file, "prompts": done, "kv": kv, "headway_by_llama_cpp": ratio}), flush=True)


main()
