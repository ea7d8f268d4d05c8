"""What bench_cadence.py and bench_cache.py share: scenarios by name, each with a report, and what is kept of a run."""

import argparse, json, os, platform, signal, sys, time, traceback

from cadence_client import Failed, Report


def arguments(text, result="--out"):
    ap = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("headway")
    ap.add_argument("model")
    ap.add_argument("--only", help="names, with commas between them")
    ap.add_argument(result, dest="out", help="a JSON file; what is in it stays")
    ap.add_argument("--llama", help="a Python that has xllamacpp")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--seed", type=int, default=int(time.time()))
    ap.add_argument("--list", action="store_true", help="the scenarios, nothing else")
    return ap


def machine():
    name = platform.machine()
    with open("/proc/cpuinfo") as f:
        name = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), name)
    return {"cpu": name, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def keep(path, entry):
    """Appends to the file's list, by way of a second file: a run that is cut short loses nothing."""
    entries = []
    if os.path.exists(path):
        with open(path) as f:
            entries = json.load(f)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".part", "w") as f:
        json.dump([*entries, entry], f, indent=1)
    os.replace(path + ".part", path)


def run(name, scenario, o):
    report, start = Report(name), time.time()
    entry = {"scenario": name, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start)), "quick": o.quick,
             "seed": o.seed, "machine": machine()}
    try:
        scenario(o, report)
    except Failed as e:
        entry["failed"] = str(e)
    except Exception as e:
        traceback.print_exc()
        entry["failed"] = f"{type(e).__name__}: {e}"
    if "failed" in entry:
        print(f"{name:11} FAILED: {entry['failed']}", flush=True)
    entry.update(seconds=round(time.time() - start, 1), checks=report.checks, details=report.details)
    if o.out:
        keep(o.out, entry)
    return entry


def print_table(entries):
    """All bars once more, without what was said between them."""
    rows = [(e["scenario"], c["what"], c["wanted"], str(c["measured"]), "met" if c["met"] else "OPEN")
            for e in entries for c in e["checks"]]
    rows += [(e["scenario"], f"failed: {e['failed']}"[:90], "", "", "OPEN") for e in entries if "failed" in e]
    head = ("scenario", "bar", "wanted", "measured", "")
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(4)]
    print()
    for row in (head, *rows):
        print("  ".join(text.ljust(w) for text, w in zip(row, (*widths, 0))).rstrip())


def run_all(o, scenarios, left_out=(), table=False):
    """Runs those of --only, or all but `left_out`, and ends the process."""
    names = o.only.split(",") if o.only else [n for n in scenarios if n not in left_out]
    if o.list:
        print("\n".join(scenarios))
        return
    unknown = [n for n in names if n not in scenarios]
    if unknown:
        sys.exit(f"--only: no scenario {unknown[0]}; there are {', '.join(scenarios)}")
    sys.setswitchinterval(0.0005)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the server is ended on the way out
    entries = [run(name, scenarios[name], o) for name in names]
    if table:
        print_table(entries)
    checks = [c for e in entries for c in e["checks"]]
    failed = [e["scenario"] for e in entries if "failed" in e]
    tail = f"; failed: {', '.join(failed)}" if failed else ""
    print(f"\n{sum(c['met'] for c in checks)} of {len(checks)} bars met{tail}")
    sys.exit(1 if failed else 0)
