/* plan/known.c: measurements that ship with Headway, each with its source. `headway plan` shows them where they fit,
 * and the ranges that it prints for other pairs are drawn so that none of these lies outside (plan/cost.h). */
#include "plan/measured.h"

/* One line of docs/results.md's format. Numbers are written as text. */
#define RUN(kind, hw, model, type, runtime, version, prompt, output, rate, repeats, date, source, more)                \
    "{\"format\":\"headway-run/1\",\"kind\":\"" kind "\",\"hardware\":\"" hw "\",\"model\":\"" model                   \
    "\",\"type\":\"" type "\",\"runtime\":\"" runtime "\",\"version\":\"" version                                      \
    "\",\"sampler\":\"greedy\",\"prompt_tokens\":" prompt ",\"output_tokens\":" output ",\"tok_s\":" rate              \
    ",\"repeats\":" repeats ",\"date\":\"" date "\",\"source\":\"" source "\",\"throttled\":null," more "}"
#define ALONE "\"batch\":1,\"power\":\"unknown\""

/* llama.cpp's own benchmark on 2 cores of a Xeon (AVX-512, VNNI): a prompt of so many tokens, 64 tokens at a depth. */
#define XEON(kind, type, prompt, output, rate)                                                                         \
    RUN(kind, "xeon-2-cores", "smollm2-135m", type, "llama.cpp", "llama-cpp-python 0.3.36", prompt, output, rate, "1", \
        "2026-11-29", "Headway, measured peers", ALONE)
#define XEON_ALL(type, p512, p2048, p4096, d0, d4096)                                                                  \
    XEON("prefill", type, "512", "0", p512), XEON("prefill", type, "2048", "0", p2048),                                \
        XEON("prefill", type, "4096", "0", p4096), XEON("decode", type, "0", "64", d0),                                \
        XEON("decode", type, "4096", "64", d4096)

/* The 35B-A3B's shape with random weights on an H200. */
#define H200(kind, type, runtime, version, prompt, rate)                                                               \
    RUN(kind, "h200", "qwen3.6-35b-a3b", type, runtime, version, prompt, "0", rate, "1", "2026-11-29",                 \
        "Headway, measured peers (random weights)", "\"batch\":1,\"power\":\"mains\"")
#define H200_LLAMA(kind, prompt, rate) H200(kind, "q8_0", "llama.cpp", "llama-cpp-python 0.3.36", prompt, rate)
#define H200_MLX(kind, prompt, rate) H200(kind, "mxfp8", "mlx-lm", "0.32.2, mlx 0.32.4 (CUDA)", prompt, rate)

/* 2 cores of an AMD EPYC (Zen 4), `make bench`: medians of 3 rounds, in turn with llama.cpp. */
#define EPYC(kind, model, type, runtime, version, prompt, output, rate)                                                \
    RUN(kind, "epyc-zen4-2-cores", model, type, runtime, version, prompt, output, rate, "3", "2026-11-29",             \
        "Headway, README", ALONE)
#define OURS(kind, type, prompt, output, rate)                                                                         \
    EPYC(kind, "smollm2-135m", type, "headway", "0.1.0", prompt, output, rate)
#define THEIRS(kind, type, prompt, output, rate)                                                                       \
    EPYC(kind, "smollm2-135m", type, "llama.cpp", "llama-cpp-python 0.3.36", prompt, output, rate)
#define EPYC_BOTH(type, our_512, their_512, our_0, their_0)                                                            \
    OURS("prefill", type, "512", "0", our_512), THEIRS("prefill", type, "512", "0", their_512),                        \
        OURS("decode", type, "0", "64", our_0), THEIRS("decode", type, "0", "64", their_0)

/* Published by others: of one stream that begins at that depth, or of a prompt. */
#define PUBLISHED(kind, hw, model, type, runtime, prompt, output, rate, date, source)                                  \
    RUN(kind, hw, model, type, runtime, "", prompt, output, rate, "1", date, source, ALONE)
#define DAI "XiongjieDai, GPU-Benchmarks-on-LLM-Inference"
#define LLAMA_3(hw, model, type, decode, prefill)                                                                      \
    PUBLISHED("decode", hw, model, type, "llama.cpp", "0", "512", decode, "2024-05", DAI),                             \
        PUBLISHED("prefill", hw, model, type, "llama.cpp", "1024", "0", prefill, "2024-05", DAI)
