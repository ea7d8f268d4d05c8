"""The dashboard in a headless Chromium, beside a simulated load: what it shows, to eyes, keys and screen readers."""

import json
import pathlib
import threading
import time

import pytest

from browser import Browser, find_chromium
from conftest import Server

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium: apt-get install chromium, or HEADWAY_CHROMIUM=PATH")

SIM = "sim:reply_tokens=400,decode_base_us=8000,prefill_tokens_per_s=6000"
CURVES = {
    "format": "headway-curves-1",
    "machine": "a machine",
    "bound_ms": 50,
    "choice": {"policy": "cadence", "chunk": 512},
    "policies": [
        {"policy": "cadence", "sweet": 512,
         "points": [{"chunk": 256, "chat_gap_ms": 48, "document_premium": 1.2, "chat_tokens_per_s": 21},
                    {"chunk": 512, "chat_gap_ms": 49, "document_premium": 1.1, "chat_tokens_per_s": 20}]},
        {"policy": "<img src=x>",
         "points": [{"chunk": 256, "chat_gap_ms": 900, "document_premium": 1},
                    {"chunk": 512, "chat_gap_ms": 9, "document_premium": None, "starved": True},
                    {"chunk": 1024, "refused": "no"}]},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curves")
    (folder / "curves.json").write_text(json.dumps(CURVES))
    server = Server("--runner", SIM, "--curves", folder / "curves.json")
    yield server
    assert server.stop() == 0, "".join(server.log)


@pytest.fixture(scope="module")
def load(server):
    over = threading.Event()

    def chat():
        while not over.is_set():
            body = {"prompt": "hi", "max_tokens": 120, "stream": True}
            with server.http.stream("POST", "/v1/completions", json=body) as answer:
                for _ in answer.iter_lines():
                    if over.is_set():
                        return

    def document():
        while not over.is_set():
            server.post("/v1/completions", {"prompt": "word " * 500, "max_tokens": 20, "service_tier": "flex",
                                            "cache_prompt": False})  # each is read

    threads = [threading.Thread(target=work) for work in (chat, chat, document)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


@pytest.fixture(scope="module")
def browser():
    browser = Browser(CHROMIUM)
    yield browser
    browser.close()


@pytest.fixture
def page(browser, server, load):
    browser.problems.clear()
    browser.resize(1360, 1000)
    browser.prefer(color_scheme="light")
    browser.open(server.url + "/")
    browser.wait_for("document.querySelectorAll('#streams tbody tr').length >= 2")
    browser.wait_for("/[0-9]/.test(document.getElementById('tile-gap').textContent)")
    yield browser
    assert browser.problems == []


def text(page, selector):
    return page.eval(f"document.querySelector({json.dumps(selector)}).textContent")


def ink(page, canvas):
    """Pixels of a canvas by colour, the common ones."""
    return page.eval(f"""(() => {{
      const canvas = document.querySelector({json.dumps(canvas)}), found = {{}};
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] === 255) {{
          const colour = [data[i], data[i + 1], data[i + 2]].join();
          found[colour] = (found[colour] || 0) + 1;
        }}
      return found;
    }})()""")


DECODE, PREFILL = "15,118,104", "196,122,28"  # of the light theme


def test_it_shows_what_happens(page):
    assert text(page, "#health") == "healthy"
    assert text(page, "#model") == "sim"
    assert "ms" in text(page, "#tile-gap") and "bound" in text(page, "#tile-gap-note")
    page.wait_for("/tok/.test(document.getElementById('tile-out').textContent)")
    assert "default" in text(page, "#tenants tbody")
    assert "pages" in text(page, "#memory")
    page.wait_for("document.querySelector('#streams td.num').textContent.includes('ms')")


def test_tables_say_what_the_pictures_show(page):
    page.eval("for (const d of document.querySelectorAll('details')) d.open = true")
    page.wait_for("document.querySelectorAll('#causes tbody tr').length === 5")
    assert "prefill" in text(page, "#causes tbody")
    page.wait_for("document.querySelectorAll('#steps-table tbody tr').length === 3")
    page.wait_for("/decode[0-9]+[0-9]+%/.test(document.querySelector('#steps-table tbody tr').textContent)")
    assert "NaN" not in text(page, "main") and "undefined" not in text(page, "main")
    assert "Infinity" not in text(page, "main")


def test_steps_are_drawn_in_their_colours(page):
    page.wait_for("performance.now() > 4000")
    for canvas in ("#detail", "#overview"):
        colours = ink(page, canvas)
        assert colours.get(DECODE, 0) > 300 and colours.get(PREFILL, 0) > 300, (canvas, colours)
    deadline = time.monotonic() + 20  # few tokens are drawn yet where the machine is busy
    while sum(ink(page, f"#streams tr:nth-child({row}) canvas").get(DECODE, 0) for row in (1, 2)) <= 50:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_pause_stops_the_picture_and_keys_walk_over_the_steps(page):
    page.eval("document.getElementById('detail').focus()")
    page.press("ArrowLeft")
    first = text(page, "#readout")
    assert "ms" in first and ("decode" in first or "prefill" in first or "fused" in first)
    assert page.eval("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    before = page.eval("document.getElementById('detail').toDataURL()")
    page.eval("new Promise(done => setTimeout(done, 400))")
    assert page.eval("document.getElementById('detail').toDataURL()") == before
    page.press("ArrowLeft")
    assert page.eval("document.getElementById('detail').toDataURL()") != before, "another step is marked"
    page.eval("document.getElementById('pause').click()")
    page.wait_for(f"document.getElementById('detail').toDataURL() !== {json.dumps(before)}")


def test_the_chat_streams_and_measures(page):
    page.eval("document.getElementById('chat-max').value = 40; document.getElementById('chat-text').focus()")
    page.type("Good morning <b>there</b>")
    page.press("Enter", "\r")
    page.wait_for("/complete/.test(document.getElementById('chat-status').textContent)")
    assert text(page, ".from-user") == "Good morning <b>there</b>"
    assert len(text(page, ".from-server")) > 20
    assert "ms" in text(page, "#chat-first") and "tok/s" in text(page, "#chat-rate") and "ms" in text(page, "#chat-gap")
    page.eval("document.getElementById('chat-clear').click()")
    assert page.eval("document.getElementById('chat-log').children.length") == 0


def test_the_chat_can_be_stopped(page, server):
    page.eval("document.getElementById('chat-max').value = 400; document.getElementById('chat-text').focus()")
    page.type("Go on")
    page.press("Enter", "\r")
    page.wait_for("document.querySelector('.from-server')?.textContent.length > 5")
    page.eval("document.getElementById('chat-send').click()")
    page.wait_for("document.getElementById('chat-status').textContent === 'Stopped'")
    page.wait_for("document.getElementById('chat-send').textContent === 'Send'")


def test_curves_are_drawn_and_told(page):
    page.wait_for("document.querySelectorAll('#curves svg').length === 2")
    assert page.eval("document.querySelectorAll('#curves .sweet').length") == 2
    assert "512 (best)" in text(page, "#curves table")
    assert "take cadence, chunks of 512" in text(page, "#curves-note")
    assert "starved" in text(page, "#curves table") and "NaN" not in text(page, "#curves")
    assert "<img src=x>" in text(page, "#curves table") and not page.eval("document.querySelector('#curves img')")


def test_a_screen_reader_finds_its_way(page):
    told = page.accessible()
    roles = [role for role, _ in told]
    assert roles.count("main") == 1 and "banner" in roles and "contentinfo" in roles
    assert ("heading", "Headway") in told
    for name in ("What the device does", "Every stream against its bound", "Queues by tenant", "Memory", "Try it"):
        assert ("region", name) in told, name
    for role, name in told:
        if role in ("button", "textbox", "spinbutton", "combobox", "link", "image", "checkbox"):
            assert name.strip(), f"a {role} without a name"
    strip = [name for role, name in told if role == "image" and "gaps" in name]
    assert any("worst" in name for name in strip)
    assert page.eval("[...document.querySelectorAll('[id]')].length === new Set([...document.querySelectorAll('[id]')]"
                     ".map(n => n.id)).size")
    live = page.eval("[...document.querySelectorAll('[aria-live], [role=status], [role=log], [role=alert]')].length")
    assert live <= 3, "too much that speaks by itself"


def test_keys_reach_everything_and_focus_is_seen(page):
    page.eval("document.activeElement.blur()")
    seen = []
    for _ in range(20):
        page.press("Tab")
        seen.append(page.eval(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
        if page.eval("document.activeElement !== document.body"):
            assert page.eval("getComputedStyle(document.activeElement).outlineStyle") != "none", seen[-1]
    assert seen[0] == "skip"
    for wanted in ("pause", "key-toggle", "theme", "detail", "chat-text", "chat-max", "chat-send", "trace-link"):
        assert wanted in seen, (wanted, seen)


def contrast(page, selector):
    return page.eval(f"""(() => {{
      const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const node = document.querySelector({json.dumps(selector)});
      let below = node;
      while (rgb(getComputedStyle(below).backgroundColor)[3] === 0) below = below.parentElement;
      const [a, b] = [getComputedStyle(node).color, getComputedStyle(below).backgroundColor].map((c) => light(rgb(c)));
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }})()""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_both_themes(page, scheme):
    page.prefer(color_scheme=scheme)
    page.wait_for(f"document.documentElement.dataset.theme === '{scheme}'")
    for selector in (".tile h2", ".tile .value", ".tile .note", ".caption", ".legend", "th", ".what", "#chat-send",
                     "#readout", "summary", "footer", "#health"):
        assert contrast(page, selector) >= 4.5, selector
    assert ink(page, "#detail"), "the picture has the new colours"


def test_the_toggle_beats_the_system(page):
    page.eval("const t = document.getElementById('theme'); t.value = 'dark'; t.dispatchEvent(new Event('change'))")
    assert page.eval("document.documentElement.dataset.theme") == "dark"
    page.eval("const s = document.getElementById('theme'); s.value = 'auto'; s.dispatchEvent(new Event('change'))")
    assert page.eval("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize("width", [360, 480, 800, 1100, 1920])
def test_no_width_needs_scrolling_sideways(page, width):
    page.resize(width, 900)
    page.eval("new Promise(done => setTimeout(done, 300))")
    assert page.eval("document.documentElement.scrollWidth") <= width
    hidden = page.eval("""[...document.querySelectorAll('.tile .value, .streams canvas, #detail, #chat-send')]
      .map((n) => n.getBoundingClientRect()).filter((box) => box.width < 20 || box.right > innerWidth).length""")
    assert hidden == 0


def test_it_asks_for_the_key_and_uses_it(browser, serve):
    server = serve("--runner", "sim", "--api-key", "secret")
    browser.problems.clear()
    browser.open(server.url + "/")
    browser.wait_for("!document.getElementById('key-form').hidden")
    assert text(browser, "#health") == "needs a key"
    assert browser.eval("document.activeElement.id") == "key"
    browser.type("secret")
    browser.press("Enter", "\r")
    browser.wait_for("document.getElementById('health').textContent === 'healthy'")
    assert browser.eval("sessionStorage.getItem('headway-key')") == "secret"
    assert browser.eval("document.getElementById('key-form').hidden")
    assert browser.eval("localStorage.getItem('headway-key') === null && !document.cookie")


def test_it_says_when_the_server_is_gone(browser, serve):
    server = serve("--runner", "sim")
    browser.open(server.url + "/")
    browser.wait_for("document.getElementById('health').textContent === 'healthy'")
    server.process.kill()
    server.process.wait()
    server.stop = lambda: 0
    browser.wait_for("document.getElementById('health').textContent === 'no answer'")
    browser.problems.clear()


def test_the_cache_shows_sessions_and_what_was_found(browser, serve):
    server = serve("--runner", "sim:reply_tokens=30,decode_base_us=200")
    browser.problems.clear()
    browser.resize(1360, 1000)
    browser.open(server.url + "/")
    browser.wait_for("document.getElementById('cache-note').textContent === 'no session is live'")
    assert "No prompt has come back" in text(browser, "#cache-curves")
    messages = [{"role": "user", "content": "a first message that is longer than a page of the simulated runner " * 3}]
    for turn in range(3):
        answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 30}).json()
        messages += [{"role": "assistant", "content": answer["choices"][0]["message"]["content"]},
                     {"role": "user", "content": f"and turn {turn}"}]
    browser.wait_for("/^1 live, 1 fit, .* for all$/.test(document.getElementById('cache-note').textContent)")
    row = "document.querySelector('#cache-lines tbody tr').textContent"
    browser.wait_for(f"{row}.includes('warm') && {row}.includes('default')")
    assert browser.eval("document.querySelectorAll('#cache-curves svg').length") == 2
    found = text(browser, "#cache-facts")
    assert "Found" in found and "%" in found
    browser.eval("document.querySelector('#cache-misses').closest('details').open = true")
    browser.wait_for("document.querySelectorAll('#cache-misses tbody tr').length === 6")
    assert ("image", "Found, of prompt tokens") in [(role, name.split(":")[0]) for role, name in browser.accessible()
                                                    if role == "image"]
    assert contrast(browser, "#cache-facts dt") >= 4.5
    browser.resize(360, 900)
    browser.eval("new Promise(done => setTimeout(done, 300))")
    assert browser.eval("document.documentElement.scrollWidth") <= 360
    browser.open("about:blank")  # before the server goes


def test_no_cache_is_said(browser, serve):
    server = serve("--runner", "sim", "--cache-ram", "0")
    browser.open(server.url + "/")
    browser.wait_for("!document.getElementById('cache-off').hidden && document.getElementById('cache-body').hidden")
    browser.open("about:blank")


def test_screenshots(page, tmp_path):
    """For people: HEADWAY_SCREENSHOTS=FOLDER keeps them."""
    import os

    folder = pathlib.Path(os.environ.get("HEADWAY_SCREENSHOTS") or tmp_path)
    for scheme, width in (("light", 1360), ("dark", 1360), ("light", 360)):
        page.prefer(color_scheme=scheme)
        page.resize(width, 1000)
        page.eval("new Promise(done => setTimeout(done, 500))")
        path = folder / f"dashboard-{scheme}-{width}.png"
        page.screenshot(path)
        assert path.stat().st_size > 20000
