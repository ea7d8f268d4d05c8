"""Tiny random Hugging Face directories and the logits that transformers computes for them.

usage: hf_vectors.py OUT_FOLDER [NAME...], or --mlx-sources FOLDER   (needs torch, transformers; output is committed)
For each case NAME: the directory NAME as save_pretrained writes it, and NAME.bin: u32 token_count, u32 vocab,
i32 tokens[], f32 logits[token_count][vocab] with keys and values rounded to f16 before attention (our cache has f16).
Every weight is re-drawn: default initialisation hides bugs.
"""
import copy, json, math, os, shutil, struct, sys
import torch
import transformers as T
from safetensors.torch import load_file, save_file
import hybrid_vectors as hybrid

torch.set_num_threads(1)
VOCAB, HIDDEN, FFN, TOKENS = 64, 64, 32, 40
BASE = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=1, rms_norm_eps=1e-5,
            max_position_embeddings=512, attn_implementation="eager", use_cache=False, bos_token_id=0, eos_token_id=2,
            pad_token_id=0)
HEADS = dict(BASE, num_attention_heads=4, num_key_value_heads=2)
CASES = {
    "llama_f32": (T.LlamaConfig, T.LlamaForCausalLM, torch.float32, dict(
        HEADS, head_dim=16, attention_bias=True, tie_word_embeddings=False, rope_parameters={
            "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64})),
    "qwen2_f16": (T.Qwen2Config, T.Qwen2ForCausalLM, torch.float16, dict(
        HEADS, tie_word_embeddings=True, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6})),
    "qwen3_sharded": (T.Qwen3Config, T.Qwen3ForCausalLM, torch.bfloat16, dict(
        HEADS, head_dim=32, tie_word_embeddings=False, rope_parameters={
            "rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "original_max_position_embeddings": 64,
            "attention_factor": 1.25})),
    "qwen3_fp8": (T.Qwen3Config, T.Qwen3ForCausalLM, torch.bfloat16, dict(
        HEADS, head_dim=32, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
    "gemma3_bf16": (T.Gemma3TextConfig, T.Gemma3ForCausalLM, torch.bfloat16, dict(
        BASE, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=32, query_pre_attn_scalar=24,
        sliding_window=8, tie_word_embeddings=True, final_logit_softcapping=30.0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})),
}

SMALL = dict(hybrid.BASE, vocab_size=VOCAB, intermediate_size=FFN, num_attention_heads=2, num_key_value_heads=1,
             bos_token_id=0, eos_token_id=2, pad_token_id=0)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
SHARED = dict(EXPERTS, shared_expert_intermediate_size=16)
HYBRID = {
    "qwen3moe": (T.Qwen3MoeConfig, T.Qwen3MoeForCausalLM, dict(
        SMALL, **EXPERTS, num_hidden_layers=2, norm_topk_prob=False, mlp_only_layers=[0], rope_theta=1e6,
        tie_word_embeddings=True)),
    "qwen3next": (T.Qwen3NextConfig, T.Qwen3NextForCausalLM, dict(
        SMALL, **SHARED, **hybrid.DELTA, num_hidden_layers=2, layer_types=[hybrid.LINEAR, hybrid.FULL],
        norm_topk_prob=True, partial_rotary_factor=0.25, rope_theta=1e7, tie_word_embeddings=True)),
    "qwen35moe": (T.Qwen3_5MoeTextConfig, T.Qwen3_5MoeForCausalLM, dict(
        SMALL, **SHARED, **hybrid.DELTA, **hybrid.ROPE, num_hidden_layers=2,
        layer_types=[hybrid.LINEAR, hybrid.FULL], tie_word_embeddings=False)),
}


def redraw(model, gemma, dtype):
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
        p.data.copy_(value.to(dtype).to(torch.float32))


def to_fp8(model, folder, block=32):
    """Linear weights of the saved file become E4M3 with a scale for each block; the model takes what they stand for."""
    tensors = load_file(f"{folder}/model.safetensors")
    params = dict(model.named_parameters())
    for name in [n for n in tensors if n.endswith("_proj.weight")]:
        w = tensors[name].float()
        rows, cols = w.shape
        tiles = w.reshape(rows // block, block, cols // block, block)
        scale = (tiles.abs().amax((1, 3), keepdim=True) / 448).to(torch.bfloat16).float()
        codes = (tiles / scale).to(torch.float8_e4m3fn)
        value = (codes.float() * scale).to(torch.bfloat16).float().reshape(rows, cols)
        params[name].data.copy_(value)
        tensors[name] = codes.reshape(rows, cols)
        tensors[name + "_scale_inv"] = scale.reshape(rows // block, cols // block).to(torch.bfloat16)
    save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
    config = json.load(open(f"{folder}/config.json"))
    config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [block, block]}
    json.dump(config, open(f"{folder}/config.json", "w"), indent=2)


def with_f16_cache(model, ids):
    module = sys.modules[type(model).__module__]
    plain = module.eager_attention_forward

    def rounded(layer, query, key, value, *args, **kwargs):
        return plain(layer, query, key.half().float(), value.half().float(), *args, **kwargs)

    module.eager_attention_forward = rounded
    logits = model(ids).logits[0].numpy().astype("<f4")
    module.eager_attention_forward = plain
    return logits


def write(out, name):
    config_class, model_class, dtype, keys = CASES[name]
    folder = f"{out}/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(0)
    model = model_class(config_class(**keys)).eval().float()
    redraw(model, "gemma" in name, dtype)
    stored = copy.deepcopy(model).to(dtype)  # rounds the rope tables too
    stored.save_pretrained(folder, max_shard_size="40KB" if "sharded" in name else "1GB")
    if "fp8" in name:
        to_fp8(model, folder)
    ids = torch.randint(0, VOCAB, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = with_f16_cache(model, ids)
    with open(f"{out}/{name}.bin", "wb") as f:
        f.write(struct.pack("<II", *logits.shape) + ids[0].numpy().astype("<i4").tobytes() + logits.tobytes())
    print(name, logits.shape, float(logits.min()), float(logits.max()), sorted(os.listdir(folder)))


def compose(folder):
    """As the published files are: the text model inside a composite, experts packed, a vision tower and MTP beside."""
    old, new = load_file(f"{folder}/model.safetensors"), {}
    for name, tensor in old.items():
        if ".mlp.experts." in name:
            continue
        new[name.replace("model.", "model.language_model.", 1)] = tensor
    for name in old:
        if name.endswith("mlp.experts.0.gate_proj.weight"):
            head = name[:-len("0.gate_proj.weight")]
            count = sum(n.startswith(head) and n.endswith("gate_proj.weight") for n in old)
            part = lambda kind: torch.stack([old[f"{head}{e}.{kind}_proj.weight"] for e in range(count)])
            packed = head.replace("model.", "model.language_model.", 1)
            new[packed + "gate_up_proj"] = torch.cat([part("gate"), part("up")], 1)
            new[packed + "down_proj"] = part("down").contiguous()
    new["model.visual.pos_embed.weight"] = torch.zeros(4, 4, dtype=torch.bfloat16)
    new["mtp.fc.weight"] = torch.zeros(4, 8, dtype=torch.bfloat16)
    save_file(new, f"{folder}/model.safetensors", {"format": "pt"})
    text = json.load(open(f"{folder}/config.json"))
    config = {"model_type": "qwen3_5_moe", "tie_word_embeddings": text.pop("tie_word_embeddings"), "text_config": text,
              "vision_config": {"depth": 1}}
    json.dump(config, open(f"{folder}/config.json", "w"), indent=2)


def write_hybrid(out, name):
    config_class, model_class, keys = HYBRID[name]
    folder = f"{out}/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    model = model_class(config_class(**keys)).eval().float()
    ids = torch.randint(0, VOCAB, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    for seed in range(7, 200):
        hybrid.redraw(model, seed, name != "qwen3moe")
        _, gap, picks = hybrid.run(model, ids, 2)
        logits, rounded_gap, rounded_picks = hybrid.with_f16_cache(model, ids, 2)
        if min(gap, rounded_gap) > 1e-3 and all(torch.equal(a, b) for a, b in zip(picks, rounded_picks)):
            break
    stored = copy.deepcopy(model).to(torch.bfloat16)
    stored.save_pretrained(folder)
    if name == "qwen35moe":
        compose(folder)
    with open(f"{out}/{name}.bin", "wb") as f:
        f.write(struct.pack("<II", *logits.shape) + ids[0].numpy().astype("<i4").tobytes() + logits.tobytes())
    print(name, "seed", seed, sorted(load_file(f"{folder}/model.safetensors")))


def give_tokenizer(folder):
    """Byte-level BPE with five merges and ChatML, as the MLX cases have it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("\u0120", "hello")]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    fast = T.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
                          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
    fast.save_pretrained(folder)


def write_mlx_sources(out):
    """What mlx_vectors.py converts: OUT/qwen3 and OUT/qwen35moe."""
    keys = dict(HEADS, vocab_size=320, intermediate_size=64, head_dim=32, tie_word_embeddings=True,
                rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    model = T.Qwen3ForCausalLM(T.Qwen3Config(**keys)).eval().float()
    redraw(model, False, torch.bfloat16)
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(f"{out}/qwen3")
    generation = {"eos_token_id": [263, 261], "temperature": 0.6, "top_k": 20, "top_p": 0.95, "do_sample": True}
    json.dump(generation, open(f"{out}/qwen3/generation_config.json", "w"))
    config_class, model_class, keys = HYBRID["qwen35moe"]
    model = model_class(config_class(**dict(keys, moe_intermediate_size=32, shared_expert_intermediate_size=32)))
    model = model.eval().float()
    hybrid.redraw(model, 12, True)
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(f"{out}/qwen35moe")
    compose(f"{out}/qwen35moe")
    config = json.load(open(f"{out}/qwen35moe/config.json"))
    config["text_config"]["full_attention_interval"] = 2  # mlx-lm reads no layer_types
    json.dump(config, open(f"{out}/qwen35moe/config.json", "w"))
    for name in ("qwen3", "qwen35moe"):
        give_tokenizer(f"{out}/{name}")


if __name__ == "__main__":
    if sys.argv[1] == "--mlx-sources":
        write_mlx_sources(sys.argv[2])
        sys.exit()
    for case in sys.argv[2:] or [*CASES, *HYBRID]:
        (write_hybrid if case in HYBRID else write)(sys.argv[1], case)