#define LLAMA_3_8B(hw, type, decode, prefill) LLAMA_3(hw, "llama-3.1-8b", type, decode, prefill)
#define LLAMA_3_70B(hw, type, decode, prefill) LLAMA_3(hw, "llama-3.1-70b", type, decode, prefill)
#define LLAMA_2_7B(hw, q4, f16)                                                                                        \
    PUBLISHED("decode", hw, "llama-2-7b", "q4_0", "llama.cpp", "0", "0", q4, "2023-12", DAI),                          \
        PUBLISHED("decode", hw, "llama-2-7b", "f16", "llama.cpp", "0", "0", f16, "2023-12", DAI)
#define LLAMA_2_70B(hw, q4) PUBLISHED("decode", hw, "llama-2-70b", "q4_0", "llama.cpp", "0", "0", q4, "2023-12", DAI)
#define STRIX_OSS(kind, prompt, output, rate)                                                                          \
    PUBLISHED(kind, "strix-halo", "gpt-oss-120b", "mxfp4_moe", "llama.cpp", prompt, output, rate, "2025-10",           \
              "eugr, lhl/strix-halo-testing issue 33 (ROCm)")
#define SPARK_OSS(type, prompt, output, rate, date, source)                                                            \
    PUBLISHED("decode", "dgx-spark", "gpt-oss-120b", type, "vllm", prompt, output, rate, date, source)
#define M3_DEEPSEEK(model, rate, more, source)                                                                         \
    RUN("decode", "m3-ultra", model, "affine4", "mlx-lm", "", "0", "0", rate, "1", "2025-03", source, ALONE more)

