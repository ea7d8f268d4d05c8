"""Scenarios of bench_cache.py: answers stay what they are, whatever was kept where: crashes, full disks, foreign files,
leaks, bits. Each takes the options and a report."""

import contextlib, glob, os, random, threading, time

from cache_agents import kinds
from cache_client import *
from cadence_limits import Mixed, reclaimed

WITHOUT = ["--cache-ram", "0"]


class Known:
    """Conversations whose answers a server without a cache has given, down to the log-probabilities. Turns of one begin
    alike, and all of them with the same words."""

    def __init__(self, o, flags, seed, talks=4, turns=3, tokens=600, answer=12):
        self.answer, self.turns, self.expected = answer, [], []
        with Server(o, [*flags, *WITHOUT]) as server:
            writer = Writer(server, random.Random(seed))
            system = {"role": "system", "content": writer.text(tokens / 4)}
            for _ in range(talks):
                messages = [system, {"role": "user", "content": writer.text(3 * tokens / 4)}]
                for _ in range(turns):
                    said = self.ask(server, messages)
                    self.turns.append(list(messages))
                    self.expected.append(said_of(said))
                    messages += [{"role": "assistant", "content": said["choices"][0]["message"]["content"] or ""},
                                 writer.question(40)]
            self.document = writer.text(300)

    def ask(self, server, messages):
        return ask(server, turn(messages, self.answer, logprobs=True, top_logprobs=3))

    def check(self, server, index):
        """-> (whether it says the same, the answer)"""
        answer = self.ask(server, self.turns[index])
        return said_of(answer) == self.expected[index], answer


# ---- bits ----


def kv_types(o):
    return ["f16", "q8", "q4"] if has_flag(o, "--kv ") else [None]


def all_places(known, server, place):
    """Asks all, longest turns first. -> (wrong answers, tokens found in `place`)"""
    wrong = found = 0
    for index in reversed(range(len(known.turns))):
        same, answer = known.check(server, index)
        wrong += not same
        found += places_of(answer).get(place, 0)
    return wrong, found


def bits_of(o, report, name, flags, url):
    known = Known(o, flags, f"{o.seed}/bits/{name}", *((2, 2, 500) if o.quick else (4, 3, 1200)))
    total = len(known.turns)
    def verdict(place, wrong, found):
        report.check(f"{name}: of {total} answers after {found} tokens from {place}, wrong", "0", wrong,
                     wrong == 0 and found > 0)
    with Server(o, flags) as server:
        all_places(known, server, "ram")
        verdict("ram", *all_places(known, server, "ram"))
    for place, tier in (("disk", "--cache-disk"), ("redis", "--cache-redis")):
        with folder() as path:
            where = path if place == "disk" else url
            if not where:
                report.note(f"{name}: {place} left out: no redis-server is installed")
                continue
            try:
                with Server(o, [*flags, tier, where]) as server:
                    all_places(known, server, place)
                    wait_stored(server)
            except Failed as e:
                if "unsupported" not in str(e) and "not built" not in str(e):
                    raise
                report.note(f"{name}: {place} left out: {str(e)[-150:]}")
                continue
            with Server(o, [*flags, tier, where]) as server:
                verdict(place, *all_places(known, server, place))


def scenario_bits(o, report):
    with folder() as scratch, redis() as url:
        for name, flags, _ in kinds(o, scratch):
            types = kv_types(o) if "--model" in flags else [None]
            for kv in types[-2:-1] if o.quick and name == "dense" and len(types) > 1 else types:
                more = ["--kv", kv] if kv else []
                bits_of(o, report, f"{name} {kv}" if kv else name, [*flags, *more], url)


# ---- crashes ----


