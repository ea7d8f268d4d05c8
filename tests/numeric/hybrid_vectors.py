"""Tiny random checkpoints of the hybrid and mixture-of-experts families and the logits that transformers computes.

usage: hybrid_vectors.py OUT_FOLDER    (needs torch and transformers; their output is committed, so tests need neither)
For each case NAME: NAME.gguf (bf16 matrices, f32 vectors) and NAME.bin: u32 token_count, u32 vocab, u32 row_count,
i32 tokens[], u32 rows[], f32 logits[row_count][vocab], and the same logits again with keys and values rounded to f16.
Every weight is re-drawn and rounded to bf16; a seed is refused where two experts are too close to tell apart.
"""
import math, os, struct, sys
import numpy as np
import torch
import transformers as T
import gguf_writer

torch.set_num_threads(1)
VOCAB, HIDDEN, FFN, TOKENS, GAP = 128, 64, 96, 150, 3e-5
ROWS = [0, 1, 2, 3, 6, 7, 63, 64, 70, 71, 86, 128, 149]
BASE = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, rms_norm_eps=1e-6, use_cache=False,
            max_position_embeddings=512, attn_implementation="eager", num_attention_heads=4, num_key_value_heads=2,
            head_dim=32)
MOE = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16)
SHARED = dict(MOE, shared_expert_intermediate_size=32)
LINEAR, FULL = "linear_attention", "full_attention"
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
             linear_conv_kernel_dim=4)
ROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25,
                                 mrope_section=[2, 1, 1], mrope_interleaved=True))
CASES = {
    "qwen3moe": (T.Qwen3MoeConfig, T.Qwen3MoeForCausalLM,
                 dict(BASE, **MOE, num_hidden_layers=2, norm_topk_prob=True, mlp_only_layers=[0], rope_theta=1e6,
                      tie_word_embeddings=False)),
    "qwen3moe_raw": (T.Qwen3MoeConfig, T.Qwen3MoeForCausalLM,
                     dict(BASE, **dict(MOE, num_experts=5, num_experts_per_tok=3), num_hidden_layers=1,
                          norm_topk_prob=False, mlp_only_layers=[], rope_theta=1e6, tie_word_embeddings=False)),
    "qwen3next": (T.Qwen3NextConfig, T.Qwen3NextForCausalLM,
                  dict(BASE, **SHARED, **DELTA, num_hidden_layers=2, layer_types=[LINEAR, FULL], norm_topk_prob=True,
                       partial_rotary_factor=0.25, rope_theta=1e7, tie_word_embeddings=False)),
    "qwen35moe": (T.Qwen3_5MoeTextConfig, T.Qwen3_5MoeForCausalLM,
                  dict(BASE, **SHARED, **DELTA, **ROPE, num_hidden_layers=3, layer_types=[LINEAR, LINEAR, FULL],
                       tie_word_embeddings=False)),
    "qwen35": (T.Qwen3_5TextConfig, T.Qwen3_5ForCausalLM,
               dict(BASE, **dict(DELTA, linear_num_value_heads=2), **ROPE, num_hidden_layers=2,
                    layer_types=[LINEAR, FULL], tie_word_embeddings=False)),
    "qwen35_r3": (T.Qwen3_5TextConfig, T.Qwen3_5ForCausalLM,
                  dict(BASE, **dict(DELTA, linear_num_value_heads=6), **ROPE, num_hidden_layers=2,
                       layer_types=[LINEAR, FULL], tie_word_embeddings=True)),
}
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "input_layernorm": "attn_norm", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out", "linear_attn.conv1d": "ssm_conv1d",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}


