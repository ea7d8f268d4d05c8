"""docs/case-study.md is a document that runs: each row of its tables names a command and what to read from its JSON,
the figure of the text and the one computed here. This test runs every command and holds both."""

import ast
import json
import operator
import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import HEADWAY

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "case-study.md"
STALE = 0.02  # the figure printed in the document may be so far from what the command says: rounding
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def expand(command, shared):
    """$NAME stands for flags that many rows have."""
    return re.sub(r"\$(\w+)", lambda m: shared[m.group(1)], command)


class Row:
    """| what | the text | here | within | command; command | figure |"""

    def __init__(self, number, cells, shared):
        self.number = number
        self.what, self.text, self.here, self.within = cells[:4]
        self.commands = [expand(c.strip().strip("`"), shared) for c in cells[4].split(";")]
        self.figure = cells[5].strip("`")

    def __repr__(self):
        return f"line {self.number}: {self.what}"


def rows():
    found, shared = [], {}
    for number, line in enumerate(DOCUMENT.read_text().splitlines(), 1):
        definition = re.fullmatch(r"- `\$(\w+)`: `(.*)`", line)
        if definition:
            shared[definition.group(1)] = definition.group(2)
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6 and cells[4].startswith("`headway "):
            found.append(Row(number, cells, shared))
    return found


def number(text):
    """The first number of a cell; thousands have commas."""
    match = re.search(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?", text)
    assert match, f"no number in {text!r}"
    return float(match.group().replace(",", ""))


def evaluate(node, names):
    if isinstance(node, ast.Expression):
        return evaluate(node.body, names)
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](evaluate(node.left, names), evaluate(node.right, names))
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Attribute):
        return evaluate(node.value, names)[node.attr]
    if isinstance(node, ast.Subscript):
        return evaluate(node.value, names)[ast.literal_eval(node.slice)]
    raise ValueError(f"not in a figure: {ast.dump(node)}")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Each command is run once."""
    kept, report = {}, tmp_path_factory.mktemp("reports") / "report.json"

    def answer(command):
        if command not in kept:
            words = shlex.split(command)
            assert words[0] == "headway"
            simulated = words[1] == "simulate"
            json_flag = ["--json", str(report)] if simulated else ["--json"]
            run = subprocess.run([HEADWAY, *words[1:], *json_flag], capture_output=True, text=True, timeout=300)
            assert run.returncode == 0, f"{command}: {run.stderr.strip()[-300:]}"
            kept[command] = json.loads(report.read_text() if simulated else run.stdout)
        return kept[command]

    return answer


def test_the_document_has_its_rows():
    assert len(rows()) >= 60


@pytest.mark.parametrize("row", rows(), ids=repr)
def test_row(row, answers):
    names = {chr(ord("a") + i): answers(c) for i, c in enumerate(row.commands)}
    value = evaluate(ast.parse(row.figure, mode="eval"), names)
    if isinstance(value, bool):
        assert row.here == ("yes" if value else "no")
        assert row.text.startswith(row.here)
        return
    here = number(row.here)
    assert abs(value - here) <= STALE * abs(here) + 1e-9, f"the document says {row.here}, the command {value:.6g}"
    if row.within == "differs":  # explained below the table
        return
    if " to " in row.text:  # a range
        low, high = (number(part) for part in row.text.split(" to "))
        slack = number(row.within) / 100
        assert low * (1 - slack) <= value <= high * (1 + slack), f"{value:.6g}, the text says {row.text}"
    elif row.within.startswith("<"):
        assert value <= number(row.text), f"{value:.6g}, the text says {row.text}"
    else:
        wanted = number(row.text)
        assert abs(value - wanted) <= number(row.within) / 100 * abs(wanted), f"{value:.6g}, the text says {row.text}"
