#!/usr/bin/env python3
"""Compares `headway tokenize` with the Python package `tokenizers`, id for id.

    tests/numeric/tokenizer_check.py [--headway build/headway] [--only NAME] [--no-repeats] [--gguf NAME=FILE]...

NAME: qwen3 llama3_1 gemma3 deepseek_v3 (from $HEADWAY_SHARED/tokenizers), or a GGUF: smollm2 (found in the cache),
gemma-gguf, qwen2.5. For a GGUF the reference is built from its own arrays; for gemma-gguf from gemma3.tokenizer.json,
whose merges a GGUF does not hold. Prints the differences; exit 1 if there are any.
"""

import argparse
import json
import lzma
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

import tokenizer_texts as texts

SHARED = os.environ.get("HEADWAY_SHARED", "../shared")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "headway", "models")
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def read_gguf(path):
    data = open(path, "rb").read(64 << 20)
    sizes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    at = 24

    def text():
        nonlocal at
        (n,) = struct.unpack_from("<Q", data, at)
        at += 8 + n
        return data[at - n : at].decode("utf-8", "surrogateescape")

    def value(kind):
        nonlocal at
        if kind == 8:
            return text()
        if kind == 9:
            element, n = struct.unpack_from("<IQ", data, at)
            at += 12
            return [value(element) for _ in range(n)]
        (v,) = struct.unpack_from("<" + sizes[kind], data, at)
        at += struct.calcsize(sizes[kind])
        return v

    keys = {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        key = text()
        at += 4
        keys[key] = value(struct.unpack_from("<I", data, at - 4)[0])
    return keys


def from_gguf(path):
    """The tokenizers object that a byte-level GGUF stands for."""
    keys = read_gguf(path)
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    vocab = {t: i for i, t in enumerate(tokens) if types[i] != 5}
    added = [(i, t, types[i]) for i, t in enumerate(tokens) if types[i] in (2, 3, 4)]
    merges = [tuple(m.split(" ", 1)) for m in keys["tokenizer.ggml.merges"]]
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    if keys["tokenizer.ggml.pre"] == "smollm":
        tok.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    elif keys["tokenizer.ggml.pre"] == "qwen2":
        tok.normalizer = normalizers.NFC()
        tok.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    else:
        raise SystemExit(f"no reference for pre-tokenizer {keys['tokenizer.ggml.pre']}")
    for i, t, kind in added:
        token = AddedToken(t, special=kind != 4, normalized=False)
        (tok.add_tokens if kind == 4 else tok.add_special_tokens)([token])
        assert tok.token_to_id(t) == i
    from tokenizers import decoders

    tok.decoder = decoders.ByteLevel()
    return tok


def gemma_reference(path, json_text):
    """gemma3.tokenizer.json with the GGUF's own idea of which added tokens are control tokens."""
    keys = read_gguf(path)
    types = keys["tokenizer.ggml.token_type"]
    spec = json.loads(json_text)
    spec["added_tokens"] = [a | {"special": types[a["id"]] == 3} for a in spec["added_tokens"] if a["id"] < len(types)]
    return Tokenizer.from_str(json.dumps(spec))


def headway(args, path, data, *flags):
    done = subprocess.run([args.headway, "tokenize", "--model", path, *flags], input=data, capture_output=True)
    if done.returncode:
        raise SystemExit(f"headway tokenize failed: {done.stderr.decode()}")
    return done.stdout


def show_difference(name, how, text, want, got):
    at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
    print(
        f"{name} {how}: text {text[:200]!r} ({len(text)} characters)\n  from token {at}: want {want[at:at + 8]}"
        f" got {got[at:at + 8]}; lengths {len(want)} {len(got)}"
    )


def compare(args, name, path, tok, batch, how, *flags):
    start = time.time()
    got = json.loads(headway(args, path, json.dumps(batch).encode(), "--batch", *flags))
    spent = time.time() - start
    tok.encode_special_tokens = "--specials" not in flags
    want = [e.ids for e in tok.encode_batch(batch, add_special_tokens="--bos" in flags)]
    wrong = [i for i in range(len(batch)) if want[i] != got[i]]
    for i in wrong[: args.show]:
        show_difference(name, how, batch[i], want[i], got[i])
    size = sum(len(t.encode()) for t in batch)
    print(
        f"{name} {how}: {len(batch) - len(wrong)} of {len(batch)} texts equal, {size / 1e6:.1f} MB,"
        f" {sum(map(len, want))} ids, headway {spent:.2f} s"
    )
    return len(wrong), want


def check_damaged(args, name, path, tok, rng):
    wrong = 0
    tok.encode_special_tokens = True
    cases = texts.damaged(rng)
    for data in cases:
        got = json.loads(headway(args, path, data))
        want = tok.encode(data.decode("utf-8", "replace"), add_special_tokens=False).ids
        if got != want:
            wrong += 1
            show_difference(name, "invalid UTF-8", data.decode("utf-8", "replace"), want, got)
    print(f"{name} invalid UTF-8: {len(cases) - wrong} of {len(cases)} equal")
    return wrong


def check_decode(args, name, path, tok, encoded, rng):
    """All ids of all texts in one stream, then (byte-level only) random ids, so that characters break anywhere."""
    ids = [i for e in encoded for i in e]
    streams = [ids]
    if "ByteLevel" in str(type(tok.decoder)):
        plain = [i for i in range(tok.get_vocab_size()) if tok.id_to_token(i) is not None]
        streams.append([rng.choice(plain) for _ in range(20000)])
    wrong = 0
    for stream in streams:
        for flags in ([], ["--specials"]):
            got = headway(args, path, json.dumps(stream).encode(), "--decode", *flags).decode()
            want = tok.decode(stream, skip_special_tokens=not flags)
            if got != want:
                wrong += 1
                at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), 0)
                print(f"{name} decode {flags}: at {at} want {want[at:at + 30]!r} got {got[at:at + 30]!r}")
    print(f"{name} decode: {2 * len(streams) - wrong} of {2 * len(streams)} streams equal, {len(ids)} ids")
    return wrong