const char *const known_runs[] = {
    /* The case study: 60 to 70 tok/s with nothing else running; a document of 60,000 tokens in 44 s. */
    RUN("decode", "m4-max", "qwen3.6-35b-a3b", "mxfp8", "mlx-vlm", "", "0", "0", "65", "1", "2026-11", "the case study",
        ALONE ",\"tok_s_low\":60,\"tok_s_high\":70"),
    RUN("prefill", "m4-max", "qwen3.6-35b-a3b", "mxfp8", "mlx-vlm", "", "60000", "0", "1364", "1", "2026-11",
        "the case study", ALONE),
    /* 22 ms a token, after 512. */
    RUN("decode", "a100-40gb", "llama-2-13b", "f16", "FasterTransformer", "", "512", "10", "45.45", "1", "2022-03",
        "kipply, Transformer Inference Arithmetic (a GPT of 13B)", ALONE),

    LLAMA_3_8B("rtx-3070", "q4_k_m", "72.79", "2283.62"), LLAMA_3_8B("rtx-3080", "q4_k_m", "109.57", "3557.02"),
    LLAMA_3_8B("rtx-3080-ti", "q4_k_m", "110.6", "3556.67"), LLAMA_3_8B("rtx-3090", "q4_k_m", "115.42", "3865.39"),
    LLAMA_3_8B("rtx-3090", "f16", "47.4", "4239.64"), LLAMA_3_8B("rtx-4070-ti", "q4_k_m", "83.5", "3653.07"),
    LLAMA_3_8B("rtx-4080", "q4_k_m", "108.15", "5064.99"), LLAMA_3_8B("rtx-4080", "f16", "40.58", "6758.9"),
    LLAMA_3_8B("rtx-4090", "q4_k_m", "130.58", "6898.71"), LLAMA_3_8B("rtx-4090", "f16", "54.84", "9056.26"),
    LLAMA_3_8B("m1-max", "q4_k_m", "35.73", "355.45"), LLAMA_3_8B("m1-max", "f16", "18.75", "418.77"),
    LLAMA_3_70B("m1-max", "q4_k_m", "4.34", "33.01"), LLAMA_3_8B("m2-ultra", "q4_k_m", "78.81", "1023.89"),
    LLAMA_3_8B("m2-ultra", "f16", "36.9", "1202.74"), LLAMA_3_70B("m2-ultra", "q4_k_m", "12.48", "117.76"),
    LLAMA_3_70B("m2-ultra", "f16", "4.76", "145.82"), LLAMA_3_8B("m3-max", "q4_k_m", "48.97", "678.04"),
    LLAMA_3_8B("m3-max", "f16", "22.04", "751.49"), LLAMA_3_70B("m3-max", "q4_k_m", "7.65", "62.88"),
    LLAMA_2_7B("rtx-4080", "118.01", "44.2"), LLAMA_2_7B("rtx-3090", "120.6", "51.85"),
    LLAMA_2_7B("rtx-4090", "149.37", "60.78"), LLAMA_2_7B("rtx-a6000", "111.57", "44.01"),
    LLAMA_2_7B("rtx-6000-ada", "127.45", "50.56"), LLAMA_2_7B("h100-pcie", "133.77", "83.32"),
    LLAMA_2_7B("m2-ultra", "91.89", "40.68"), LLAMA_2_7B("m3-max", "63.11", "24.76"), LLAMA_2_70B("rtx-a6000", "15.18"),
    LLAMA_2_70B("rtx-6000-ada", "17.02"), LLAMA_2_70B("h100-pcie", "25.88"), LLAMA_2_70B("m2-ultra", "14.37"),

    STRIX_OSS("decode", "0", "32", "47.41"), STRIX_OSS("decode", "4096", "32", "44.14"),
    STRIX_OSS("decode", "8192", "32", "42.36"), STRIX_OSS("prefill", "2048", "0", "998.24"),
    /* The faster two have attention and the head in mxfp4 too. */
    SPARK_OSS("mxfp4", "0", "0", "58.82", "2026-06", "spark-arena/recipe-registry issue 17"),
    SPARK_OSS("mxfp4", "1024", "128", "57.5", "2026-03", "kubis.ai, GPT-OSS-120B topology benchmark"),
    SPARK_OSS("mxfp4_bf16", "0", "0", "33.5", "2026-04", "NVIDIA/dgx-spark-playbooks issue 79"),
    PUBLISHED("decode", "dgx-spark", "gpt-oss-120b", "mxfp4_moe", "llama.cpp", "0", "32", "52.87", "2025-10",
              "ggml-org/llama.cpp discussion 16578"),
    M3_DEEPSEEK("deepseek-v3", "20", "", "Awni Hannun"),
    M3_DEEPSEEK("deepseek-r1", "17.5", ",\"tok_s_low\":17,\"tok_s_high\":18", "reviews of the machine"),
    RUN("decode", "m4-max", "qwen3-30b-a3b", "affine4", "mlx-lm", "", "0", "0", "90", "1", "2025-05",
        "reports of owners", ALONE ",\"tok_s_low\":80,\"tok_s_high\":100"),

    H200_LLAMA("decode", "0", "223"), H200_LLAMA("decode", "23000", "199"), H200_LLAMA("prefill", "512", "6074"),
    H200_LLAMA("prefill", "2048", "9402"), H200_LLAMA("prefill", "8192", "10020"), H200_MLX("decode", "0", "47.7"),
    H200_MLX("decode", "23000", "37.5"), H200_MLX("prefill", "2048", "340"), H200_MLX("prefill", "8192", "316"),

    XEON_ALL("q4_1", "264", "219", "183", "96", "12.5"),
    XEON("decode", "q4_1", "4096", "64", "36.9"), /* flash attention off */
    XEON_ALL("q8_0", "433", "372", "229", "81", "10.5"),
    XEON("decode", "q8_0", "4096", "64", "34"), /* flash attention off */
    XEON_ALL("q4_0", "696", "439", "289", "132", "12.8"), XEON_ALL("q4_k_m", "478", "345", "248", "94", "12.8"),
    XEON_ALL("f16", "507", "336", "239", "51", "9.6"), XEON_ALL("bf16", "406", "304", "245", "62", "10.7"),

    EPYC_BOTH("q4_1", "2075", "294", "329", "124"), OURS("prefill", "q4_1", "4096", "0", "1171"),
    THEIRS("prefill", "q4_1", "4096", "0", "209"), OURS("decode", "q4_1", "4096", "64", "130"),
    THEIRS("decode", "q4_1", "4096", "64", "51"), EPYC_BOTH("q8_0", "2290", "734", "208", "141"),
    EPYC_BOTH("q4_k_m", "2220", "611", "300", "135"), EPYC_BOTH("q4_0", "1871", "773", "384", "195"),
    EPYC_BOTH("f16", "865", "626", "126", "98"),
    RUN("decode", "epyc-zen4-2-cores", "smollm2-135m", "q4_1", "headway", "0.1.0", "0", "64", "1551", "1", "2026-11-29",
        "Headway, docs/status.md", "\"batch\":16,\"power\":\"unknown\""),
    RUN("decode", "epyc-zen4-2-cores", "qwen3.6-35b-a3b", "mxfp4", "headway", "0.1.0", "0", "0", "21.5", "1",
        "2026-11-29", "Headway, docs/status.md (random weights)", ALONE),
    NULL};
