#!/usr/bin/env python3
"""Writes tests/unit/text/tokenizer_vectors.json: ids by the Python package `tokenizers`, so that the unit test
runs without it.

    HEADWAY_SHARED=../shared tests/numeric/tokenizer_vectors.py

"models": real vocabularies (not in the tree; the test skips what is absent), each with texts and ids, control tokens as
text. "small": complete little tokenizer.json files that use the features which the real ones do not, with ids, control
tokens parsed.
"""

import json
import lzma
import os
import random

from tokenizers import Tokenizer

import tokenizer_check as check
import tokenizer_texts as texts

OUT = os.path.join(os.path.dirname(__file__), "..", "unit", "text", "tokenizer_vectors.json")
LETTERS = "abcdefghijklmnopqrstuvwxyz ABC'.,!01239\n\t\u2581éA\u030aﬁ"


def little(**parts):
    """A vocabulary over a few letters, with merges that compete."""
    merges = [
        "a b",
        "ab c",
        "b c",
        "a a",
        "aa aa",
        "\u2581 a",
        "\u2581 \u2581",
        "\u2581a b",
        "t h",
        "th e",
        "1 2",
        "12 3",
        "\u0120 a",
        "\u0120a b",
        "\u0120 t",
        "\u0120t h",
        "\u0120th e",
        "\u00c3 \u00a9",
        "bc d",
        "c d",
        "a bc",
        "\u2581 the",
    ]
    alphabet = sorted(set("abcdehtx.!'0123\u2581\u0120\u010aABC\u00c3\u00a9") | set(parts.pop("alphabet", "")))
    tokens = ["<unk>"] + alphabet + [m.replace(" ", "") for m in merges] + parts.pop("tokens", [])
    vocab = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
    model = {"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>"} | parts.pop("model", {})
    base = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    added = [
        {
            "id": len(vocab) + i,
            "special": False,
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
            "normalized": False,
        }
        | a
        for i, a in enumerate(parts.pop("added", []))
    ]
    return base | parts | {"added_tokens": added}


def byte_tokens():
    return [f"<0x{b:02X}>" for b in range(256)]


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def small_files():
    spaces = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        ],
    }
    yield "llama2 style", little(
        normalizer=spaces,
        tokens=byte_tokens(),
        model={"byte_fallback": True, "fuse_unk": True},
        added=[{"content": "<s>", "special": True}, {"content": "ab"}],
    )
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            yield f"metaspace {scheme} {cut}", little(
                pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut},
                added=[{"content": "<s>", "special": True}],
            )
    yield "unk apart", little(model={"fuse_unk": False})
    yield "unk fused", little(model={"fuse_unk": True})
    yield "no unk", little(model={"unk_token": None})
    yield "ignore merges", little(
        model={"ignore_merges": True}, pre_tokenizer=split({"String": " "}, "Removed"), tokens=["abcab", "theab"]
    )
    yield "strips", little(
        added=[
            {"content": "<l>", "lstrip": True},
            {"content": "<r>", "rstrip": True, "special": True},
            {"content": "<lr>", "lstrip": True, "rstrip": True},
            {"content": "the", "single_word": True},
        ]
    )
    yield "normalized added", little(
        normalizer={"type": "NFKC"},
        added=[
            {"content": "\ufb01", "normalized": True},
            {"content": "A\u030a", "normalized": False},
            {"content": "ab", "normalized": True, "special": True},
        ],
    )
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield form, little(normalizer={"type": form}, alphabet="éÅfi\u030a\u0301eA")
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield f"split {behavior} {invert}", little(pre_tokenizer=split({"Regex": r"[ab]|\s"}, behavior, invert))
    yield "digits apart", little(pre_tokenizer={"type": "Digits", "individual_digits": True})
    yield "digits together", little(pre_tokenizer={"type": "Digits", "individual_digits": False})
    yield "whitespace", little(pre_tokenizer={"type": "Whitespace"})
    yield "whitespace split", little(pre_tokenizer={"type": "WhitespaceSplit"})
    for prefix in (True, False):
        yield f"byte level {prefix}", little(
            pre_tokenizer={"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True},
            added=[{"content": "<s>", "special": True}],
        )
    yield "stale merges", little(
        model={"merges": ["a b", "b c", "ab c", "a bc", "a a", "aa aa"]}, tokens=["bc", "abc"]
    )


def random_texts(rng, added, count):
    made = []
    for _ in range(count):
        text = ""
        for _ in range(rng.randrange(1, 16)):
            text += (
                rng.choice(added)
                if added and rng.random() < 0.2
                else rng.choice(LETTERS if rng.random() < 0.4 else "abc the ")
            )
        made.append(text)
    return made


def encode(tok, some, specials):
    tok.encode_special_tokens = not specials
    return [{"text": t, "ids": tok.encode(t, add_special_tokens=False).ids} for t in some]


def main():
    all_texts = list(texts.PROSE.values()) + texts.CODE + [texts.EMOJI] + texts.NORMAL + texts.WORDS
    few = [texts.PROSE[k] for k in ("latin", "arabic", "devanagari", "chinese", "japanese", "korean")] + texts.CODE[:2]
    few += [texts.EMOJI, texts.CODE[-1]] + texts.NORMAL[:3]
    smol = os.path.join(check.CACHE, "SmolLM2-135M-Instruct.Q4_1.gguf")
    models = {"smollm2": encode(check.from_gguf(smol), all_texts, False)}
    for name in ("qwen3", "llama3_1", "gemma3", "deepseek_v3"):
        packed = lzma.open(os.path.join(check.SHARED, "tokenizers", name + ".tokenizer.json.xz")).read()
        models[name] = encode(Tokenizer.from_buffer(packed), few, False)
    rng, small = random.Random(7), []
    for name, spec in small_files():
        tok = Tokenizer.from_str(json.dumps(spec))
        some = random_texts(rng, [a["content"] for a in spec["added_tokens"]], 40)
        small.append({"name": name, "json": json.dumps(spec, ensure_ascii=True), "cases": encode(tok, some, True)})
    with open(OUT, "w") as out:
        json.dump({"models": models, "small": small}, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
