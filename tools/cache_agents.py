"""Scenarios of bench_cache.py: how much of what was computed is found again, and what has to be computed twice. Each
takes the options and a report."""

import json, random, threading, time

from cache_client import *

GRID_TOKENS = 2048  # between two recurrent states inside a document
ANSWER_TOKENS = 40
CLOSING_TOKENS = 4  # an answer's last token and what the template puts behind it are computed with the next turn


def kinds(o, scratch):
    """What the prefix cache is measured on: (name, server flags, tokens of a state or 0)"""
    tiny_hybrid = ["--model", tiny(o, scratch), "--ctx", "16384"]
    all_kinds = [("sim", ["--runner", "sim"], False), ("sim-hybrid", ["--runner", "sim:state_bytes=1000000"], True),
                 ("hybrid", tiny_hybrid, True), ("dense", ["--model", o.model, "--ctx", "8192"], False)]
    return [k for k in all_kinds if not o.kinds or k[0] in o.kinds]


def letters_only(server):
    """A logit_bias that lets a small model of bytes say letters and spaces: what it said is then the same tokens when
    it is sent back as text."""
    writer = Writer(server, random.Random(0))
    count = json.loads(fetch(server.port, "/v1/models")[1])["data"][0]["meta"]["n_vocab"]
    said = set(writer.tokens(content="abcdefghijklmnopqrstuvwxyz "))
    return {"logit_bias": [[i, -100] for i in range(count) if i not in said]} if count <= 2048 else {}


# ---- agents ----


class Agent:
    """A tool-calling session: answers, results of tools, an edit of an earlier turn now and then, a request that is
    given up and sent again now and then. Each question is asked of the server and of the ideal."""

    def __init__(self, run, number):
        self.run, self.rng = run, random.Random(f"{run.seed}/{number}")
        self.writer = run.writer
        self.messages = [run.system, {"role": "user", "content": self.text(60)}]
        self.failed = None
        self.at_once = range(0)  # the messages that were read in one go, so that no turn has ended amid them

    def text(self, tokens):
        return words(self.rng, max(1, round(tokens / self.writer.word_tokens)))

    def edit(self):
        """One of the earlier messages of the user or a tool says something else; what follows stays or goes. -> its
        index, whether it lies amid what was read in one go"""
        places = [i for i, m in enumerate(self.messages) if m["role"] in ("user", "tool")]
        at = self.rng.choice(places)
        self.messages[at] = {**self.messages[at], "content": self.text(80)}
        inside = at in self.at_once
        if self.rng.random() < 0.5:
            del self.messages[at + 1:]
        self.at_once = range(at + 1, len(self.messages))
        return at, inside

    def give_up(self):
        body = turn(self.messages, ANSWER_TOKENS, stream=True, **self.run.more)
        stream = self.run.server.reader.post(body)
        stream.done.wait(self.rng.uniform(0.001, 0.3))
        stream.abort(reset=self.rng.random() < 0.5)
        stream.done.wait(20)

    def turn(self):
        run, rng = self.run, self.rng
        edited, inside = self.edit() if len(self.messages) > 4 and rng.random() < 0.12 else (None, False)
        prompt = self.writer.prompt(self.messages)
        ideal = run.ideal.finds(prompt)
        if rng.random() < 0.1:
            self.give_up()
            run.aborted += 1
        run.ideal.add(prompt)
        answer = ask(run.server, turn(self.messages, ANSWER_TOKENS, **run.more))
        if answer["usage"]["prompt_tokens"] != len(prompt):
            raise Failed(f"a prompt of {len(prompt)} tokens counts as {answer['usage']['prompt_tokens']}")
        start = None
        if edited is not None:
            start = len(self.writer.prompt(self.messages[:edited], False)) if edited else 0
        run.note(len(prompt), ideal, cached(answer), answer.get("headway_cache"), start, inside)
        said = answer["choices"][0]["message"]["content"] or ""
        count = answer["usage"]["completion_tokens"]
        run.ideal.add(prompt + self.writer.tokens(content=said, parse_special=False)[:count - 1])
        follows = {"role": "tool", "content": self.text(rng.randint(40, 260))} if rng.random() < 0.7 else \
            {"role": "user", "content": self.text(rng.randint(10, 60))}
        self.messages += [{"role": "assistant", "content": said}, follows]

    def go(self, turns, at_once):
        try:
            for _ in range(turns):
                time.sleep(self.rng.uniform(0, 0.02))
                with at_once:
                    self.turn()
        except Exception as e:
            self.failed = e


