#!/usr/bin/env python3
"""tools/tidy.py [ROOT]: the house rules as a test. Prints one line for each breach and exits 1 when there are any.

Rules: include arrows between the rooms of src/, file and function and line lengths, banned calls, leftover notes,
clang-format. `tools/tidy_test.py` tests this file."""
import os
import re
import subprocess
import sys

# Which rooms may a room include? (Its own folder always; `base` and `metrics` are the floor, for everyone.)
# This is the picture in docs/architecture.md. `cli` may include any room.
ARROWS = {
    "base": set(),
    "metrics": {"base"},
    "text": set(),
    "kv": set(),
    "sched": {"kv"},
    "engine": {"sched", "kv"},
    "plan": set(),
    "sim": {"engine", "sched", "kv", "load", "plan"},
    "load": {"engine", "sched", "kv"},
    "server": {"engine", "sched", "kv", "text"},
    "tensor": set(),
    "model": {"tensor"},
    "runner": {"model", "tensor"},
}
FLOOR = {"base", "metrics"}
# The data plane sees of the control plane only the contracts.
CONTRACTS = {"sched/runner.h", "sched/step_plan.h", "sched/request.h", "kv/page_mover.h"}
CONTRACT_USERS = {"runner", "model"}

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 120
# Functions allowed to be longer, each with the reason: "path:function": "why".
LONG_FUNCTIONS = {}

# Calls that are not used here, and what to use instead.
BANNED = {
    "sprintf": "snprintf or buf_printf",
    "vsprintf": "vsnprintf",
    "strcpy": "memcpy with a size, or buf_text",
    "strcat": "buf_text",
    "gets": "fgets",
    "atoi": "strtol, or flag_number",
    "atol": "strtol, or flag_number",
    "atof": "strtod",
}
BANNED_OUTSIDE_CLI = {"exit": "a status", "_exit": "a status", "abort": "assert", "quick_exit": "a status"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# Written in two halves so that this file and its test do not hold the words.
LEFTOVER = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|X" + "XX)\\b")


def without_comments(text):
    """The text with comments and the insides of strings blanked; lines and columns stay where they are."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        piece = match.group(0)
        if piece[0] in "\"'":
            return piece[0] + " " * (len(piece) - 2) + piece[-1]
        return re.sub(r"[^\n]", " ", piece)

    return pattern.sub(blank, text)


def check_includes(path, text):
    parts = path.split("/")
    if parts[0] != "src" or len(parts) < 3 or parts[1] == "cli":
        return
    room = parts[1]
    if room not in ARROWS:
        yield 1, f"room '{room}' has no line in the arrows of tools/tidy.py"
        return
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        other = target.split("/")[0]
        if other == room or "/" not in target:
            continue
        if room not in FLOOR and other in FLOOR or room == "metrics" and other == "base":
            continue
        if other in ARROWS[room] or room in CONTRACT_USERS and target in CONTRACTS:
            continue
        yield number, f"'{room}' may not include '{target}' (arrows in docs/architecture.md)"


def check_lines(path, text):
    lines = text.split("\n")
    if len(lines) - 1 > FILE_LINES_MAX:
        yield 1, f"{len(lines) - 1} lines, at most {FILE_LINES_MAX}: this file is two"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX:
            yield number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}"
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        match = LEFTOVER.search(line)
        if match:
            yield number, f"'{match.group(1)}': do it or file it"


def check_calls(path, code):
    banned = dict(BANNED)
    if path.startswith("src/") and not path.startswith("src/cli/"):
        banned.update(BANNED_OUTSIDE_CLI)
    call = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
    for number, line in enumerate(code.split("\n"), 1):
        for match in call.finditer(line):
            yield number, f"{match.group(1)}() is banned here; use {banned[match.group(1)]}"


def functions(code):
    """Yields (name, first line, line count). Functions have their brace alone in column 0, as .clang-format puts it."""
    start = name = None
    lines = code.split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and start is None:
            above, back = "", number - 2
            while back >= 0 and lines[back].strip() and not lines[back].startswith(("}", "#", "{")):
                above = lines[back] + " " + above
                back -= 1
            match = re.search(r"([A-Za-z_]\w*)\s*\(", above)
            name, start = (match.group(1) if match else None), number
        elif line.startswith("}") and start is not None:
            if name:
                yield name, start, number - start + 1
            start = name = None


def check_functions(path, code):
    for name, number, count in functions(code):
        if count > FUNCTION_LINES_MAX and f"{path}:{name}" not in LONG_FUNCTIONS:
            yield number, f"{name}() has {count} lines, at most {FUNCTION_LINES_MAX}"


def check_file(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    problems = list(check_lines(path, text))
    if path.endswith((".c", ".h")):
        code = without_comments(text)
        # Include lines hold their target in quotes, so they are read from the text itself.
        problems += [*check_includes(path, text), *check_calls(path, code), *check_functions(path, code)]
    return [(path, number, words) for number, words in sorted(problems)]


def check_format(root, paths):
    try:
        run = subprocess.run(["clang-format", "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True)
    except FileNotFoundError:
        return [("clang-format", 0, "is not installed")]
    pattern = re.compile(r"^(.+?):(\d+):\d+: (?:error|warning): code should be clang-formatted", re.M)
    first = {}
    for path, number in pattern.findall(run.stderr):
        first.setdefault(path, int(number))
    found = [(path, number, "not formatted: run clang-format -i") for path, number in first.items()]
    return found or ([("clang-format", 0, run.stderr.strip()[:200])] if run.returncode else [])


def find_sources(root):
    for top in ("src", "tests", "tools"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(f for f in folders if f not in ("__pycache__", "seeds", "data"))
            for name in sorted(names):
                if name.endswith((".c", ".h", ".py", ".sh", ".mk")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    paths = list(find_sources(root))
    problems = [problem for path in paths for problem in check_file(root, path)]
    c_paths = [path for path in paths if path.endswith((".c", ".h"))]
    if c_paths:
        problems += check_format(root, c_paths)
    for path, number, words in problems:
        print(f"{path}:{number}: {words}")
    print(f"tidy: {len(paths)} files, {len(problems)} breaches")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
