#!/usr/bin/env python3
"""Headway beside llama.cpp on this machine: the table of `make bench`.

usage: bench_peers.py HEADWAY PYTHON_WITH_LLAMA_CPP OUT.json [--rounds N] [--threads N] [--only NAME,NAME] [--cpu avx2]
The two run in turn, ROUNDS times each; figures are medians, the ratio is of medians. Files are made by llama.cpp's
own quantizer
from the default model, and from a random llama of hidden 2,048 and 4 layers for the K types.
"""
import argparse, json, os, statistics, subprocess, sys

here = os.path.dirname(os.path.abspath(__file__))
ap = argparse.ArgumentParser()
ap.add_argument("headway"); ap.add_argument("python"); ap.add_argument("out")
ap.add_argument("--rounds", type=int, default=3); ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--only", default=""); ap.add_argument("--cpu", default="")
a = ap.parse_args()
cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "headway")
default_model = os.path.join(cache, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
made = os.path.join(cache, "bench")
os.makedirs(made, exist_ok=True)

# name, file, prefill lengths, depths, bars: measure -> ratio wanted
CASES = [
    (
        "smollm2 Q4_1",
        default_model,
        "512,4096",
        "0,4096",
        {"prefill512": 8, "prefill4096": 5, "decode0": 2.5, "decode4096": 2.5},
    ),
    ("smollm2 Q8_0", "smollm2.Q8_0", "512", "0", {"prefill512": 5}),
    ("smollm2 Q4_K_M", "smollm2.Q4_K_M", "512", "0", {"prefill512": 4}),
    ("smollm2 Q4_0", "smollm2.Q4_0", "512", "0", {"prefill512": 3}),
    ("smollm2 F16", "smollm2.F16", "512", "0", {"prefill512": 1.8}),
    ("llama2048 Q4_K", "llama2048.Q4_K_S", "512", "0", {"prefill512": 4}),
    ("llama2048 Q5_K", "llama2048.Q5_K_S", "512", "0", {"prefill512": 4}),
    ("llama2048 Q6_K", "llama2048.Q6_K", "512", "0", {"prefill512": 4}),
]
FTYPES = {"F16": 1, "Q4_0": 2, "Q8_0": 7, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q6_K": 18}


def quantize(source, target, ftype):
    code = (
        "import sys, llama_cpp as L\np = L.llama_model_quantize_default_params()\n"
        "p.ftype, p.allow_requantize, p.nthread = int(sys.argv[3]), True, 2\nif int(sys.argv[4]): p.pure = True\n"
        "sys.exit(L.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), p))"
    )
    pure = "1" if "llama2048" in target else "0"
    subprocess.run([a.python, "-c", code, source, target + ".part", str(ftype), pure], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.rename(target + ".part", target)


def random_llama(path):
    subprocess.run([a.python, os.path.join(here, "random_llama.py"), path], check=True)


def file_of(name):
    if os.path.isabs(name):
        return name
    path = os.path.join(made, name + ".gguf")
    if not os.path.exists(path):
        print(f"making {name} …", flush=True)
        base, kind = name.split(".")
        source = default_model
        if base == "llama2048":
            source = os.path.join(made, "llama2048.F16.gguf")
            if not os.path.exists(source):
                random_llama(source)
        quantize(source, path, FTYPES[kind])
    return path


def headway(path, lengths, depths):
    env = dict(os.environ, **({"HEADWAY_CPU": a.cpu} if a.cpu else {}))
    run = subprocess.run(
        [
            a.headway,
            "bench",
            "--model",
            path,
            "--prefill",
            lengths,
            "--depth",
            depths,
            "--repeat",
            "1",
            "--threads",
            str(a.threads),
            "--json",
        ],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )
    return json.loads(run.stdout)


def llama(path, flash, lengths, depths):
    run = subprocess.run(
        [a.python, os.path.join(here, "bench_llama.py"), path, str(a.threads), str(flash), lengths, depths, "64"],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(run.stdout.strip().splitlines()[-1])


def median(runs, key):
    return statistics.median(r[key] for r in runs)


rows, chosen = [], [c for c in a.only.split(",") if c]
print(f"{'model':16} {'measure':12} {'headway':>9} {'llama.cpp':>9} {'ratio':>6}  bar", flush=True)
for name, file, lengths, depths, bars in CASES:
    if chosen and name not in chosen:
        continue
    path, ours, theirs = file_of(file), [], []
    for _ in range(a.rounds):
        ours.append(headway(path, lengths, depths))
        best = llama(path, 1, lengths, depths)
        if "4096" in depths:
            off = llama(path, 0, "", depths)
            best = {k: max(v, off.get(k, 0)) for k, v in best.items()}
        theirs.append(best)
    for key in ours[0]:
        x, y = median(ours, key), median(theirs, key)
        row = {"model": name, "measure": key, "headway": x, "llama_cpp": y, "ratio": x / y, "bar": bars.get(key)}
        rows.append(row)
        bar = f"{row['bar']}x {'met' if row['ratio'] >= row['bar'] else 'NOT met'}" if row["bar"] else ""
        print(f"{name:16} {key:12} {x:9.1f} {y:9.1f} {x / y:6.2f}  {bar}", flush=True)
os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
with open(a.out, "w") as f:
    json.dump({"threads": a.threads, "rounds": a.rounds, "kernels": a.cpu or "best", "rows": rows}, f, indent=1)
