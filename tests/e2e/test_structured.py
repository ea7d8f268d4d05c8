"""Answers held to a format: by the default model at a high temperature, by a script, and what is refused."""

import concurrent.futures
import json
import re
import time

import pytest

from conftest import Server

PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "kind": {"enum": ["a", "b c"]}, "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}},
    "required": ["name", "age", "kind"], "additionalProperties": False}


@pytest.fixture(scope="module")
def server():
    s = Server("--ctx", 2048, "--threads", 2)
    yield s
    assert s.stop() == 0, "".join(s.log)


def ask(server, **fields):
    body = {"messages": [{"role": "user", "content": "Say something."}], "max_tokens": 120, **fields}
    return server.http.post("/v1/chat/completions", json=body)


def content(server, **fields):
    answer = ask(server, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["finish_reason"], answer.json()["choices"][0]["message"]["content"]


def check_person(text):
    person = json.loads(text)
    assert {"name", "age", "kind"} <= set(person) <= set(PERSON["properties"])
    assert len(person["name"]) <= 20 and person["kind"] in ("a", "b c")
    assert isinstance(person["age"], int) and 0 <= person["age"] <= 120
    assert len(person.get("tags", [])) <= 3 and all(isinstance(tag, bool) for tag in person.get("tags", []))


def test_what_ends_satisfies_the_schema(server):
    def one(seed):
        return content(server, temperature=2, seed=seed, response_format={
            "type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": PERSON}})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(24)))
    ended = [text for finish, text in answers if finish == "stop"]
    assert len(ended) >= 12, answers
    for text in ended:
        check_person(text)


def test_a_format_does_not_change_with_the_company(server):
    fields = dict(temperature=1.5, seed=5, guided_json=PERSON)
    alone = content(server, **fields)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        crowd = [pool.submit(content, server, **fields) for _ in range(3)]
        others = [pool.submit(content, server, temperature=1) for _ in range(5)]
        assert all(answer.result() == alone for answer in crowd)
        assert all(other.result()[0] in ("stop", "length") for other in others)


@pytest.mark.parametrize("field, pattern", [
    ({"guided_choice": ["red", "green and blue"]}, "red|green and blue"),
    ({"guided_regex": r"[A-Z][a-z]{2,8} \d{3}"}, r"[A-Z][a-z]{2,8} \d{3}"),
    ({"structured_outputs": {"regex": "(ab)+c"}}, "(ab)+c"),
    ({"guided_grammar": 'root ::= ("x" | "y" root) "z"'}, "y*xz+"),
    ({"grammar": 'start: "one" | "two" start'}, "(two)*one"),
    ({"json_schema": {"const": [1, "x"]}}, r'\[\s*1,\s*"x"\s*\]'),
])
def test_each_field(server, field, pattern):
    finish, text = content(server, temperature=1.2, **field)
    assert finish == "length" or re.fullmatch(pattern, text), text


def test_log_probabilities_are_those_of_the_free_distribution(server):
    answer = ask(server, temperature=0, logprobs=True, top_logprobs=1, guided_choice=["qqq"]).json()["choices"][0]
    first = answer["logprobs"]["content"][0]
    assert first["token"].startswith("q") and first["logprob"] < first["top_logprobs"][0]["logprob"]


@pytest.mark.parametrize("fields, word", [
    ({"guided_json": {"type": "array", "uniqueItems": True}}, "uniqueItems"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"contains": {}}}}}, "contains"),
    ({"guided_json": {"unheard": 1}}, "unheard"),
    ({"guided_regex": "(?=a)"}, "looking ahead"),
    ({"guided_regex": "a", "guided_choice": ["b"]}, "both"),
    ({"guided_choice": []}, "array of strings"),
    ({"response_format": {"type": "structural_tag"}}, "json_schema"),
    ({"structured_outputs": {"structural_tag": "{}"}}, "structural_tag"),
    ({"guided_grammar": "root ::= missing"}, "missing"),
    ({"guided_json": {"type": "string", "pattern": "(.*a){20}.{100}b", "maxLength": 200}}, "too large"),
    ({"guided_json": {"enum": [f"value {i * 7919}" for i in range(40000)], "type": "string",
                      "pattern": "^(([a-z]|[0-9])* *)*$"}}, ""),
])
def test_what_is_not_supported_is_named(server, fields, word):
    start = time.monotonic()
    answer = ask(server, max_tokens=1, **fields)
    assert time.monotonic() - start < 10
    if word:
        assert answer.status_code == 400 and word in answer.json()["error"]["message"], answer.text


def test_a_script_is_followed_where_the_format_allows_it(serve):
    good = serve(script=[{"match": "", "reply": '{"name": "Ada", "age": 36, "kind": "a"}'}])
    assert content(good, guided_json=PERSON) == ("stop", '{"name": "Ada", "age": 36, "kind": "a"}')
