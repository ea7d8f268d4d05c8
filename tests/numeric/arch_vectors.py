"""Tiny random checkpoints of each architecture and the logits that Hugging Face transformers computes for them.

usage: arch_vectors.py OUT_FOLDER      (needs torch and transformers; their output is committed, so tests need neither)
For each case NAME: NAME.gguf (bf16 matrices, f32 vectors) and NAME.bin: u32 token_count, u32 vocab, i32 tokens[],
f32 logits[token_count][vocab],
and the same logits again with keys and values rounded to f16 before attention, as an engine with an f16 cache has them.
Every weight is re-drawn (default initialisation hides bugs) and rounded to bf16 before the reference run.
"""
import math, os, struct, sys
import numpy as np
import torch
import transformers as T
import gguf_writer

torch.set_num_threads(1)
VOCAB, HIDDEN, FFN, TOKENS = 128, 64, 96, 150
BASE = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=3, rms_norm_eps=1e-5,
            max_position_embeddings=512, attn_implementation="eager", use_cache=False)
LLAMA = dict(BASE, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
CASES = {
    "llama": (T.LlamaConfig, T.LlamaForCausalLM, dict(LLAMA, rope_theta=1e5, tie_word_embeddings=True)),
    "llama_untied": (T.LlamaConfig, T.LlamaForCausalLM, dict(LLAMA, rope_theta=1e5, tie_word_embeddings=False)),
    "llama_llama3": (
        T.LlamaConfig,
        T.LlamaForCausalLM,
        dict(
            LLAMA,
            rope_theta=5e5,
            tie_word_embeddings=True,
            rope_scaling={
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        ),
    ),
    "llama_linear": (
        T.LlamaConfig,
        T.LlamaForCausalLM,
        dict(LLAMA, rope_theta=1e5, tie_word_embeddings=True, rope_scaling={"rope_type": "linear", "factor": 2.0}),
    ),
    "llama_yarn": (
        T.LlamaConfig,
        T.LlamaForCausalLM,
        dict(
            LLAMA,
            rope_theta=1e5,
            tie_word_embeddings=True,
            rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        ),
    ),
    "qwen2": (
        T.Qwen2Config,
        T.Qwen2ForCausalLM,
        dict(BASE, num_attention_heads=4, num_key_value_heads=2, rope_theta=1e6, tie_word_embeddings=True),
    ),
    "qwen3": (
        T.Qwen3Config,
        T.Qwen3ForCausalLM,
        dict(
            BASE, num_attention_heads=4, num_key_value_heads=2, head_dim=32, rope_theta=1e6, tie_word_embeddings=False
        ),
    ),
    "gemma3": (
        T.Gemma3TextConfig,
        T.Gemma3ForCausalLM,
        dict(
            BASE,
            num_hidden_layers=7,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=32,
            query_pre_attn_scalar=24,
            sliding_window=8,
            rope_theta=1e6,
            rope_local_base_freq=1e4,
            tie_word_embeddings=True,
            final_logit_softcapping=30.0,
            layer_types=["full_attention" if i % 3 == 2 else "sliding_attention" for i in range(7)],
        ),
    ),
}
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
}


def redraw(model, gemma):
    g = torch.Generator().manual_seed(7)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if "norm" in name:
            value = noise * 0.3 + (0 if gemma else 1)
        elif name.endswith("bias"):
            value = noise * 0.2
        elif "embed_tokens" in name:
            value = noise
        else:
            value = noise / math.sqrt(p.shape[-1])
        p.data.copy_(value.to(torch.bfloat16).to(torch.float32))


def gguf_name(name, gemma):
    if not name.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                "lm_head.weight": "output.weight"}[name]
    _, _, n, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    special = {"post_attention_layernorm": "post_attention_norm" if gemma else "ffn_norm",
               "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
    return f"blk.{n}.{special.get(module) or NAMES[module]}.{kind}"


def tensors_of(model, config, arch, gemma):
    out = {}
    for name, p in model.named_parameters():
        value = p.data.numpy().astype(np.float32)
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if gemma and "norm" in name:
            value = value + 1
        if arch == "llama" and (".q_proj." in name or ".k_proj." in name):  # rows permuted: adjacent pairs turn
            d = config.head_dim
            value = value.reshape(-1, 2, d // 2, HIDDEN).swapaxes(1, 2).reshape(-1, HIDDEN)
        out[gguf_name(name, gemma)] = value
    return out


def metadata_of(config, arch, keys):
    theta = keys["rope_theta"]
    d = keys.get("head_dim", HIDDEN // keys["num_attention_heads"])
    m = {"general.architecture": arch, "general.name": f"tiny {arch}", f"{arch}.block_count": keys["num_hidden_layers"],
         f"{arch}.context_length": 512, f"{arch}.embedding_length": HIDDEN, f"{arch}.feed_forward_length": FFN,
         f"{arch}.attention.head_count": keys["num_attention_heads"],
         f"{arch}.attention.head_count_kv": keys["num_key_value_heads"], f"{arch}.attention.key_length": d,
         f"{arch}.attention.value_length": d, f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
         f"{arch}.rope.freq_base": float(theta)}
    scaling = keys.get("rope_scaling") or {}
    if scaling.get("rope_type") in ("linear", "yarn"):
        m[f"{arch}.rope.scaling.type"] = scaling["rope_type"]
        m[f"{arch}.rope.scaling.factor"] = scaling["factor"]
        if "original_max_position_embeddings" in scaling:
            m[f"{arch}.rope.scaling.original_context_length"] = 64
    if arch == "gemma3":
        m.update({"gemma3.attention.sliding_window": 8, "gemma3.attention.sliding_window_pattern": 3,
                  "gemma3.attention.scale": 24 ** -0.5, "gemma3.final_logit_softcapping": 30.0})
    return m | gguf_writer.tokenizer_metadata(VOCAB)


def llama3_factors(model, keys):
    plain = keys["rope_theta"] ** (-np.arange(0, 16, 2) / 16)
    return (plain / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32)


def with_f16_cache(model, ids):
    module = sys.modules[type(model).__module__]
    plain = module.eager_attention_forward

    def rounded(layer, query, key, value, *args, **kwargs):
        return plain(layer, query, key.half().float(), value.half().float(), *args, **kwargs)

    module.eager_attention_forward = rounded
    logits = model(ids).logits[0].numpy().astype("<f4")
    module.eager_attention_forward = plain
    return logits


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, (config_class, model_class, keys) in CASES.items():
        arch = name.split("_")[0]
        gemma = arch == "gemma3"
        torch.manual_seed(0)
        config = config_class(**keys)
        model = model_class(config).eval().float()
        redraw(model, gemma)
        if gemma:
            scale = getattr(model.model.embed_tokens, "embed_scale", None)
            print("gemma embed scale", scale)
        tensors = tensors_of(model, config, arch, gemma)
        if name == "llama_llama3":
            tensors["rope_freqs.weight"] = llama3_factors(model, keys)
        gguf_writer.write(f"{folder}/{name}.gguf", metadata_of(config, arch, keys), tensors, "bf16")
        ids = torch.randint(0, VOCAB, (1, TOKENS), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            logits = model(ids).logits[0].numpy().astype("<f4")
            rounded = with_f16_cache(model, ids)
        with open(f"{folder}/{name}.bin", "wb") as f:
            f.write(
                struct.pack("<II", TOKENS, VOCAB)
                + ids[0].numpy().astype("<i4").tobytes()
                + logits.tobytes()
                + rounded.tobytes()
            )
        print(
            name,
            logits.shape,
            float(logits.min()),
            float(logits.max()),
            "f16 cache moves",
            abs(logits - rounded).max(),
        )


main()
