"""Many clients, rude clients, slow clients. What is measured is printed (pytest -s); what must hold is asserted."""

import asyncio
import json
import os
import random
import re
import socket
import struct
import time

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
RESET = struct.pack("ii", 1, 0)


def request(body, path="/v1/chat/completions"):
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(),
        len(data),
        data,
    )


def settle(server, seconds=10):
    """Waits until the engine has nothing to do."""
    deadline = time.monotonic() + seconds
    while server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting"):
        assert time.monotonic() < deadline, "work is left over"
        time.sleep(0.01)


def test_two_thousand_aborts_leak_nothing(serve):
    server = serve("--runner", "sim:reply_tokens=300,decode_base_us=500,prefill_tokens_per_s=20000", "--parallel", 64)
    dice = random.Random(1)
    whole = [
        request(
            {
                **CHAT,
                "stream": dice.random() < 0.7,
                "max_tokens": dice.randrange(1, 300),
                "n": dice.choice([1, 1, 1, 3]),
                "messages": [{"role": "user", "content": "x" * dice.randrange(1, 3000)}],
            }
        )
        for _ in range(50)
    ]
    open_sockets = []
    for i in range(2000):
        data = dice.choice(whole)
        s = server.connect()
        s.sendall(data[: dice.randrange(len(data))] if dice.random() < 0.2 else data)
        open_sockets.append(s)
        while len(open_sockets) > 20 or (i == 1999 and open_sockets):
            victim = open_sockets.pop(dice.randrange(len(open_sockets)))
            if dice.random() < 0.3:
                victim.settimeout(0.02)
                try:
                    victim.recv(dice.randrange(1, 4000))
                except OSError:
                    pass
            if dice.random() < 0.5:
                victim.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            victim.close()
    settle(server)
    assert server.held_pages() == 0
    assert server.metric("headway:connections") == 1
    assert server.chat(max_tokens=5).status_code == 200


def test_readers_that_stop_cost_little_and_lose_nothing(serve):
    server = serve("--runner", "sim:reply_tokens=6000,decode_base_us=50,decode_row_us=1", "--parallel", 64)
    body = request({**CHAT, "max_tokens": 6000, "temperature": 0})
    with server.http.stream("POST", "/v1/chat/completions", json={**CHAT, "max_tokens": 6000, "temperature": 0}) as r:
        expected = text_of(r.read())
    before = server.rss()
    readers = [server.connect(receive_buffer=4096) for _ in range(50)]
    for s in readers:
        s.sendall(body)
    time.sleep(0.5)
    settle(server, 60)  # the engine does not wait for them
    grown = server.rss() - before
    print(f"50 readers that stop, 6,000 tokens each: RSS +{grown / 1e6:.1f} MB")
    assert grown < 60e6
    for s in readers[:5]:
        got = b""
        while b"data: [DONE]\n\n" not in got:
            piece = s.recv(1 << 20)
            assert piece
            got += piece
        assert text_of(unchunk(got)) == expected
    for s in readers:
        s.close()
    settle(server)
    assert server.metric("headway:pages_free") == server.metric("headway:pages")


def unchunk(data):
    rest = data.split(b"\r\n\r\n", 1)[1]
    out = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not size or int(size, 16) == 0:
            break
        out += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return out


def text_of(stream):
    events = [json.loads(e[6:]) for e in stream.decode().split("\n\n") if e.startswith("data: {")]
    return "".join(e["choices"][0]["delta"].get("content", "") for e in events)


class Stream(asyncio.Protocol):
    """One streaming request; notes when each token came."""

    def __init__(self, data, done):
        self.data, self.done, self.got, self.times, self.finished = data, done, b"", [], False

    def connection_made(self, transport):
        self.transport = transport
        self.start = time.perf_counter()
        transport.write(self.data)

    def data_received(self, data):
        now = time.perf_counter()
        self.times.extend([now] * data.count(b'"content":"'))
        self.got = self.got[-40:] + data
        if b"[DONE]" in self.got:
            self.finished = True
            self.transport.close()

    def connection_lost(self, exc):
        self.done()


async def run_streams(server, count, body):
    loop = asyncio.get_running_loop()
    left, over, streams = count, asyncio.Event(), []

    def done():
        nonlocal left
        left -= 1
        if not left:
            over.set()

    async def one():
        _, protocol = await loop.create_connection(lambda: Stream(request(body), done), "127.0.0.1", server.port)
        streams.append(protocol)

    for start in range(0, count, 100):
        await asyncio.gather(*(one() for _ in range(min(100, count - start))))
    await asyncio.wait_for(over.wait(), 120)
    return streams


def quantile(server, name, share):
    """Upper edge of the bucket that holds the share, in ms."""
    buckets = []
    for line in server.http.get("/metrics").text.splitlines():
        if line.startswith(name + "_bucket{"):
            buckets.append((float(re.search(r'le="([^"]+)"', line).group(1)), float(line.rsplit(" ", 1)[1])))
    return next(edge for edge, count in buckets if count >= share * buckets[-1][1]) * 1e3


def test_a_thousand_streams_at_once(serve):
    """HEADWAY_MEASURE=1: a thousand that decode together (a minute); else a thousand that come together."""
    long = os.environ.get("HEADWAY_MEASURE") == "1"
    tokens, runner = (
        (1150, "sim:decode_base_us=1000,decode_row_us=50,reply_tokens=2000") if long else (40, "sim:reply_tokens=50")
    )
    server = serve("--runner", runner, "--parallel", 1000)
    streams = asyncio.run(run_streams(server, 1000, {**CHAT, "max_tokens": tokens}))
    assert sum(s.finished for s in streams) == 1000
    assert all(len(s.times) == tokens for s in streams)
    gaps = sorted(b - a for s in streams for a, b in zip(s.times, s.times[1:]))
    at = lambda share: gaps[int(len(gaps) * share)] * 1e3
    print(f"1,000 streams: gap at the client p50 {at(.5):.1f} p99 {at(.99):.1f} max {gaps[-1] * 1e3:.1f} ms;", end=" ")
    name = "headway:token_delivery_seconds"
    print(f"sampled to written p50 <= {quantile(server, name, .5):g} p99 <= {quantile(server, name, .99):g} ms")
    settle(server)
    assert server.metric("headway:pages_free") == server.metric("headway:pages")


def test_idle_connections_cost_little(serve):
    server = serve("--runner", "sim")
    server.http.get("/health")
    before, sockets = server.rss(), []
    for _ in range(2000):
        s = server.connect()
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        sockets.append(s)
    for s in sockets:
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert server.metric("headway:connections") == 2001
    grown = server.rss() - before
    print(f"2,000 idle keep-alive connections: RSS +{grown / 1e6:.1f} MB")
    assert grown < 20e6
    for s in sockets:
        s.close()