class Crashes:
    """One model's folder, killed again and again under load."""

    def __init__(self, o, name, flags, path, seed):
        self.o, self.name, self.path, self.flags = o, name, path, flags
        self.rng, self.known = random.Random(seed), Known(o, flags, seed)
        self.wrong = self.asked = self.failed_starts = self.lost = self.from_disk = self.kills = self.damaged = 0
        self.start_s, self.records, self.said = [], 0, []

    def server(self):
        return Server(self.o, [*self.flags, "--cache-disk", self.path, "--cache-disk-size", "1G"])

    def check(self, server, index):
        same, answer = self.known.check(server, index)
        self.asked += 1
        self.from_disk += places_of(answer).get("disk", 0)
        if not same:
            self.wrong += 1
            self.said.append({"index": index, "said": said_of(answer)[:300], "hits": places_of(answer)})

    def load(self, server, stop, number):
        """Turns that are known, and documents that are new: until the server is gone."""
        rng = random.Random(f"{self.rng.random()}/{number}")
        with contextlib.suppress(OSError, http.client.HTTPException, Failed, ValueError):
            while not stop.is_set():
                if rng.random() < 0.7:
                    self.check(server, rng.randrange(len(self.known.turns)))
                else:
                    text = f"{rng.random()} {self.known.document}"
                    ask(server, turn([{"role": "user", "content": text}], 4, prompt_cache_key="x"))

    def harm(self):
        """What a power cut or a bad disk does to the newest file: an end that is missing, bits that are others."""
        files = [f for f in glob.glob(os.path.join(self.path, "**"), recursive=True)
                 if os.path.isfile(f) and os.path.getsize(f)]
        if not files:
            return
        victim = self.rng.choice(files)
        size = os.path.getsize(victim)
        self.damaged += 1
        with open(victim, "r+b") as f:
            if self.rng.random() < 0.4:
                f.truncate(self.rng.randrange(size))
                return
            for _ in range(self.rng.randint(1, 20)):
                f.seek(self.rng.randrange(size))
                byte = f.read(1)[0]
                f.seek(-1, os.SEEK_CUR)
                f.write(bytes([byte ^ (1 << self.rng.randrange(8))]))

    def once(self, harm):
        begin = time.monotonic()
        try:
            server = self.server()
        except Failed as e:
            self.failed_starts += 1
            self.said.append({"start": str(e)[-400:]})
            return
        self.start_s.append(time.monotonic() - begin)
        try:
            if not harm[0] and tier_total(server, "records") < self.records:
                self.lost += 1
                self.said.append({"records": tier_total(server, "records"), "committed": self.records})
            for _ in range(2):
                self.check(server, self.rng.randrange(len(self.known.turns)))
            stop = threading.Event()
            threads = [threading.Thread(target=self.load, args=(server, stop, i)) for i in range(3)]
            for t in threads:
                t.start()
            deadline = time.monotonic() + self.rng.uniform(0.05, 3 if self.rng.random() < 0.3 else 1)
            time.sleep(max(0, deadline - time.monotonic()))
            kill_now(server)
            self.kills += 1
            stop.set()
            for t in threads:
                t.join()
        except BaseException:
            server.reader.stop()
            server.kill()
            raise
        harm[0] = self.rng.random() < 0.25
        if harm[0]:
            self.harm()

    def committed(self):
        """Records that were committed and are to be there after every kill."""
        with self.server() as server:
            for index in range(len(self.known.turns)):
                self.check(server, index)
            wait_stored(server)
            self.records = tier_total(server, "records")


def scenario_crash(o, report):
    kills = 3 if o.quick else max(o.runs, 5)
    with folder() as scratch:
        for name, flags, _ in kinds(o, scratch):
            with folder() as path:
                c, harm = Crashes(o, name, flags, path, f"{o.seed}/crash/{name}"), [False]
                c.committed()
                for _ in range(kills):
                    harmed = harm[0]
                    c.once(harm)
                    if harmed or harm[0]:
                        c.records = 0  # what the harm took was not the crash's
                report.note(f"{name}: {c.kills} kills, files harmed {c.damaged} times, {c.asked} answers, "
                            f"{c.from_disk} tokens from the disk; start {median(c.start_s):.2f} s, longest "
                            f"{max(c.start_s, default=0):.2f}")
                for said in c.said[:5]:
                    report.note(f"  {said}")
                report.check(f"{name}: wrong answers of {c.asked}", "0", c.wrong, c.wrong == 0)
                report.check(f"{name}: failed starts of {kills}", "0", c.failed_starts, c.failed_starts == 0)
                report.check(f"{name}: starts that lack committed records", "0", c.lost, c.lost == 0)
                report.check(f"{name}: tokens from the disk", "> 0", c.from_disk, c.from_disk > 0)
            full_disk(o, report, name, flags)
        foreign(o, report, scratch)


def full_disk(o, report, name, flags):
    with small_disk() as path:
        if not path:
            report.note(f"{name}: full disk left out: mounting a small file system needs root")
            return
        c = Crashes(o, name, flags, path, f"{o.seed}/full/{name}")
        for round_ in range(2):
            with c.server() as server:
                for index in range(len(c.known.turns)):
                    c.check(server, index)
                for i in range(40 if name != "dense" else 6):
                    text = f"{round_} {i} {c.known.document}"
                    ask(server, turn([{"role": "user", "content": text}], 2, prompt_cache_key="x"))
                for index in range(len(c.known.turns)):
                    c.check(server, index)
                errors, used = tier_total(server, "errors_total"), tier_total(server, "bytes")
        report.note(f"{name}: full disk: {used / 1e6:.0f} MB of 8 lie there, {errors:.0f} errors counted")
        report.check(f"{name}: full disk: wrong answers of {c.asked}", "0", c.wrong, c.wrong == 0)


