#!/usr/bin/env python3
"""tools/tidy_test.py: does tools/tidy.py find what it should, and nothing else?"""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

FORBIDDEN_NOTE = "TO" + "DO"


def words(path, text):
    with tempfile.TemporaryDirectory() as root:
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full))
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        return [f"{number}: {what}" for _, number, what in tidy.check_file(root, path)]


class Tidy(unittest.TestCase):
    def test_accepts_a_plain_file(self):
        text = '/* kv/a.c */\n#include "base/span.h"\n#include "kv/b.h"\n#include <stdio.h>\n\n'
        text += "int f(void)\n{\n    return 0;\n}\n"
        self.assertEqual(words("src/kv/a.c", text), [])

    def test_finds_an_include_against_the_arrows(self):
        self.assertIn("may not include 'model/model.h'", words("src/engine/a.c", '#include "model/model.h"\n')[0])
        self.assertIn("may not include 'engine/engine.h'", words("src/base/a.c", '#include "engine/engine.h"\n')[0])

    def test_lets_the_data_plane_see_only_the_contracts(self):
        self.assertEqual(words("src/runner/a.c", '#include "sched/runner.h"\n'), [])
        self.assertEqual(len(words("src/runner/a.c", '#include "sched/scheduler.h"\n')), 1)

    def test_asks_for_arrows_of_a_new_room(self):
        self.assertIn("has no line in the arrows", words("src/attic/a.c", "int a;\n")[0])

    def test_lets_the_command_line_include_everything(self):
        self.assertEqual(words("src/cli/a.c", '#include "tensor/backend.h"\n#include "text/tokenizer.h"\n'), [])

    def test_counts_lines_of_files_and_functions_and_columns(self):
        self.assertIn("801 lines", words("src/kv/a.c", "int a;\n" * 801)[0])
        body = "static int f(int a,\n             int b)\n{\n" + "    a++;\n" * 69 + "}\n"
        self.assertEqual(words("src/kv/a.c", body), ["3: f() has 71 lines, at most 70"])
        self.assertEqual(words("src/kv/a.c", body.replace("    a++;\n", "", 1)), [])
        self.assertIn("121 columns", words("src/kv/a.c", "/* " + "x" * 118 + "\n*/\n")[0])

    def test_names_the_replacement_of_a_banned_call(self):
        self.assertIn("use snprintf", words("src/kv/a.c", "int f(void)\n{\n    sprintf(b, 1);\n}\n")[0])
        self.assertIn("use a status", words("src/kv/a.c", "int f(void)\n{\n    exit(1);\n}\n")[0])
        self.assertEqual(words("src/cli/a.c", "int f(void)\n{\n    exit(1);\n}\n"), [])

    def test_does_not_read_comments_strings_and_longer_names_as_calls(self):
        text = '/* exit(1) */\nint f(void)\n{\n    on_exit(1), pool->exit(2); // abort()\n    puts("sprintf(x)");\n}\n'
        self.assertEqual(words("src/kv/a.c", text), [])

    def test_finds_leftover_notes(self):
        self.assertIn("do it or file it", words("src/kv/a.c", f"/* {FORBIDDEN_NOTE}: later */\n")[0])

    def test_the_arrows_have_no_cycle(self):
        seen = {}

        def visit(room, path):
            self.assertNotIn(room, path, f"cycle through {room}")
            for other in tidy.ARROWS[room]:
                if other not in seen:
                    visit(other, path | {room})
            seen[room] = True

        for room in tidy.ARROWS:
            visit(room, frozenset())


if __name__ == "__main__":
    unittest.main()