class Agents:
    """One run of several sessions; what it counts."""

    def __init__(self, server, seed, system_tokens=1500):
        self.server, self.seed, self.ideal, self.lock = server, seed, Ideal(), threading.Lock()
        self.more = letters_only(server)
        self.writer = Writer(server, random.Random(f"{seed}/system"))
        self.system = {"role": "system", "content": self.writer.text(system_tokens)}
        self.tokens = self.ideal_tokens = self.cached_tokens = self.turns = self.aborted = 0
        self.edits, self.inside, self.poor = [], [], []

    def note(self, tokens, ideal, found, facts, edited_from, inside):
        with self.lock:
            self.turns += 1
            self.tokens += tokens
            self.ideal_tokens += ideal
            self.cached_tokens += min(found, ideal)
            if edited_from is not None:
                (self.inside if inside else self.edits).append(edited_from - found)
            if ideal - found > 64:
                self.poor.append({"tokens": tokens, "ideal": ideal, "cached": found, "edited_from": edited_from,
                                  "inside": inside, "facts": facts})

    def go(self, sessions, turns, at_once=3):
        first = [self.system, {"role": "user", "content": "hello"}]  # who comes first is the herd's affair
        self.ideal.add(self.writer.prompt(first))
        ask(self.server, turn(first, 1))
        gate = threading.Semaphore(at_once)
        agents = [Agent(self, i) for i in range(sessions)]
        threads = [threading.Thread(target=a.go, args=(turns, gate)) for a in agents]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for a in agents:
            if a.failed:
                raise a.failed


def scenario_agents(o, report):
    sessions, turns = (4, 8) if o.quick else (8, 12)
    with folder() as scratch:
        for name, flags, _ in kinds(o, scratch):
            with Server(o, flags) as server:
                run = Agents(server, f"{o.seed}/{name}")
                run.go(sessions, turns)
                page = cache_state(server)["page_tokens"] + CLOSING_TOKENS
            share = run.cached_tokens / max(1, run.ideal_tokens)
            worst, inside = max(run.edits, default=0), max(run.inside, default=0)
            report.note(f"{name}: {run.turns} turns of {run.tokens / run.turns:.0f} tokens, {run.aborted} given up and "
                        f"sent again, {len(run.edits)} and {len(run.inside)} edits; ideal "
                        f"{run.ideal_tokens / run.tokens:.3f} of all tokens; {len(run.poor)} turns lack more than 64")
            for p in sorted(run.poor, key=lambda p: p["cached"] - p["ideal"])[:3]:
                report.note(f"  {p}")
            report.details[name] = {"turns": run.turns, "tokens": run.tokens, "ideal": run.ideal_tokens,
                                    "cached": run.cached_tokens, "edits": run.edits, "inside": run.inside,
                                    "poor": run.poor[:20]}
            report.check(f"{name}: cached tokens by the ideal", ">= 0.95", share, share >= 0.95)
            report.check(f"{name}: after an edit, computed beyond the edited turn, tokens", f"<= {page}", worst,
                         worst <= page)
            if run.inside:
                report.check(f"{name}: the same amid turns that were read in one go, tokens", f"<= {page}", inside,
                             inside <= page)


# ---- the same cold prefix at once ----


def scenario_herd(o, report):
    """Sessions that begin with the same words start while the first one is read: those are computed once."""
    count = 4 if o.quick else 8
    with folder() as scratch:
        for name, flags, _ in kinds(o, scratch):
            with Server(o, flags) as server:
                writer, page = Writer(server, rng_of(o, "herd", name)), cache_state(server)["page_tokens"]
                system = {"role": "system", "content": writer.text(2000)}
                prompts = [[system, {"role": "user", "content": writer.text(100)}] for _ in range(count)]
                ids = [writer.prompt(p) for p in prompts]
                bodies = [turn(p, 1, stream=True, stream_options={"include_usage": True}) for p in prompts]
                streams = []
                for body in bodies:
                    streams.append(server.reader.post(body))
                    time.sleep(writer.rng.choice((0, 0, 0.02)))
                for s in streams:
                    if not s.done.wait(300) or not s.usage:
                        raise Failed(f"a session failed: {s.status} {s.text[:200]!r}")
                found = [s.usage["cached_tokens"] for s in streams]
            shared = common(ids[0], ids[1])
            again = sum(map(len, ids)) - sum(found) - shared - sum(len(i) - shared for i in ids)
            report.note(f"{name}: {count} sessions at once, {shared} tokens are the same; found {found}")
            limit = count * page
            report.check(f"{name}: {count} starts at once: computed more than once, tokens", f"<= {limit}", again,
                         again <= limit)