def foreign(o, report, scratch):
    """A folder that another model wrote, or the same with another KV type: nothing is found in it, and it is used."""
    one = ["--model", tiny(o, scratch, "tiny_llama", 8192)]
    pairs = [("another model", one, ["--model", tiny(o, scratch)])]
    if kv_types(o) != [None]:
        pairs.append(("another KV type", [*one, "--kv", "q8"], [*one, "--kv", "f16"]))
    for what, before, after in pairs:
        known = Known(o, after, f"{o.seed}/foreign")
        with folder() as path:
            tier = ["--cache-disk", path]
            with Server(o, [*before, *tier]) as server:
                for messages in known.turns:
                    known.ask(server, messages)
                wait_stored(server)
            with Server(o, [*after, *tier]) as server:
                first, answer = known.check(server, 0)
                wrong, _ = all_places(known, server, "disk")
                found = cached(answer)
        report.check(f"a folder of {what}: tokens found", "0", found, found == 0)
        report.check(f"a folder of {what}: wrong answers", "0", wrong + (not first), wrong == 0 and first)


# ---- leaks ----


class Prefixes(Mixed):
    """Requests that share beginnings: chats that go on, documents, other salts; some are not to be kept at all."""

    def __init__(self, o, server, rng, live, abort_s, words_most):
        super().__init__(o, server, rng, live, abort_s, words_most)
        self.heads = [words(rng, rng.randint(3, words_most // 4)) for _ in range(40)]

    def body(self):
        rng = self.rng
        head, more = rng.choice(self.heads), words(rng, rng.randint(1, 30))
        messages = [{"role": "user", "content": head}]
        if rng.random() < 0.5:
            messages += [{"role": "assistant", "content": head[:20]}, {"role": "user", "content": more}]
        else:
            messages[0]["content"] += more
        body = turn(messages, rng.choice((1, 1, 2, 8, 40)), stream=rng.random() < 0.9)
        for chance, field in ((0.1, {"cache_prompt": False}), (0.1, {"cache_salt": rng.choice("ab")}),
                              (0.2, {"service_tier": "flex"})):
            if rng.random() < chance:
                body.update(field)
        return body


def held_of(server):
    """-> (pages that neither are free nor idle in the cache, nodes, idle pages, checkpoints)"""
    m, c = server.metrics(), cache_state(server)
    return int(m["headway:pages", ()] - m["headway:pages_free", ()]), c["pages"], c["idle_pages"], c["checkpoints"]


def leaks_of(o, report, name, spec, count):
    rng = rng_of(o, "leaks", name)
    fast = "decode_base_us=50,prefill_tokens_per_s=2000000,page_count=3000,max_sequences=64"
    spec += ("," if ":" in spec else ":") + fast
    with contextlib.ExitStack() as stack:
        flags = ["--runner", spec]
        if has_flag(o, "--cache-disk"):
            flags += ["--cache-disk", stack.enter_context(folder()), "--cache-disk-size", "64M"]
        server = stack.enter_context(Server(o, flags))
        load, marks = Prefixes(o, server, rng, 24, 0.05, 400), []
        begin = time.monotonic()
        for part in range(1, 5):
            load.run(lambda: load.started >= count * part / 4)
            marks.append(server.memory())
        load.stop()
        seconds = time.monotonic() - begin
        held, _ = reclaimed(server, 40)
        if not server.idle(20):
            raise Failed("the server does not come to rest")
        time.sleep(0.3)
        _, nodes, idle, checkpoints = held_of(server)
        forget(server)
        time.sleep(0.3)
        after = held_of(server)
    report.note(f"{name}: {load.started} requests in {seconds:.0f} s, {load.aborted} given up, {load.refused} refused; "
                f"at rest {nodes} pages in the tree, {idle} idle, {checkpoints} checkpoints; resident "
                f"{' '.join(f'{m / 1e6:.0f}' for m in marks)} MB")
    report.details[name] = {"resident": marks, "nodes": nodes, "idle": idle, "checkpoints": checkpoints}
    report.check(f"{name}: pages that nobody gives back", "0", held, held == 0)
    report.check(f"{name}: after DELETE /v1/cache: pages, nodes, idle, checkpoints", "0 0 0 0",
                 " ".join(map(str, after)), not any(after))
    report.check(f"{name}: resident memory, last quarter by second", "<= 1.05", marks[3] / marks[1],
                 marks[3] <= 1.05 * marks[1])


def scenario_leaks(o, report):
    count = 2000 if o.quick else 100000
    for name, spec in (("sim", "sim"), ("sim-hybrid", "sim:state_bytes=1000000")):
        if not o.kinds or name in o.kinds:
            leaks_of(o, report, name, spec, count)
