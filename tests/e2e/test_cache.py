"""The prefix cache as clients see it: exact counts, who shares with whom, forgetting, tiers, numbers that add up."""

import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import threading
import time

import pytest

from conftest import HEADWAY, Server, events, free_ports

CACHE_HOME = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MODEL = CACHE_HOME / "headway" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
SIM = "sim:reply_tokens=40,decode_base_us=200,prefill_tokens_per_s=40000"
PAGE = {"sim": 16, "model": 32}
TENANTS = """
[tenant default]
key = operator
[tenant a]
key = key-a
[tenant b]
key = key-b
[tenant ga]
key = key-ga
share-prefix = group
[tenant gb]
key = key-gb
share_prefix = group
"""


def needs_model(kind):
    if kind == "model" and not MODEL.exists():
        pytest.skip("the default model is not there")


@pytest.fixture(scope="module", params=["sim", "model"])
def shared(request):
    """(kind, server): one server for the tests that need no settings of their own; they use salts of their own."""
    needs_model(request.param)
    flags = ["--runner", SIM] if request.param == "sim" else ["--model", MODEL, "--ctx", "4096", "--kv-memory", "512M"]
    server = Server(*flags)
    yield request.param, server
    assert server.stop() == 0, "".join(server.log)


@pytest.fixture
def tenants(tmp_path, serve):
    path = tmp_path / "tenants.ini"
    path.write_text(TENANTS)
    path.chmod(0o600)
    return serve("--runner", SIM, "--config", path)


def words(seed, count):
    """Text that no other seed shares a page with."""
    rng = random.Random(seed)
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(count))


