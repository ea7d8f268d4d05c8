"""Agents as people install them, each from a virtual environment of its own: a session with a tool on a scripted
model. The tool is called with the model's arguments, its result reaches the model, the model's last words reach the
user. `make test-clients` makes the environments; one that cannot be made leaves its tests out, with a message."""

import json
import os
import pathlib
import subprocess

import pytest

from dialects import call, start

pytestmark = pytest.mark.clients
HERE = pathlib.Path(__file__).parent
PATIENCE_S = 180
TASK = "Which weather is coming in Köln?"
ARGUMENTS = {"city": 'Köln "am" Rhein\n</tool_call>', "days": 3}
RESULT = "drizzle-28 for 3"
ANSWER = "Three days of drizzle in Köln – „naturally“."
# A line is taken for what its prompt holds: the last words come only to one who has seen the tool's result.
SCRIPT = [
    {"reply": ANSWER, "match": RESULT, "times": 0},
    {"reply": "Let me see." + call("weather", ARGUMENTS), "match": TASK, "times": 0},
]


def python_of(name):
    python = os.environ.get(f"HEADWAY_{name}_PYTHON")
    if not python:
        pytest.skip(f"HEADWAY_{name}_PYTHON is not set: make test-clients, where the package can be installed")
    return python


def run(python, arguments, cwd, env=None, **more):
    keep = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return subprocess.run([python, *arguments], cwd=cwd, env={**keep, **(env or {})}, capture_output=True, text=True,
                          timeout=PATIENCE_S, stdin=subprocess.DEVNULL, **more)


def requests_answered(server):
    return server.metric("vllm:request_success_total")


def session(serve, tmp_path, name, program, dialect, form):
    """One agent's session; what it did, checked against what the server saw."""
    python = python_of(name)
    server = start(serve, tmp_path, SCRIPT)
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    done = run(python, [str(HERE / "agents" / program), server.url, dialect, form, TASK], tmp_path, env)
    assert done.returncode == 0, done.stderr
    did = json.loads(done.stdout.splitlines()[-1])
    assert did["calls"] == [ARGUMENTS] and did["answer"] == ANSWER
    assert did["requests"] == 2 == requests_answered(server)
    assert did["input"] == server.metric("vllm:prompt_tokens_total")
    assert server.metric("headway:requests_refused_total") == 0 and server.held_pages() == 0
    if form == "stream":
        assert did["streamed"].endswith(ANSWER)
    return server


@pytest.mark.parametrize("form", ["whole", "stream"])
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_openai_agents(serve, tmp_path, dialect, form):
    session(serve, tmp_path, "OPENAI_AGENTS", "openai_agents.py", dialect, form)


@pytest.mark.parametrize("form", ["whole", "stream"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic"])
def test_pydantic_ai(serve, tmp_path, dialect, form):
    session(serve, tmp_path, "PYDANTIC_AI", "pydantic_ai_agent.py", dialect, form)


@pytest.mark.parametrize("form", ["whole", "stream"])
@pytest.mark.parametrize("dialect", ["chat", "anthropic"])
def test_litellm(serve, tmp_path, dialect, form):
    session(serve, tmp_path, "LITELLM", "litellm_agent.py", dialect, form)


# ---- llm ----

LLM_TOOL = '''
def weather(city: str, days: int = 1) -> str:
    "The weather of a city."
    open("called.json", "w").write(__import__("json").dumps({"city": city, "days": days}))
    return f"drizzle-{len(city)} for {days}"
'''


@pytest.mark.parametrize("form", [(), ("--no-stream",)])
def test_llm_with_a_tool(serve, tmp_path, form):
    python = python_of("LLM")
    server = start(serve, tmp_path, SCRIPT)
    (tmp_path / "extra-openai-models.yaml").write_text(
        f'- model_id: headway\n  model_name: script\n  api_base: "{server.url}/v1"\n  supports_tools: true\n')
    env = {"LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    done = run(python, ["-m", "llm", "-m", "headway", *form, "--functions", LLM_TOOL, TASK], tmp_path, env)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "called.json").read_text()) == ARGUMENTS
    assert done.stdout.rstrip().endswith(ANSWER)
    assert requests_answered(server) == 2 and server.held_pages() == 0


# ---- aider ----

BEFORE = "def area(w, h):\n    return w + h\n\n\ndef name():\n    return 'Köln'\n"
AFTER = BEFORE.replace("w + h", "w * h")
EDIT = """The sum is wrong, it must be a product.

shape.py
```python
<<<<<<< SEARCH
def area(w, h):
    return w + h
=======
def area(w, h):
    return w * h
>>>>>>> REPLACE
```
"""
COMMIT = "fix: area is a product"


def git(folder, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("form", ["--stream", "--no-stream"])
def test_aider_edits_a_file(serve, tmp_path, form):
    python = python_of("AIDER")
    script = [{"reply": COMMIT, "match": "commit message", "times": 0},
              {"reply": EDIT, "match": "make the area right", "times": 0}]
    server = start(serve, tmp_path, script, "--ctx", 32768)  # its prompts are long, a token of the script is a byte
    prices = tmp_path / ".aider" / "caches" / "model_prices_and_context_window.json"
    prices.parent.mkdir(parents=True)
    prices.write_text('{"none": {}}')  # else it is downloaded
    work = tmp_path / "work"
    work.mkdir()
    (work / "shape.py").write_text(BEFORE)
    git(work, "init", "-q")
    git(work, "config", "user.name", "t")
    git(work, "config", "user.email", "t@example.org")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    arguments = ["-m", "aider", "--model", "openai/script", "--edit-format", "diff", form, "--yes-always",
                 "--no-check-update", "--no-analytics", "--no-show-model-warnings", "--no-show-release-notes",
                 "--no-gitignore", "--no-pretty", "--map-tokens", "0", "--message", "make the area right", "shape.py"]
    env = {"HOME": str(tmp_path), "OPENAI_API_BASE": server.url + "/v1", "OPENAI_API_KEY": "none",
           "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = run(python, arguments, work, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (work / "shape.py").read_text() == AFTER, done.stdout
    assert git(work, "log", "-1", "--format=%s").strip() == COMMIT
    assert git(work, "status", "--porcelain", "-uno").strip() == ""
    assert requests_answered(server) == 2 and server.held_pages() == 0
