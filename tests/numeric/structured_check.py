#!/usr/bin/env python3
"""tests/numeric/structured_check.py URL [--count N] [--temperature T] [--streams K] [--seed S] [--seconds S]

Samples answers of typical schemas from a running server and validates those that end with `stop`; needs `jsonschema`.
Prints how many ended, what was invalid, and tokens a second."""
import argparse
import concurrent.futures
import json
import sys
import time
import urllib.request

import jsonschema

TREE = {"$ref": "#/$defs/tree", "$defs": {"tree": {
    "type": "object", "properties": {"value": {"type": "integer"}, "children": {
        "type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
    "required": ["value", "children"], "additionalProperties": False}}}

SCHEMAS = {
    "person": {"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "address": {"type": "object", "properties": {"street": {"type": "string", "maxLength": 40},
                                                     "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
                    "required": ["street", "zip"], "additionalProperties": False}},
        "required": ["name", "age", "address"], "additionalProperties": False},
    "enums": {"type": "object", "properties": {
        "kind": {"enum": ["bug", "feature", "question"]}, "open": {"type": "boolean"},
        "labels": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 5},
        "owner": {"type": ["string", "null"], "maxLength": 20}}, "required": ["kind", "open", "labels"],
        "additionalProperties": False},
    "numbers": {"type": "array", "minItems": 2, "maxItems": 6, "items": {
        "anyOf": [{"type": "number", "minimum": -1.5, "maximum": 99.25}, {"type": "integer", "multipleOf": 7}]}},
    "tree": TREE,
    "free": {"type": "object", "properties": {"title": {"type": "string"}, "score": {"type": "number"},
                                              "when": {"type": "string", "format": "date-time"}},
             "required": ["title"], "additionalProperties": {"type": "integer"}, "maxProperties": 5},
    "tagged": {"oneOf": [
        {"type": "object", "properties": {"t": {"const": "circle"}, "r": {"type": "number", "exclusiveMinimum": 0}},
         "required": ["t", "r"]},
        {"type": "object", "properties": {"t": {"const": "square"}, "side": {"type": "integer", "minimum": 1}},
         "required": ["t", "side"]}]},
}


def ask(url, name, seed, temperature):
    body = {"messages": [{"role": "user", "content": f"Give me an example of a {name} as JSON."}], "max_tokens": 300,
            "temperature": temperature, "seed": seed,
            "response_format": {"type": "json_schema", "json_schema": {"name": name, "strict": True,
                                                                       "schema": SCHEMAS[name]}}}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        data = json.load(answer)
    choice = data["choices"][0]
    return name, choice["finish_reason"], choice["message"]["content"], data["usage"]["completion_tokens"]


def judge(name, text):
    try:
        jsonschema.validate(json.loads(text), SCHEMAS[name], cls=jsonschema.Draft202012Validator)
        return None
    except (ValueError, jsonschema.ValidationError) as problem:
        return f"{name}: {text!r}: {str(problem)[:200]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=86400, help="stop asking after so long")
    args = parser.parse_args()
    names = list(SCHEMAS)
    stopped, other, tokens, seed = dict.fromkeys(names, 0), {}, 0, args.seed
    invalid, start = [], time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.streams) as pool:
        running = set()
        while sum(stopped.values()) < args.count and time.monotonic() - start < args.seconds:
            while len(running) < args.streams:
                running.add(pool.submit(ask, args.url, names[seed % len(names)], seed, args.temperature))
                seed += 1
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                name, finish, text, count = future.result()
                tokens += count
                if finish != "stop":
                    other[finish] = other.get(finish, 0) + 1
                    continue
                stopped[name] += 1
                problem = judge(name, text)
                if problem:
                    invalid.append(problem)
                    print("INVALID", problem, flush=True)
    seconds = time.monotonic() - start
    print(f"structured: {sum(stopped.values())} ended with stop {stopped}, others {other}, {len(invalid)} invalid; "
          f"{tokens} tokens, {tokens / seconds:.0f} a second")
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main())
