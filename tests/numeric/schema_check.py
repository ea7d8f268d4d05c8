#!/usr/bin/env python3
"""tests/numeric/schema_check.py TOOL [--suite DIR | --vectors FILE] [--write FILE] [--samples N] [--verbose]

Grammars of JSON schemas against the JSON-Schema-Test-Suite (draft 2020-12, without formats; DIR holds type.json and
the rest, as in the sdist of `jsonschema`) or against vectors kept from it. TOOL is build/tools/grammar_tool.

Each group's schema is accepted, or refused with a keyword named. Of the accepted ones: what the suite calls invalid is
never accepted by the grammar, and sampled texts validate with `jsonschema` (where that package is there). `--write`
keeps groups as vectors for machines that have neither suite nor package."""
import argparse
import glob
import json
import os
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    jsonschema = None

ACCEPTED_MIN = 0.6
KEPT_GROUPS = 160


def load_suite(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            for group in json.load(file):
                yield {"file": os.path.basename(path), **group}


def texts_of(data):
    """The ways in which an instance is written here."""
    spaced = json.dumps(data, ensure_ascii=False)
    return [spaced, json.dumps(data, ensure_ascii=False, separators=(",", ":")), json.dumps(data)]


class Tool:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def encodable(text):
    try:
        text.encode("utf-8")
        return True
    except UnicodeEncodeError:
        return False


def check_group(tool, group, samples, seed, totals, verbose):
    """Returns the breaches found."""
    name = f"{group['file']}: {group['description']}"
    tests = [(test, [text for text in texts_of(test["data"]) if encodable(text)]) for test in group["tests"]]
    job = {"schema": group["schema"], "texts": [t for _, texts in tests for t in texts], "samples": samples,
           "seed": seed}
    answer = tool.ask(job)
    totals["groups"] += 1
    totals["slowest_us"] = max(totals["slowest_us"], answer.get("us", 0))
    if answer["error"] is not None:
        totals["refused"] += 1
        if verbose:
            print(f"refused  {name}: {answer['error']}")
        satisfiable = any(test["valid"] for test, _ in tests)
        if "no text satisfies this" in answer["error"]:
            return [f"{name}: said to be unsatisfiable"] if satisfiable else []
        named = re.search(r'"([^"]+)"|pattern', answer["error"])
        return [] if named or "too large" in answer["error"] else [f"{name}: {answer['error']} names nothing"]
    totals["accepted"] += 1
    found, at = [], 0
    for test, texts in tests:
        accepted = answer["accepts"][at:at + len(texts)]
        at += len(texts)
        totals["valid" if test["valid"] else "invalid"] += 1
        if not test["valid"] and any(accepted):
            found.append(f"{name}: {test['description']}: accepted, and is invalid")
        if test["valid"]:
            totals["valid_accepted"] += any(accepted)
            if verbose and not any(accepted):
                print(f"narrow   {name}: {test['description']}")
    if jsonschema:
        validator = jsonschema.Draft202012Validator(group["schema"])
        for text in answer["samples"]:
            if text is None:
                continue
            totals["samples"] += 1
            try:
                validator.validate(json.loads(text))
            except Exception as problem:
                found.append(f"{name}: sampled {text[:200]!r}: {type(problem).__name__} {str(problem)[:100]!r}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--suite")
    parser.add_argument("--vectors", default=os.path.join(os.path.dirname(__file__), "vectors", "schema_groups.json"))
    parser.add_argument("--write")
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.suite:
        groups = list(load_suite(args.suite))
    else:
        with open(args.vectors, encoding="utf-8") as file:
            groups = json.load(file)
    if args.write:
        step = max(1, len(groups) // KEPT_GROUPS)
        kept = [group for group in groups[::step] if len(json.dumps(group)) < 4000]
        with open(args.write, "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(json.dumps(group) for group in kept) + "\n]\n")
    totals = dict.fromkeys(("groups", "accepted", "refused", "valid", "valid_accepted", "invalid", "samples",
                            "slowest_us"), 0)
    tool = Tool(args.tool)
    breaches = []
    for number, group in enumerate(groups):
        breaches += check_group(tool, group, args.samples, args.seed + number, totals, args.verbose)
    for breach in breaches:
        print("BREACH", breach)
    share = totals["accepted"] / totals["groups"]
    print(f"schemas: {totals['groups']} groups, {totals['accepted']} accepted ({share:.0%}), {totals['invalid']} "
          f"invalid instances, {totals['valid_accepted']} of {totals['valid']} valid ones in the generated form, "
          f"{totals['samples']} samples, slowest {totals['slowest_us'] / 1000:.1f} ms, {len(breaches)} breaches")
    return 1 if breaches or share < ACCEPTED_MIN else 0


if __name__ == "__main__":
    sys.exit(main())
