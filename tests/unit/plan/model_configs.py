#!/usr/bin/env python3
"""Makes model_configs.jsonl beside this file: config.json files of every family, with the number of parameters that the
classes of transformers have for them. Needs torch and transformers 5; no weights are made (device "meta").

Tiny shapes have no two sizes alike, so that a matrix counted with the wrong one shows. Real ones carry a name of the
catalogue: its row must come to the same count. Draft layers have no class, so the configs say nothing of them."""
import json
import pathlib

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText

KEEP = """model_type hidden_size vocab_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
intermediate_size tie_word_embeddings attention_bias mlp_bias layer_types full_attention_interval sliding_window
attention_chunk_size num_experts num_local_experts n_routed_experts num_experts_per_tok moe_intermediate_size
shared_expert_intermediate_size decoder_sparse_step mlp_only_layers mlp_layer_types n_shared_experts
first_k_dense_replace q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim use_qk_norm
linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim linear_conv_kernel_dim
intermediate_size_mlp interleave_moe_layer_step text_config vision_config depth out_hidden_size
num_position_embeddings patch_size temporal_patch_size spatial_merge_size in_channels image_size projector_input_dim
projector_output_dim vision_output_dim""".split()
# transformers lists full_attention for every layer of these, as the files on the hub do not
PLAIN = {"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def sizes(layers, hidden, vocab, heads, kv_heads, head_dim, feed_forward, **more):
    named = {"num_hidden_layers": layers, "hidden_size": hidden, "vocab_size": vocab, "num_attention_heads": heads,
             "num_key_value_heads": kv_heads, "head_dim": head_dim, "intermediate_size": feed_forward}
    return {key: value for key, value in named.items() if value} | more


def linear(key_heads, value_heads, key_dim=128, value_dim=128):
    return {"linear_num_key_heads": key_heads, "linear_num_value_heads": value_heads, "linear_key_head_dim": key_dim,
            "linear_value_head_dim": value_dim, "linear_conv_kernel_dim": 4}


def experts(count, used, width, shared=0):
    named = {"num_experts": count, "num_experts_per_tok": used, "moe_intermediate_size": width}
    return named | ({"shared_expert_intermediate_size": shared} if shared else {})


def routed(count, used, width, shared, dense):
    return {"n_routed_experts": count, "num_experts_per_tok": used, "moe_intermediate_size": width,
            "n_shared_experts": shared, "first_k_dense_replace": dense, "n_group": 1, "topk_group": 1}


LATENT = {"kv_lora_rank": 32, "q_lora_rank": 48, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 24}
SMALL = (5, 96, 512, 6, 2, 20, 160)
TINY = [
    ("llama", sizes(*SMALL)),
    ("llama", sizes(5, 96, 512, 6, 2, 0, 160, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    ("mistral", sizes(*SMALL, sliding_window=64)),
    ("mixtral", sizes(*SMALL, num_local_experts=5, num_experts_per_tok=2)),
    ("qwen2", sizes(5, 96, 512, 6, 2, 0, 160)),
    ("qwen2_moe", sizes(5, 96, 512, 6, 2, 0, 160, decoder_sparse_step=2, mlp_only_layers=[1], **experts(7, 2, 32, 48))),
    ("qwen3", sizes(*SMALL)),
    ("qwen3", sizes(*SMALL, attention_bias=True)),
    ("qwen3_moe", sizes(*SMALL, mlp_only_layers=[2], **experts(7, 2, 32))),
    ("qwen3_next", sizes(*SMALL, **experts(7, 2, 32, 48), **linear(2, 6, 12, 28))),
    ("qwen3_5_text", sizes(*SMALL, **linear(2, 6, 12, 28))),
    ("qwen3_5_moe_text", sizes(5, 96, 512, 6, 2, 20, 0, **experts(7, 2, 32, 48), **linear(2, 6, 12, 28))),
    ("gemma2", sizes(*SMALL)),
    ("gemma3_text", sizes(13, 96, 512, 6, 2, 20, 160, sliding_window=32)),
    ("phi3", sizes(5, 96, 512, 6, 2, 0, 160, **IDS)),
    ("smollm3", sizes(5, 96, 512, 6, 2, 0, 160, **IDS)),
    ("granite", sizes(5, 96, 512, 6, 2, 0, 160)),
    ("olmo2", sizes(5, 96, 512, 6, 2, 0, 160, **IDS)),
    ("olmo3", sizes(5, 96, 512, 6, 2, 0, 160, sliding_window=64, **IDS)),
    ("gpt_oss", sizes(5, 96, 512, 6, 2, 20, 56, num_local_experts=7, num_experts_per_tok=2)),
    ("minimax_m2", sizes(*SMALL, num_local_experts=7, num_experts_per_tok=2)),
    ("llama4_text", sizes(8, 96, 512, 6, 2, 20, 64, intermediate_size_mlp=128, num_local_experts=7,
                          interleave_moe_layer_step=2)),
    ("deepseek_v2", sizes(5, 96, 512, 4, 4, 0, 160, **routed(7, 2, 32, 2, 2), **LATENT | {"q_lora_rank": None})),
    ("deepseek_v3", sizes(5, 96, 512, 4, 4, 0, 160, **routed(7, 2, 32, 2, 2), **LATENT)),
    ("glm4_moe", sizes(*SMALL, attention_bias=True, use_qk_norm=True, **routed(7, 2, 32, 1, 1))),
    ("qwen3_5", {
        "text_config": sizes(*SMALL, **linear(2, 6, 12, 28)),
        "vision_config": {"depth": 3, "hidden_size": 32, "num_heads": 4, "intermediate_size": 72, "patch_size": 8,
                          "out_hidden_size": 96, "temporal_patch_size": 2, "spatial_merge_size": 2,
                          "num_position_embeddings": 49}}),
    ("gemma3", {
        "text_config": sizes(13, 96, 512, 6, 2, 20, 160, sliding_window=32),
        "mm_tokens_per_image": 4,
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 32, "num_hidden_layers": 3,
                          "intermediate_size": 72, "num_attention_heads": 4, "image_size": 56, "patch_size": 14,
                          "vision_use_head": False}}),
    ("llama4", {
        "text_config": sizes(8, 96, 512, 6, 2, 20, 64, intermediate_size_mlp=128, num_local_experts=7,
                             interleave_moe_layer_step=1),
        "vision_config": {"hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 128, "image_size": 56,
                          "patch_size": 14, "num_attention_heads": 4, "projector_input_dim": 40,
                          "projector_output_dim": 44, "vision_output_dim": 44}}),
]
SPARSE = sizes(0, 7168, 0, 0, 0, 0, 18432, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128,
               qk_rope_head_dim=64, v_head_dim=128)
REAL = [
    ("smollm2-135m", "llama", sizes(30, 576, 49152, 9, 3, 0, 1536, tie_word_embeddings=True)),
    ("llama-3.1-8b", "llama", sizes(32, 4096, 128256, 32, 8, 0, 14336)),
    ("qwen2.5-0.5b", "qwen2", sizes(24, 896, 151936, 14, 2, 0, 4864, tie_word_embeddings=True)),
    ("qwen3-30b-a3b", "qwen3_moe", sizes(48, 2048, 151936, 32, 4, 128, 6144, **experts(128, 8, 768))),
    ("qwen3-next-80b-a3b", "qwen3_next", sizes(48, 2048, 151936, 16, 2, 256, 5120, **experts(512, 10, 512, 512),
                                               **linear(16, 32))),
    ("qwen3.6-27b", "qwen3_5_text", sizes(64, 5120, 248320, 24, 4, 256, 17408, **linear(16, 48))),
    ("qwen3.6-35b-a3b", "qwen3_5_moe_text", sizes(40, 2048, 248320, 16, 2, 256, 0, **experts(256, 8, 512, 512),
                                                  **linear(16, 32))),
    ("gemma-3-27b", "gemma3_text", sizes(62, 5376, 262208, 32, 16, 128, 21504, sliding_window=1024)),
    ("gpt-oss-120b", "gpt_oss", sizes(36, 2880, 201088, 64, 8, 64, 2880, num_local_experts=128, num_experts_per_tok=4)),
    ("llama-4-maverick", "llama4_text", sizes(48, 5120, 202048, 40, 8, 128, 8192, intermediate_size_mlp=16384,
                                              num_local_experts=128, interleave_moe_layer_step=2)),
    ("deepseek-v3", "deepseek_v3", SPARSE | {"num_hidden_layers": 61, "vocab_size": 129280, "num_attention_heads": 128,
                                             "num_key_value_heads": 128} | routed(256, 8, 2048, 1, 3)),
    ("minimax-m2", "minimax_m2", sizes(62, 3072, 200064, 48, 8, 128, 1536, num_local_experts=256,
                                       num_experts_per_tok=8)),
    ("glm-4.5-air", "glm4_moe", sizes(46, 4096, 151552, 96, 8, 128, 10944, attention_bias=True,
                                      **routed(128, 8, 1408, 1, 1))),
]


def keep(config):
    kept = {}
    for key in KEEP:
        value = config.get(key)
        if value is None or key == "layer_types" and config["model_type"] in PLAIN:
            continue
        kept[key] = keep(value) if isinstance(value, dict) else value
    return kept


def count(model): # of distinct tensors; the correction of a router is a buffer
    tensors = list(model.parameters())
    tensors += [buffer for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")]
    return sum(tensor.numel() for tensor in {id(tensor): tensor for tensor in tensors}.values())


def main():
    path = pathlib.Path(__file__).with_suffix(".jsonl")
    with path.open("w", encoding="utf-8") as out:
        for name, family, numbers in [("", *row) for row in TINY] + REAL:
            config = CONFIG_MAPPING[family](**numbers)
            kind = AutoModelForImageTextToText if "vision_config" in numbers else AutoModelForCausalLM
            with torch.device("meta"):
                model = kind.from_config(config)
            row = {"name": name, "parameters": count(model), "config": keep(config.to_dict())}
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            print(name or family, row["parameters"])


if __name__ == "__main__":
    main()