def ask(server, prompt, key=None, **fields):
    headers = {"Authorization": "Bearer " + key} if key else {}
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}
    answer = server.post("/v1/completions", body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def cached(answer):
    return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def whole_pages(tokens, page):
    return tokens // page * page


def reusable(kind, tokens):
    """Of so many tokens that were read: what is found again in memory. The sim keeps whole pages only."""
    return whole_pages(tokens, PAGE[kind]) if kind == "sim" else tokens


def forget(server, query="", key=None):
    return server.http.delete("/v1/cache" + query, headers={"Authorization": "Bearer " + key} if key else {})


def state_of(server, key=None):
    answer = server.http.get("/debug/state", headers={"Authorization": "Bearer " + key} if key else {})
    return answer.json()["cache"]


def until(condition, patience_s=10):
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "never true"
        time.sleep(0.05)


# ---- counts ----


@pytest.mark.parametrize("streamed", [False, True])
def test_the_same_prompt_again_computes_its_end_only(shared, streamed):
    kind, server = shared
    prompt, salt = words(f"again {streamed}", 60), f"again {streamed}"
    first = ask(server, prompt, cache_salt=salt).json()
    total = first["usage"]["prompt_tokens"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert first["headway_cache"]["looked_up"] == total and first["headway_cache"]["hit"] == 0
    expected = reusable(kind, total - 1)
    if not streamed:
        answer = ask(server, prompt, cache_salt=salt)
        seen = answer.json()
        usage, timings, cache = seen["usage"], seen["timings"], seen["headway_cache"]
        assert f"hit={expected}/{total}; ram={expected}" in answer.headers["x-headway-cache"]
        assert "cause=last" in answer.headers["x-headway-cache"]
    else:
        body = {"prompt": prompt, "max_tokens": 3, "cache_salt": salt, "stream": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        with server.http.stream("POST", "/v1/completions", json=body) as answer:
            chunks = [e for e in events(answer.iter_lines()) if isinstance(e, dict)]
        usage = chunks[-1]["usage"]
        last = chunks[-2]
        timings, cache = last["timings"], last["headway_cache"]
        for chunk in chunks:  # on the way it may not be known yet, but is never another number
            details = chunk["usage"].get("prompt_tokens_details")
            assert details is None or details["cached_tokens"] == expected
    assert usage["prompt_tokens"] == total
    assert usage["prompt_tokens_details"]["cached_tokens"] == expected == timings["cache_n"]
    assert timings["prompt_n"] == total - expected
    assert cache == {"looked_up": total, "hit": expected, "hits": {"ram": expected},
                     "misses": {"last": total - expected}, "differs_at": cache["differs_at"]}


def test_turns_of_a_chat_find_all_that_was_said_before(shared):
    kind, server = shared
    page, before = PAGE[kind], 0
    messages = [{"role": "system", "content": "You are brief. " + words("turns", 40)}]
    for turn in range(5):
        messages.append({"role": "user", "content": words(f"turn {turn}", 15)})
        prompt = server.post("/tokenize", {"messages": messages}).json()["count"]
        body = {"messages": messages, "max_tokens": 24, "temperature": 0, "cache_salt": "turns"}
        if turn % 2:
            with server.http.stream("POST", "/v1/chat/completions",
                                    json={**body, "stream": True, "stream_options": {"include_usage": True}}) as answer:
                chunks = [e for e in events(answer.iter_lines()) if isinstance(e, dict)]
            text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
            usage, finish = chunks[-1]["usage"], chunks[-2]["choices"][0]["finish_reason"]
        else:
            answer = server.post("/v1/chat/completions", body).json()
            text, finish = answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]
            usage = answer["usage"]
        found = usage["prompt_tokens_details"]["cached_tokens"]
        assert usage["prompt_tokens"] == prompt
        if turn == 0:
            assert found == 0
        elif kind == "sim":  # bytes: the answer's tokens are those of its text
            assert found == whole_pages(min(before, prompt - 1), page)
        else:  # the answer may be tokenized another way; what was read before is there
            assert whole_pages(read, page) <= found <= prompt - 1
        # the last token is sampled and not read, unless the answer ended with a stop token
        before = prompt + usage["completion_tokens"] - (1 if finish == "length" else 0)
        read = prompt
        messages.append({"role": "assistant", "content": text})


def test_a_miss_says_the_first_token_that_differs(shared):
    kind, server = shared
    prompt = words("differs", 80)
    ids = server.post("/tokenize", {"content": prompt}).json()["tokens"]
    ask(server, ids, cache_salt="differs")
    at = 2 * PAGE[kind] + 5
    other = ids[:at] + [(ids[at] + 1) % 250] + ids[at + 1:]
    answer = ask(server, other, cache_salt="differs")
    seen = answer.json()["headway_cache"]
    assert seen["differs_at"] == at and seen["hit"] == 2 * PAGE[kind]
    assert seen["misses"]["new"] + seen["misses"].get("last", 0) == len(ids) - seen["hit"]
    assert f"differs_at={at}; cause=new" in answer.headers["x-headway-cache"]


def test_several_choices_and_prompts_are_counted_once_a_prompt(shared):
    kind, server = shared
    prompts = [words(f"several {i}", 30) for i in range(2)]
    for prompt in prompts:
        ask(server, prompt, cache_salt="several")
    usage = ask(server, prompts, cache_salt="several", n=3).json()["usage"]
    sizes = [server.post("/tokenize", {"prompt": p}).json()["count"] for p in prompts]
    assert usage["prompt_tokens"] == sum(sizes)
    assert usage["prompt_tokens_details"]["cached_tokens"] == sum(reusable(kind, s - 1) for s in sizes)


def test_the_answer_is_the_same_from_the_cache(shared):
    _, server = shared
    prompt = words("same", 50)
    cold = ask(server, prompt, cache_salt="same", max_tokens=16).json()
    warm = ask(server, prompt, cache_salt="same", max_tokens=16).json()
    never = ask(server, prompt, cache_prompt=False, max_tokens=16).json()
    assert cached_of(warm) > 0 == cached_of(cold) == cached_of(never)
    assert cold["choices"][0]["text"] == warm["choices"][0]["text"] == never["choices"][0]["text"]


def cached_of(body):
    return body["usage"]["prompt_tokens_details"]["cached_tokens"]


# ---- who shares with whom ----


def test_salts_share_nothing(shared):
    _, server = shared
    prompt = words("salts", 40)
    assert cached(ask(server, prompt, cache_salt="salt 1")) == 0
    assert cached(ask(server, prompt, cache_salt="salt 2")) == 0
    assert cached(ask(server, prompt)) == 0
    assert cached(ask(server, prompt, cache_salt="salt 1")) > 0
    assert cached(ask(server, prompt)) > 0


def test_cache_prompt_false_neither_finds_nor_leaves_anything(shared):
    _, server = shared
    prompt = words("without", 40)
    first = ask(server, prompt, cache_prompt=False)
    assert cached(first) == 0 and "x-headway-cache" not in first.headers and "headway_cache" not in first.json()
    assert cached(ask(server, prompt)) == 0
    assert cached(ask(server, prompt, cache_prompt=False)) == 0
    assert cached(ask(server, prompt)) > 0


def test_tenants_share_only_in_a_group(tenants):
    prompt = words("tenants", 40)
    assert cached(ask(tenants, prompt, "key-a")) == 0
    assert cached(ask(tenants, prompt, "key-b")) == 0
    assert cached(ask(tenants, prompt, "key-ga")) == 0
    assert cached(ask(tenants, prompt, "operator")) == 0
    assert cached(ask(tenants, prompt, "key-gb")) > 0
    for key in ("key-a", "key-b", "key-ga", "operator"):
        assert cached(ask(tenants, prompt, key)) > 0


def rank_area(right, wrong):
    """The chance that a value of `right` is below one of `wrong`: 0.5 says that they cannot be told apart."""
    below = sum((r < w) + 0.5 * (r == w) for r in right for w in wrong)
    return below / (len(right) * len(wrong))


def probe(server, key, guesses):
    """What somebody with this key sees of each guess."""
    seen = []
    for guess in guesses:
        body = {"prompt": guess, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
        start, first, chunks = time.perf_counter(), None, []
        with server.http.stream("POST", "/v1/completions", json=body,
                                headers={"Authorization": "Bearer " + key}) as answer:
            for event in events(answer.iter_lines()):
                if isinstance(event, dict):
                    first = first or time.perf_counter() - start
                    chunks.append(event)
        found = next(c["headway_cache"] for c in chunks if "headway_cache" in c)
        usage = chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]
        seen.append({"first_s": first,
                     "told": (usage, found["hit"], found["differs_at"], tuple(found["hits"].items()))})
    return seen


@pytest.mark.alone
def test_nobody_learns_what_another_tenant_cached(tenants):
    secrets = [words(f"secret {i}", 100) for i in range(100)]
    wrong = [words(f"guess {i}", 100) for i in range(100)]
    for secret in secrets:
        ask(tenants, secret, "key-a")
    guesses = [(g, True) for g in secrets] + [(g, False) for g in wrong]
    random.Random(1).shuffle(guesses)

    seen = probe(tenants, "key-b", [g for g, _ in guesses])
    told = {s["told"] for s in seen}
    assert all(hit == 0 for hit, *_ in told), told
    right_s = [s["first_s"] for s, (_, right) in zip(seen, guesses) if right]
    wrong_s = [s["first_s"] for s, (_, right) in zip(seen, guesses) if not right]
    area = rank_area(right_s, wrong_s)
    assert 0.5 - 0.17 < area < 0.5 + 0.17, area  # 4 standard deviations of chance

    # the same probe by the owner: what the attacker would see if anything leaked
    fresh = [words(f"fresh {i}", 100) for i in range(30)]
    own = probe(tenants, "key-a", secrets[:30] + fresh)
    assert all(s["told"][0] > 0 for s in own[:30])
    assert rank_area([s["first_s"] for s in own[:30]], [s["first_s"] for s in own[30:]]) > 0.9


# ---- forgetting ----


def test_a_deleted_cache_is_forgotten(shared):
    kind, server = shared
    if kind == "model":
        pytest.skip("it is the same code")
    prompt = words("deleted", 60)
    ask(server, prompt)
    assert cached(ask(server, prompt)) > 0
    until(lambda: state_of(server)["pages"] > 0)
    answer = forget(server)
    assert answer.status_code == 200 and answer.json()["deleted"] is True and answer.json()["pages"] > 0
    assert cached(ask(server, prompt)) == 0
    assert server.metric("headway_cache_evicted_pages_total") > 0


def test_who_may_delete_what(tenants):
    prompt = words("who", 40)

    def warm(key):
        ask(tenants, prompt, key)
        return cached(ask(tenants, prompt, key)) > 0

    assert all(warm(key) for key in ("key-a", "key-b", "operator"))
    assert forget(tenants).status_code == 401
    for query in ("?tenant=b", "?all=1", "?tenant=default", "?tenant=nobody"):
        refused = forget(tenants, query, "key-a")
        assert refused.status_code == 403 and refused.json()["error"]["code"] == "not_yours", query
    assert cached(ask(tenants, prompt, "key-b")) > 0
    assert forget(tenants, "?tenant=a", "key-a").status_code == 200
    assert cached(ask(tenants, prompt, "key-a")) == 0
    assert cached(ask(tenants, prompt, "key-b")) > 0
    assert forget(tenants, "?tenant=nobody", "operator").status_code == 404
    for query in ("?tenant=", "?tenant=a&all=1", "?all=2", "?all=x", "?tenant=%0a"):
        assert forget(tenants, query, "operator").status_code == 400, query
    assert forget(tenants, "?tenant=%62", "operator").status_code == 200  # b
    assert cached(ask(tenants, prompt, "key-b")) == 0
    assert cached(ask(tenants, prompt, "operator")) > 0
    assert forget(tenants, "?all=1", "operator").json()["deleted"] is True
    assert all(cached(ask(tenants, prompt, key)) == 0 for key in ("key-a", "key-b", "operator"))
    wrong = tenants.http.get("/v1/cache", headers={"Authorization": "Bearer key-a"})
    assert wrong.status_code == 405 and wrong.headers["allow"] == "DELETE, OPTIONS"


def test_deletes_beside_requests_and_at_the_end(serve):
    """Deleting while answers stream cuts none of them, and a stop waits for a delete."""
    server = serve("--runner", SIM)
    over, seen = threading.Event(), []

    def talk(number):
        while not over.is_set():
            body = {"prompt": words(f"beside {number}", 40), "max_tokens": 20, "temperature": 0}
            answer = server.post("/v1/completions", body)
            seen.append((number, answer.json()["choices"][0]["text"]))

    threads = [threading.Thread(target=talk, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        assert forget(server).status_code == 200
    over.set()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert len({text for n, text in seen if n == number}) == 1
    assert forget(server).status_code == 200
    until(lambda: server.held_pages() == 0)


def test_what_is_not_used_is_forgotten_after_the_ttl(serve):
    server = serve("--runner", SIM, "--cache-ttl", "1")
    prompt = words("ttl", 60)
    ask(server, prompt)
    assert cached(ask(server, prompt)) > 0
    time.sleep(2.5)
    assert cached(ask(server, prompt)) == 0
    until(lambda: any(line.startswith("headway_cache_evicted_pages_total{") and 'cause="ttl"' in line
                      and not line.endswith(" 0") for line in server.http.get("/metrics").text.splitlines()))


# ---- sizes ----


def test_no_cache_at_all(serve):
    server = serve("--runner", SIM, "--cache-ram", "0")
    prompt = words("off", 60)
    assert [cached(ask(server, prompt)) for _ in range(3)] == [0, 0, 0]
    assert "headway_cache" not in ask(server, prompt).json()
    assert server.says("cache: off")
    assert state_of(server)["enabled"] is False
    assert forget(server).json() == {"deleted": True, "pages": 0}


def test_idle_pages_stay_within_the_budget(serve):
    page_bytes = 16 * 20480
    server = serve("--runner", SIM, "--cache-ram", str(40 * page_bytes))
    for i in range(20):
        ask(server, words(f"budget {i}", 60))
    until(lambda: state_of(server)["idle_pages"] > 0)
    state = state_of(server)
    assert state["idle_pages_max"] == 40 and state["idle_pages"] <= 40
    assert state["evicted_pages"]["budget"] > 0


@pytest.mark.parametrize("flags, words_of_it", [
    (["--cache-sessions", "6"], ["cache: 6 sessions of 8,192 tokens = "]),
    (["--cache-sessions", "2", "--cache-session-tokens", "1000"], ["cache: 2 sessions of 1,000 tokens = "]),
    (["--cache-ram", "64M"], ["cache: 64 MB of idle prefixes", "session"]),
    (["--cache-ttl", "60"], ["all of the KV memory", "forgotten after 60 s without use"]),
])
def test_a_line_says_what_the_cache_is(serve, flags, words_of_it):
    server = serve("--runner", "sim", *flags)
    assert server.says("cache:", *words_of_it)


@pytest.mark.parametrize("flags, complaint", [
    (["--cache-ram", "lots"], "--cache-ram: 'lots' is not a size such as 512M"),
    (["--cache-ram", "1G", "--cache-sessions", "6"], "--cache-sessions: it sizes the cache as --cache-ram does"),
    (["--cache-session-tokens", "100"], "--cache-session-tokens: of how many sessions?"),
    (["--cache-sessions", "0"], "--cache-sessions"),
    (["--cache-sessions", "1", "--cache-session-tokens", "9000"], "the context holds 8192 tokens"),
    (["--cache-sessions", "100000"], "--kv-memory"),
    (["--cache-ram", "100T"], "--kv-memory"),
    (["--cache-ram", "1"], "less than one page"),
    (["--cache-disk-size", "1G"], "--cache-disk-size: --cache-disk DIR is missing"),
    (["--cache-disk", "/tmp/x", "--cache-disk-size", "1K"], "--cache-disk-size: less than 1M"),
    (["--cache-disk", ""], "--cache-disk: empty"),
    (["--cache-ram", "0", "--cache-disk", "/tmp/x"], "--cache-disk: --cache-ram 0 keeps no prefixes"),
    (["--cache-ram", "0", "--cache-ttl", "5"], "--cache-ttl: --cache-ram 0 keeps no prefixes"),
    (["--cache-ttl", "0"], "--cache-ttl"),
])
def test_wrong_sizes_are_named(flags, complaint):
    done = subprocess.run([HEADWAY, "serve", "--port", "0", "--runner", "sim", *flags], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and complaint in done.stderr, done.stderr


def test_settings_and_floors_of_the_file(tmp_path, serve):
    path = tmp_path / "h.ini"
    path.write_text("[server]\ncache-ram = 64M\n[tenant default]\ncache_floor = 15M\n[tenant a]\ncache-floor = 48M\n")
    server = serve("--runner", "sim", "--config", path)
    assert server.says("cache: 64 MB")
    path.write_text("[server]\ncache-ram = 64M\n[tenant a]\ncache-floor = 65M\n")
    done = subprocess.run([HEADWAY, "serve", "--port", "0", "--runner", "sim", "--config", path],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode != 0 and "tenant a: cache-floor = 65 MB: the cache holds 63.75 MB" in done.stderr
    os.kill(server.process.pid, 1)  # SIGHUP: the same complaint, and everything stays
    assert server.says("the config stays as it was", "cache-floor")


# ---- numbers ----


def series(server, name, key=None):
    """{labels: value} of one name."""
    found = {}
    text = server.http.get("/metrics", headers={"Authorization": "Bearer " + key} if key else {}).text
    for line in text.splitlines():
        if line.startswith(name + "{"):
            labels, value = line[len(name) + 1:].rsplit("} ", 1)
            found[labels] = float(value)
    return found


def total(server, name, key=None, label=""):
    return sum(v for labels, v in series(server, name, key).items() if label in labels)


def test_metrics_add_up(tenants):
    asked = found = 0
    for i in range(12):
        for key in ("key-a", "key-b"):
            answer = ask(tenants, words(f"metrics {i // 3}", 30 + i), key).json()
            asked += answer["usage"]["prompt_tokens"]
            found += cached_of(answer)
    assert found > 0

    def settled():
        return total(tenants, "vllm:prefix_cache_queries_total", "operator") == asked

    until(settled)
    hits = total(tenants, "headway_cache_hit_tokens_total", "operator")
    misses = total(tenants, "headway_cache_miss_tokens_total", "operator")
    assert hits == found and hits + misses == asked
    assert total(tenants, "vllm:prefix_cache_hits_total", "operator") == found
    assert total(tenants, "vllm:prompt_tokens_cached_total", "operator") == found
    assert total(tenants, "vllm:prompt_tokens_total", "operator") == asked
    assert total(tenants, "headway_tenant_cached_tokens_total", "operator") == found
    for name in ("a", "b"):
        assert total(tenants, "headway_cache_hit_tokens_total", "operator", f'tenant="{name}"') > 0
    assert total(tenants, "headway_cache_hit_tokens_total", "operator", 'tenant="ga"') == 0
    # idle pages are no usage
    until(lambda: total(tenants, "headway_cache_idle_pages", "operator") > 0)
    assert total(tenants, "vllm:kv_cache_usage_perc", "operator") == 0
    state = state_of(tenants, "operator")
    assert state["looked_up"] == asked and sum(state["hits"].values()) == found
    assert sum(state["misses"].values()) == asked - found


def test_usage_is_what_requests_hold(serve):
    server = serve("--runner", "sim:reply_tokens=4000,decode_base_us=5000,page_count=1000")
    assert ask(server, words("usage", 100)).status_code == 200
    until(lambda: server.metric("headway_cache_idle_pages") > 0)
    assert server.metric("vllm:kv_cache_usage_perc") == 0 == server.held_pages()
    body = {"prompt": words("usage", 100), "max_tokens": 3000, "stream": True}
    with server.http.stream("POST", "/v1/completions", json=body) as answer:
        next(answer.iter_lines())
        until(lambda: 0.03 < server.metric("vllm:kv_cache_usage_perc") < 0.3)
    until(lambda: server.metric("vllm:kv_cache_usage_perc") == 0)


def test_sessions_are_listed_with_their_state(serve):
    server = serve("--runner", SIM)
    messages = [{"role": "user", "content": words("listed", 50)}]
    for turn in range(3):
        answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 20}).json()
        messages += [answer["choices"][0]["message"] | {"refusal": None},
                     {"role": "user", "content": words(f"listed {turn}", 10)}]
    until(lambda: any(line["uses"] >= 1 for line in state_of(server)["lines"]))
    line = max(state_of(server)["lines"], key=lambda line: line["uses"])
    assert line["state"] == "warm" and line["tenant"] == "default" and line["class"] == "interactive"
    assert 0 < line["tokens"] == line["here"] and line["tokens"] % 16 == 0
    assert line["age_us"] < 60e6
    assert forget(server).status_code == 200
    until(lambda: all(line["state"] == "gone" for line in state_of(server)["lines"]))


# ---- tiers ----


def disk_server(kind, folder, *flags):
    needs_model(kind)
    runner = ["--runner", SIM] if kind == "sim" else ["--model", MODEL, "--ctx", "4096", "--kv-memory", "256M"]
    return Server(*runner, "--cache-disk", folder, *flags)


@pytest.mark.parametrize("kind", ["sim", "model"])
def test_a_restart_is_warm_with_a_disk(tmp_path, kind):
    folder = tmp_path / "cache"
    prompt = words("restart", 300)
    server = disk_server(kind, folder)
    first = ask(server, prompt, max_tokens=12).json()
    until(lambda: state_of(server)["tiers"][0]["records"] > 0)
    assert server.stop() == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(p.stat().st_mode & 0o077 == 0 for p in folder.iterdir())
    server = disk_server(kind, folder)
    assert server.says("cache:", "there", "disk")
    again = ask(server, prompt, max_tokens=12).json()
    assert again["choices"][0]["text"] == first["choices"][0]["text"]
    size = again["usage"]["prompt_tokens"]
    if kind == "sim":  # reading a disk never beats a simulated prefill for sure: it says why it did not
        assert cached_of(again) > 0 or again["headway_cache"]["misses"].get("slower", 0) > 0
    else:
        assert cached_of(again) == again["headway_cache"]["hits"]["disk"] == whole_pages(size - 1, PAGE[kind])
    assert server.stop() == 0


def test_forgetting_empties_the_disk_too(tmp_path):
    folder = tmp_path / "cache"
    server = disk_server("model", folder)
    prompt = words("empty", 300)
    ask(server, prompt)
    until(lambda: state_of(server)["tiers"][0]["records"] > 0)
    assert forget(server).status_code == 200
    until(lambda: state_of(server)["tiers"][0]["records"] == 0)
    assert server.stop() == 0
    server = disk_server("model", folder)
    assert cached(ask(server, prompt)) == 0
    assert server.stop() == 0


@pytest.fixture
def redis(tmp_path):
    """The URL of a Redis of its own, with a password."""
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server")
    (port,) = free_ports(1)
    process = subprocess.Popen(["redis-server", "--port", str(port), "--requirepass", "sesame", "--save", "", "--dir",
                                str(tmp_path)], stdout=subprocess.DEVNULL)

    def answers():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    until(answers)
    yield f"redis://:sesame@127.0.0.1:{port}"
    process.terminate()
    process.wait(10)


@pytest.mark.alone
def test_two_servers_share_a_redis(redis):
    needs_model("model")
    flags = ["--model", MODEL, "--ctx", "4096", "--kv-memory", "256M", "--cache-redis", redis]
    prompt = words("redis", 300)
    first, second = Server(*flags), Server(*flags)
    try:
        assert first.says("cache:", "redis 127.0.0.1:")
        one = ask(first, prompt, max_tokens=12).json()
        pages = (one["usage"]["prompt_tokens"] - 1) // PAGE["model"]
        ask(first, prompt)
        until(lambda: first.metric("headway_cache_tier_stored_pages_total") >= pages)
        other = ask(second, prompt, max_tokens=12).json()
        assert other["choices"][0]["text"] == one["choices"][0]["text"]
        assert other["headway_cache"]["hits"] == {"redis": pages * PAGE["model"]}
        assert forget(second).status_code == 200
        assert cached(ask(second, prompt)) == 0
        assert "sesame" not in "".join(first.log) + json.dumps(state_of(first)) + first.http.get("/metrics").text
    finally:
        assert [first.stop(), second.stop()] == [0, 0]


def test_a_redis_url_that_is_none_is_named_without_its_password(tmp_path):
    needs_model("model")
    for url in ("http://x", "redis://u:sesame@", "redis://h:99999"):
        done = subprocess.run([HEADWAY, "serve", "--port", "0", "--model", str(MODEL), "--cache-redis", url],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and "--cache-redis: " in done.stderr and "sesame" not in done.stderr, done.stderr
