#!/usr/bin/env python3
"""tools/run_units.py [--jobs N] [--under COMMAND] [--alone PATTERN]... PROGRAM...: runs test programs, N at a time
(default: one a core). What a program prints is shown in one piece when it has ended, with its time; those whose path
holds a PATTERN come last, one by one. The last line names the ones that failed; the exit code is 0 when none did.
`tools/run_units_test.py` tests this file."""
import argparse
import concurrent.futures
import os
import shlex
import signal
import subprocess
import sys
import threading
import time

PATIENCE_S = 900  # a program that hangs is a failure with a name, not a job that never ends
SLOWEST = 5


class Runner:
    def __init__(self, under):
        self.under = under
        self.lock = threading.Lock()
        self.running, self.failed, self.times = set(), [], []

    def run(self, program):
        start, why = time.monotonic(), ""
        # A session of its own: what a program started ends with it.
        process = subprocess.Popen([*self.under, program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        with self.lock:
            self.running.add(process)
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            why = f": still running after {PATIENCE_S} s"
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        if process.returncode and not why:
            code = process.returncode
            why = f": exit code {code}" if code > 0 else f": {signal.Signals(-code).name}"
        took = time.monotonic() - start
        with self.lock:
            self.running.remove(process)
            self.times.append((took, program))
            if why:
                self.failed.append(program)
            last = f"{'FAILED' if why else 'ok'} {program} {took:.1f} s{why}\n"
            sys.stdout.buffer.write(f"RUN {program}\n".encode() + output + last.encode())
            sys.stdout.flush()

    def run_all(self, programs, jobs):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                list(pool.map(self.run, programs))
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                with self.lock:
                    for process in self.running:
                        os.killpg(process.pid, signal.SIGKILL)
                raise


def main(arguments):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored for what it starts behind it
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--under", default="", help="a command that runs them: an emulator")
    parser.add_argument("--alone", action="append", default=[])
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args(arguments)
    alone = [p for p in options.programs if any(pattern in p for pattern in options.alone)]
    runner = Runner(shlex.split(options.under))
    runner.run_all([p for p in options.programs if p not in alone], options.jobs)
    runner.run_all(alone, 1)
    slowest = sorted(runner.times, reverse=True)[:SLOWEST]
    print("slowest: " + ", ".join(f"{os.path.basename(program)} {took:.1f} s" for took, program in slowest))
    if runner.failed:
        print("failed: " + " ".join(sorted(runner.failed)))
        return 1
    print(f"{len(runner.times)} programs passed")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
