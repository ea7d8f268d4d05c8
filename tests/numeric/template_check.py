#!/usr/bin/env python3
"""Render every template of a folder over every conversation with `headway render` and compare with expected.jsonl.

    template_check.py [--headway build/headway] [--templates ../shared/templates] [--show N]

Prints how many of the renderings agree, byte for byte, and the first N that do not; exit code 1 when any differs. An
expected TemplateError must come with the template's own message; of other errors only that there is one counts. Where
jinja2's sandbox refuses to change a list or dict (SecurityError), a rendering is as good as an error.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys


def variables_of(record, conversations, manifest):
    """What transformers passes to the template: see the README beside the templates."""
    conversation = conversations[record["conversation"]]
    tokens = {key: value for key, value in manifest[record["template"]].items() if key.endswith("_token")}
    return {
        **tokens,
        "messages": conversation["messages"],
        "tools": conversation.get("tools"),
        "documents": conversation.get("documents"),
        **record["options"],
    }


def agrees(record, reply):
    if "output" in record:
        return reply.get("output") == record["output"]
    if record["kind"] == "SecurityError":
        return True
    if "error" not in reply:
        return False
    return record["kind"] != "TemplateError" or (reply["raised"] and reply["error"] == record["error"])


def render_all(headway, path, records, conversations, manifest):
    lines = [json.dumps(variables_of(record, conversations, manifest)) for record in records]
    environment = dict(os.environ, HEADWAY_NOW="2026-01-02 03:04:05", TZ="UTC")
    done = subprocess.run([headway, "render", "--template", str(path), "--batch"], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, encoding="utf-8", env=environment, check=False)
    if done.returncode:
        return [{"error": done.stderr.strip() or f"exit code {done.returncode}", "raised": False}] * len(records)
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headway", default="build/headway")
    parser.add_argument("--templates", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("HEADWAY_SHARED", "../shared")) / "templates")
    parser.add_argument("--show", type=int, default=5)
    arguments = parser.parse_args()
    if not (arguments.templates / "expected.jsonl").exists():
        print(f"{arguments.templates}: no expected.jsonl there, nothing to check")
        return 0
    folder = arguments.templates
    conversations = {c["name"]: c for c in json.loads((folder / "conversations.json").read_text(encoding="utf-8"))}
    manifest = json.loads((folder / "templates.json").read_text(encoding="utf-8"))
    by_template = collections.defaultdict(list)
    for line in (folder / "expected.jsonl").read_text(encoding="utf-8").split("\n"):
        if line:
            record = json.loads(line)
            by_template[record["template"]].append(record)
    total = good = shown = 0
    for name, records in sorted(by_template.items()):
        replies = render_all(arguments.headway, folder / name, records, conversations, manifest)
        for record, reply in zip(records, replies):
            total += 1
            if agrees(record, reply):
                good += 1
            elif shown < arguments.show:
                shown += 1
                print(f"--- {name} over {record['conversation']} with {record['options']}")
                print("want:", record.get("output", f"{record.get('kind')}: {record.get('error')}"))
                print("got: ", reply.get("output", reply.get("error")))
    print(f"{good} of {total} renderings agree")
    return 0 if good == total else 1


if __name__ == "__main__":
    sys.exit(main())