# ---- documents ----


def scenario_documents(o, report):
    """A document is asked about again, and again up to a place amid it with something else behind."""
    rounds = 2 if o.quick else max(3, o.runs)
    with folder() as scratch:
        for name, flags, hybrid in kinds(o, scratch):
            with Server(o, flags) as server:
                writer = Writer(server, rng_of(o, "documents", name))
                page, worst = cache_state(server)["page_tokens"], 0
                limit = (GRID_TOKENS if hybrid else 0) + page
                for _ in range(rounds):
                    text = writer.text(5000)
                    first = writer.tokens(content=text + " one")
                    ask(server, {"prompt": first, "max_tokens": 2, "temperature": 0}, COMPLETIONS)
                    for part in (1.0, writer.rng.uniform(0.3, 0.9)):
                        start = first[:int(len(first) * part)]
                        prompt = start + writer.tokens(content=writer.text(30))
                        answer = ask(server, {"prompt": prompt, "max_tokens": 2, "temperature": 0}, COMPLETIONS)
                        again = common(prompt, first) - cached(answer)
                        report.details.setdefault(name, []).append({"tokens": len(prompt), "shared": len(start),
                                                                    "again": again})
                        worst = max(worst, again)
            report.check(f"{name}: of a document seen before, computed again, tokens", f"<= {limit}", worst,
                         worst <= limit)


# ---- aborts ----


def prefill_ms(server, prompts):
    """Of prompts that are new, one after the other; the median."""
    times = []
    for prompt in prompts:
        s = server.reader.post(completion(prompt), path=COMPLETIONS)
        if not s.done.wait(300) or not s.times:
            raise Failed(f"a prompt failed: {s.status} {s.text[:200]!r}")
        times.append(s.ttft_ms())
    return median(times)


def completion(prompt, tokens=1):
    return {"prompt": prompt, "max_tokens": tokens, "stream": True, "temperature": 0, "ignore_eos": True,
            "skip_special_tokens": False, "stream_options": {"include_usage": True}}


def scenario_abort(o, report):
    new = 1 if o.quick else 3
    tries = 1 if o.quick else max(3, o.runs)
    with folder() as scratch:
        for name, flags, _ in kinds(o, scratch):
            if name.startswith("sim"):
                flags = ["--runner", flags[1] + ("," if ":" in flags[1] else ":") + "prefill_tokens_per_s=5000"]
            with Server(o, flags) as server:
                writer = Writer(server, rng_of(o, "abort", name))
                prompts = [writer.tokens(content=writer.text(4050))[:4000] for _ in range(new + tries)]
                took = prefill_ms(server, prompts[:new])
                shares = []
                for prompt in prompts[new:]:
                    s = server.reader.post(completion(prompt), path=COMPLETIONS)
                    s.done.wait(0.9 * took / 1e3)
                    early = not s.closed
                    s.abort()
                    s.done.wait(10)
                    again = server.reader.post(completion(prompt), path=COMPLETIONS)
                    if not again.done.wait(300) or not again.usage:
                        raise Failed(f"a prompt sent again failed: {again.status} {again.text[:200]!r}")
                    share = 1 - again.usage["cached_tokens"] / again.usage["prompt_tokens"]
                    shares.append(share)
                    report.details.setdefault(name, []).append({"took_ms": took, "aborted": early, "again": share,
                                                                "retry_ms": again.ttft_ms()})
            said = " ".join(f"{s:.3f}" for s in shares)
            report.note(f"{name}: 4,000 tokens take {took:.0f} ms; given up at 90%, computed again: {said}")
            report.check(f"{name}: computed again after an abort at 90%, median", "<= 0.15", median(shares),
                         median(shares) <= 0.15)