def redraw(model, seed, centred):
    """centred: norm weights are stored less one, but for the gated norm of the delta layers."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=g)
        if "norm" in name:
            value = noise * 0.3 + (0 if centred and "linear_attn.norm" not in name else 1)
        elif name.endswith("dt_bias"):
            value = noise
        elif name.endswith("A_log"):
            value = torch.log(0.3 + 7.7 * torch.rand(p.shape, generator=g))
        elif "conv1d" in name:
            value = noise * 0.5
        elif "embed_tokens" in name:
            value = noise
        else:
            value = noise / math.sqrt(p.shape[-1]) * (3 if name.endswith("mlp.gate.weight") else 1)
        p.data.copy_(value.to(torch.bfloat16).to(torch.float32))


def tiled(keys):
    """Value heads from grouped by key head to tiled: place j * n_k + g holds head g * r + j."""
    n_k, n_v = keys["linear_num_key_heads"], keys["linear_num_value_heads"]
    return [g * (n_v // n_k) + j for j in range(n_v // n_k) for g in range(n_k)]


def reorder(value, heads, order, start=0, axis=0):
    """Blocks of value heads along an axis, from `start` on."""
    value = np.moveaxis(value, axis, 0)
    tail = value[start:].reshape(heads, -1, *value.shape[1:])[order].reshape(-1, *value.shape[1:])
    return np.moveaxis(np.concatenate([value[:start], tail]), 0, axis)


def split_qkvz(value, keys):
    """Per key head q, k, v of its value heads, z of them -> all q, all k, all v; all z."""
    n_k, d = keys["linear_num_key_heads"], keys["linear_key_head_dim"]
    wide = keys["linear_num_value_heads"] // n_k * keys["linear_value_head_dim"]
    parts = np.split(value.reshape(n_k, -1, HIDDEN), [d, 2 * d, 2 * d + wide], axis=1)
    q, k, v, z = (p.reshape(-1, HIDDEN) for p in parts)
    return np.concatenate([q, k, v]), z


def tensors_of(model, arch, keys):
    out = {}
    heads = keys.get("linear_num_value_heads", 1)
    order = tiled(keys) if arch in ("qwen35", "qwen35moe") else list(range(heads))
    start = 2 * keys.get("linear_num_key_heads", 0) * keys.get("linear_key_head_dim", 0)
    for name, p in model.named_parameters():
        value = p.data.numpy().astype(np.float32)
        if not name.startswith("model.layers."):
            known = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                     "lm_head.weight": "output.weight"}[name]
            if known != "output.weight" or not keys["tie_word_embeddings"]:
                out[known] = value + (1 if "norm" in known and arch != "qwen3moe" else 0)
            continue
        _, _, n, rest = name.split(".", 3)
        blk = f"blk.{n}."
        if rest == "mlp.experts.gate_up_proj":
            if arch == "qwen3next":
                out[blk + "ffn_gate_up_exps.weight"] = value
            else:
                out[blk + "ffn_gate_exps.weight"], out[blk + "ffn_up_exps.weight"] = np.split(value, 2, axis=1)
        elif rest == "mlp.experts.down_proj":
            out[blk + "ffn_down_exps.weight"] = value
        elif rest == "linear_attn.in_proj_qkvz.weight":
            out[blk + "attn_qkv.weight"], out[blk + "attn_gate.weight"] = split_qkvz(value, keys)
        elif rest == "linear_attn.A_log":
            out[blk + "ssm_a"] = reorder(-np.exp(value), heads, order)
        elif rest == "linear_attn.dt_bias":
            out[blk + "ssm_dt.bias"] = reorder(value, heads, order)
        else:
            module = rest.removesuffix(".weight")
            post = "post_attention_norm" if arch != "qwen3moe" else "ffn_norm"
            known = post if module == "post_attention_layernorm" else NAMES[module]
            if module == "linear_attn.conv1d":
                value = reorder(value[:, 0, :], heads, order, start)
            elif module == "linear_attn.in_proj_qkv":
                value = reorder(value, heads, order, start)
            elif module in ("linear_attn.in_proj_z", "linear_attn.in_proj_a", "linear_attn.in_proj_b"):
                value = reorder(value, heads, order)
            elif module == "linear_attn.out_proj":
                value = reorder(value, heads, order, axis=1)
            elif "norm" in module and module != "linear_attn.norm" and arch != "qwen3moe":
                value = value + 1
            elif module == "mlp.shared_expert_gate":
                value = value[0]
            out[blk + known + ".weight"] = value
    if arch == "qwen35moe":  # as a file with multi-token prediction has it: one layer more, which is not run
        out["blk.3.nextn.enorm.weight"] = out["blk.3.nextn.hnorm.weight"] = np.ones(HIDDEN, np.float32)
    return out


def metadata_of(arch, keys):
    m = {"general.architecture": arch, "general.name": f"tiny {arch}", f"{arch}.block_count": keys["num_hidden_layers"],
         f"{arch}.context_length": 512, f"{arch}.embedding_length": HIDDEN, f"{arch}.feed_forward_length": FFN,
         f"{arch}.attention.head_count": 4, f"{arch}.attention.head_count_kv": 2, f"{arch}.attention.key_length": 32,
         f"{arch}.attention.value_length": 32, f"{arch}.attention.layer_norm_rms_epsilon": 1e-6,
         f"{arch}.rope.freq_base": 1e6 if arch == "qwen3moe" else 1e7}
    if "num_experts" in keys:
        m |= {f"{arch}.expert_count": keys["num_experts"], f"{arch}.expert_used_count": keys["num_experts_per_tok"],
              f"{arch}.expert_feed_forward_length": keys["moe_intermediate_size"],
              f"{arch}.expert_weights_norm": keys.get("norm_topk_prob", True)}
    if "shared_expert_intermediate_size" in keys:
        m[f"{arch}.expert_shared_feed_forward_length"] = keys["shared_expert_intermediate_size"]
    if "linear_num_key_heads" in keys:
        heads, wide = keys["linear_num_value_heads"], keys["linear_value_head_dim"]
        m |= {f"{arch}.ssm.conv_kernel": 4, f"{arch}.ssm.state_size": keys["linear_key_head_dim"],
              f"{arch}.ssm.group_count": keys["linear_num_key_heads"], f"{arch}.ssm.time_step_rank": heads,
              f"{arch}.ssm.inner_size": heads * wide, f"{arch}.rope.dimension_count": 8,
              f"{arch}.full_attention_interval": keys["num_hidden_layers"]}
    if arch == "qwen35moe":
        m |= {f"{arch}.block_count": 4, f"{arch}.nextn_predict_layers": 1}
    return m | gguf_writer.tokenizer_metadata(VOCAB)


def run(model, ids, used):
    """Logits, the smallest gap between a used expert and the next, and which were used."""
    gaps, picks, hooks = [1.0], [], []

    def watch(module, inputs, _):
        p = torch.softmax(inputs[0].reshape(-1, HIDDEN) @ module.weight.T, -1).sort(-1, descending=True)
        gaps.append(float((p.values[:, used - 1] - p.values[:, used]).min()))
        picks.append(p.indices[:, :used])

    for name, module in model.named_modules():
        if name.endswith("mlp.gate"):
            hooks.append(module.register_forward_hook(watch))
    with torch.no_grad():
        logits = model(ids).logits[0].numpy().astype("<f4")
    for h in hooks:
        h.remove()
    return logits, min(gaps), picks


def with_f16_cache(model, ids, used):
    module = sys.modules[type(model).__module__]
    plain = module.eager_attention_forward

    def rounded(layer, query, key, value, *args, **kwargs):
        return plain(layer, query, key.half().float(), value.half().float(), *args, **kwargs)

    module.eager_attention_forward = rounded
    out = run(model, ids, used)
    module.eager_attention_forward = plain
    return out


def make(folder, name, config_class, model_class, keys):
    arch = name.split("_")[0]
    torch.manual_seed(0)
    model = model_class(config_class(**keys)).eval().float()
    used = keys.get("num_experts_per_tok", 1)
    ids = torch.randint(0, VOCAB, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    for seed in range(7, 200):
        redraw(model, seed, arch != "qwen3moe")
        logits, gap, picks = run(model, ids, used)
        rounded, rounded_gap, rounded_picks = with_f16_cache(model, ids, used)
        same = all(torch.equal(a, b) for a, b in zip(picks, rounded_picks))
        if min(gap, rounded_gap) > GAP and same:
            break
    else:
        raise SystemExit(f"{name}: no seed keeps its experts apart")
    gguf_writer.write(f"{folder}/{name}.gguf", metadata_of(arch, keys), tensors_of(model, arch, keys), "bf16")
    with open(f"{folder}/{name}.bin", "wb") as f:
        f.write(struct.pack("<III", TOKENS, VOCAB, len(ROWS)) + ids[0].numpy().astype("<i4").tobytes() +
                np.array(ROWS, "<u4").tobytes() + logits[ROWS].tobytes() + rounded[ROWS].tobytes())
    print(name, "seed", seed, "gap", gap, "f16 cache moves", abs(logits - rounded).max(), "of",
          logits.max() - logits.min())


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, case in CASES.items():
        make(sys.argv[1], name, *case)


if __name__ == "__main__":
    main()
