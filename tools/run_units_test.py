#!/usr/bin/env python3
"""tools/run_units_test.py: does tools/run_units.py run everything, keep outputs apart, and name what failed?"""
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_units.py")


class RunUnits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def program(self, name, script):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, stat.S_IRWXU)
        return path

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, timeout=60)

    def test_runs_all_and_names_the_failed_ones(self):
        good, bad = self.program("good", "echo fine"), self.program("bad", "echo wrong >&2; exit 3")
        killed = self.program("killed", "kill -SEGV $$")
        done = self.run_tool("--jobs", "1", bad, killed, good)
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 3", done.stdout)
        self.assertIn("SIGSEGV", done.stdout)
        self.assertIn(f"RUN {good}\nfine\nok {good}", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], f"failed: {bad} {killed}")

    def test_says_how_many_passed(self):
        done = self.run_tool(self.program("a", "true"), self.program("b", "true"))
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "2 programs passed"))

    def test_outputs_of_two_at_once_are_not_mixed(self):
        script = 'for i in 1 2 3 4; do echo "$(basename "$0") $i"; sleep 0.05; done'
        names = ["a", "b"]
        done = self.run_tool("--jobs", "2", *(self.program(name, script) for name in names))
        for name in names:
            self.assertIn("".join(f"{name} {i}\n" for i in range(1, 5)), done.stdout)

    def test_what_wants_the_machine_alone_comes_last_and_by_itself(self):
        note = 'echo "$(basename "$0") begins"; sleep 0.1; echo "$(basename "$0") ends"'
        log = os.path.join(self.folder.name, "log")
        programs = [self.program(name, f"{{ {note}; }} >>{log}") for name in ("alone1", "x", "alone2", "y")]
        self.assertEqual(self.run_tool("--jobs", "4", "--alone", "/alone", *programs).returncode, 0)
        with open(log, encoding="utf-8") as file:
            seen = file.read().splitlines()
        self.assertEqual(seen[4:], [f"{name} {what}" for name in ("alone1", "alone2") for what in ("begins", "ends")])

    def test_runs_under_a_command(self):
        done = self.run_tool("--under", "echo emulated", "nowhere/program")
        self.assertEqual(done.returncode, 0)
        self.assertIn("emulated nowhere/program\n", done.stdout)

    def test_a_break_ends_the_programs_too(self):
        pid_file = os.path.join(self.folder.name, "pid")
        tool = subprocess.Popen([sys.executable, TOOL, self.program("long", f"echo $$ >{pid_file}.new; "
                                 f"mv {pid_file}.new {pid_file}; exec sleep 50")], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not os.path.exists(pid_file):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        with open(pid_file, encoding="utf-8") as file:
            pid = int(file.read())
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(20), 130)
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)


if __name__ == "__main__":
    unittest.main()
