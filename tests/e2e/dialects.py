"""What the tests of the dialects share: a model that thinks and calls tools, and a strict look at what is sent."""

import json

import pydantic

# The marks of Qwen's templates: calls as JSON in <tool_call>, thoughts in <think>.
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% for t in tools or [] %}{{ t | tojson }}
{% endfor %}{% if enable_thinking is defined and not enable_thinking %}[no thoughts]{% endif %}{% if
 reasoning_effort %}[effort {{ reasoning_effort }}]{% endif %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

ARGUMENTS = {"city": 'Köln "am" Rhein', "tags": ["a\n", "</b>"], "deep": {"n": -1.5e3, "none": None}}


def call(name="weather", arguments=None):
    arguments = ARGUMENTS if arguments is None else arguments
    return f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'


def start(serve, tmp_path, script, *flags):
    path = tmp_path / "template.jinja"
    path.write_text(TEMPLATE)
    return serve(
        "--chat-template",
        path,
        "--tool-parser",
        "hermes",
        "--reasoning-parser",
        "think",
        *flags,
        script=[line if isinstance(line, dict) else {"reply": line} for line in script],
    )


def strict(model, data):
    """Exactly the package's own model: its types, without conversions."""
    return pydantic.TypeAdapter(model).validate_json(
        data if isinstance(data, (str, bytes)) else json.dumps(data), strict=True
    )


def sse(text):
    """(event, data as text) of a whole stream."""
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            yield lines["event"], lines["data"]