def check(args, name, path, tok):
    added = [t.content for t in tok.get_added_tokens_decoder().values()]
    batch = texts.all_texts(args.seed, added)
    wrong, encoded = compare(args, name, path, tok, batch, "plain")
    wrong += compare(args, name, path, tok, batch, "specials", "--specials")[0]
    if name in ("qwen3", "llama3_1", "gemma3"):
        wrong += compare(args, name, path, tok, batch[:50], "specials and bos", "--specials", "--bos")[0]
    if not args.no_repeats:
        wrong += compare(args, name, path, tok, texts.repeats(), "1 MB repeats")[0]
    rng = random.Random(args.seed)
    wrong += check_damaged(args, name, path, tok, rng)
    return wrong + check_decode(args, name, path, tok, encoded, rng)


def models_to_check(args, folder):
    for name in ("qwen3", "llama3_1", "deepseek_v3", "gemma3"):
        packed = os.path.join(SHARED, "tokenizers", name + ".tokenizer.json.xz")
        if args.only not in (None, name) or not os.path.exists(packed):
            continue
        path = os.path.join(folder, name + ".tokenizer.json")
        open(path, "wb").write(lzma.open(packed).read())
        yield name, path, Tokenizer.from_file(path)
    ggufs = {"smollm2": os.path.join(CACHE, "SmolLM2-135M-Instruct.Q4_1.gguf")}
    ggufs |= dict(g.split("=", 1) for g in args.gguf)
    for name, path in ggufs.items():
        if args.only not in (None, name):
            continue
        if not os.path.exists(path):
            print(f"{name}: skipped, {path} is not there")
        elif name == "gemma-gguf":
            packed = os.path.join(SHARED, "tokenizers", "gemma3.tokenizer.json.xz")
            yield name, path, gemma_reference(path, lzma.open(packed).read())
        else:
            yield name, path, from_gguf(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headway", default="build/headway")
    parser.add_argument("--only")
    parser.add_argument("--gguf", action="append", default=[])
    parser.add_argument("--no-repeats", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, path, tok in models_to_check(args, folder):
            wrong += check(args, name, path, tok)
    print("all equal" if not wrong else f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
