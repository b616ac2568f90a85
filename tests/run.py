#!/usr/bin/env python3
"""Runs the tests and counts them.

    tests/run.py [--build DIR] [--tag fast|threads|all] [--filter TEXT] [--patience N] [--list]
                 [--under COMMAND] [FILE…]

C tests are the programs built from tests/unit, tests/ops and tests/model (one cmocka program a
file); oracle tests are the scripts tests/oracle/*.py and *.sh. tests/README.md says how to write
either. `--tag fast` leaves out the oracles, those tests/model that are not tagged fast, and other
tests that are tagged slow; `--tag threads` of the rest what is not tagged threads. With --filter
only tests whose file or name contains TEXT run, with FILEs only those sources (a folder stands for
all below it). --under puts a command in front of each
C test: an emulator.

The last line is `N passed, N failed, N skipped`. The status is 1 when anything failed or when
nothing ran.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
C_FOLDERS = ("tests/unit", "tests/ops", "tests/model")
FAST_TIMEOUT, SLOW_TIMEOUT = 60, 300
SANITIZER = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:exitcode=97",
    "LSAN_OPTIONS": "exitcode=97",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=97:allocator_may_return_null=1",
}
REPORT = re.compile(r"^(==\d+==ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|.*: runtime error:)", re.M)

Case = collections.namedtuple("Case", "name state detail")  # state: ok, failed, skipped
# has_one_thread: two of them can run at a time.
Job = collections.namedtuple("Job", "path command timeout is_fast is_oracle has_one_thread tags")
THREADS = re.compile(r"^it started threads$", re.M)


def first_line(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.readline()


def tag_of(source):
    """The words after `tags:` in the first line of a file, and its time-out if it names one."""
    found = re.search(r"tags:([^*]*)", first_line(source))
    words = re.split(r"[\s,]+", found.group(1).strip()) if found else []
    timeout = next((int(w[8:]) for w in words if w.startswith("timeout=")), None)
    return words, timeout


def c_jobs(build):
    for folder in C_FOLDERS:
        for at, _, files in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(files):
                if not (name.startswith("test_") and name.endswith(".c")):
                    continue
                source = os.path.relpath(os.path.join(at, name), ROOT)
                words, timeout = tag_of(os.path.join(ROOT, source))
                is_fast = "fast" in words or (folder != "tests/model" and "slow" not in words)
                yield Job(source, [os.path.join(build, source[:-2])],
                          timeout or (FAST_TIMEOUT if is_fast else SLOW_TIMEOUT), is_fast, False,
                          is_fast or "one-thread" in words, words)


def oracle_jobs():
    folder = os.path.join(ROOT, "tests/oracle")
    # Debian's python3 is where the packages of tools/packages.txt are installed.
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.startswith("_") or not name.endswith((".py", ".sh")):
            continue
        words, timeout = tag_of_script(os.path.join(folder, name))
        if "library" in words:
            continue
        interpreter = python if name.endswith(".py") else "sh"
        path = "tests/oracle/" + name
        yield Job(path, [interpreter, path], timeout or SLOW_TIMEOUT, False, True,
                  "one-thread" in words, words)


def tag_of_script(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        head = [f.readline() for _ in range(3)]
    for line in head:
        if line.startswith("# tags:"):
            words = re.split(r"[\s,]+", line[7:].strip())
            return words, next((int(w[8:]) for w in words if w.startswith("timeout=")), None)
    return [], None


def run_process(job, build, name_filter):
    """The exit status (or a word for a time-out) and everything the job wrote."""
    env = dict(os.environ, RIPTIDE_BUILD=build, RIPTIDE_ROOT=ROOT, LC_ALL="C.UTF-8",
               CMOCKA_MESSAGE_OUTPUT="stdout")
    for key, value in SANITIZER.items():
        env[key] = value + (":" + env[key] if key in env else "")
    command = job.command + ([name_filter] if name_filter and not job.is_oracle else [])
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=job.timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        status = "ran longer than %d s" % job.timeout
    finally:
        try:  # whatever it started and left behind
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if isinstance(status, str):
        output, _ = process.communicate()
    return status, output.decode("utf-8", "replace")


def cmocka_cases(output):
    """One Case for each test that started; the second value is the test that never ended."""
    cases, running, lines = [], None, []
    for line in output.splitlines():
        start = re.match(r"\[ RUN      \] (\S+)", line)
        end = re.match(r"\[ +(OK|FAILED|SKIPPED|ERROR) +\] (\S+)$", line)
        if line.startswith("[==========]") and "run." in line:
            break
        if start:
            running, lines = start.group(1), []
        elif running and end and end.group(2) == running:
            detail = "\n".join(lines)
            if end.group(1) == "SKIPPED":
                reason = re.search(r"SKIP: (.*)", detail)
                cases.append(Case(running, "skipped", reason.group(1) if reason else "no reason"))
            else:
                state = "ok" if end.group(1) == "OK" else "failed"
                cases.append(Case(running, state, detail))
            running = None
        else:
            lines.append(line)
    return cases, running, "\n".join(lines[-60:])


def oracle_cases(output):
    cases, lines = [], []
    for line in output.splitlines():
        found = re.match(r"(ok|not ok|skip) (\S+) ?(.*)", line)
        if not found:
            lines.append(line)
            continue
        word, name, rest = found.groups()
        detail = rest if word == "skip" else "\n".join(lines[-60:] + ([rest] if rest else []))
        state = {"ok": "ok", "not ok": "failed", "skip": "skipped"}[word]
        cases.append(Case(name, state, detail))
        lines = []
    return cases, None, "\n".join(lines[-60:])


def how_it_ended(status):
    if isinstance(status, str):
        return status
    if status < 0:
        return "killed by " + signal.Signals(-status).name
    return "exit status %d" % status


def run_job(job, build, text):
    """All cases of a job; a crash, a time-out or a sanitizer's report is a failed case too."""
    started = time.monotonic()
    if not job.is_oracle and not os.path.exists(os.path.join(ROOT, job.command[-1])):
        return job, [Case("(program)", "failed", job.command[-1] + " is not built")], 0.0
    name_filter = text if text and text not in job.path else None
    status, output = run_process(job, build, name_filter)
    cases, unfinished, rest = (oracle_cases if job.is_oracle else cmocka_cases)(output)
    if job.is_oracle and name_filter:
        cases = [c for c in cases if name_filter in c.name]
    if unfinished:
        cases.append(Case(unfinished, "failed", rest + "\n" + how_it_ended(status)))
    elif status != 0 and not any(c.state == "failed" for c in cases):
        cases.append(Case("(program)", "failed", output[-6000:] + "\n" + how_it_ended(status)))
    elif REPORT.search(output):
        at = REPORT.search(output).start()
        cases.append(Case("(sanitizer)", "failed", output[at:at + 6000]))
    if (job.is_fast and THREADS.search(output)
            and not {"threads", "threads-elsewhere"} & set(job.tags)):
        cases.append(Case("(tags)", "failed", "it starts threads: its first line has to say "
                          "`tags: threads`, by which `make tsan` finds it"))
    if not cases and not name_filter:
        cases.append(Case("(program)", "failed", output[-2000:] + "\nit ran no test"))
    return job, cases, time.monotonic() - started


def report(job, cases, seconds, total):
    count = collections.Counter(c.state for c in cases)
    total.update(count)
    if not cases:
        return
    parts = ["%d %s" % (count[s], s) for s in ("ok", "failed", "skipped") if count[s]]
    print("%-52s %6.2f s  %s" % (job.path, seconds, ", ".join(parts)))
    reasons = collections.Counter(c.detail for c in cases if c.state == "skipped")
    for reason, n in reasons.items():
        print("    skipped %d: %s" % (n, reason))
    for case in cases:
        if case.state == "failed":
            print("    FAILED %s" % case.name)
            for line in case.detail.strip().splitlines():
                print("        " + line)
    sys.stdout.flush()


def is_below(path, name):
    return path == name or path.startswith(name.rstrip("/") + "/")


def main():
    parser = argparse.ArgumentParser(description="Run the tests.")
    parser.add_argument("--build", default="build", help="folder with the built programs")
    parser.add_argument("--tag", choices=("fast", "threads", "all"), default="all")
    parser.add_argument("--filter", default="", help="part of a file's or a test's name")
    parser.add_argument("--patience", type=int, default=1,
                        help="factor on all time-outs, for builds with a sanitizer")
    parser.add_argument("--list", action="store_true", help="show what would run")
    parser.add_argument("--under", default="", help="command in front of each C test")
    parser.add_argument("files", nargs="*", help="sources or folders to run, else all")
    options = parser.parse_args()

    jobs = list(c_jobs(options.build))
    if options.tag == "all":
        jobs += oracle_jobs()
    jobs = [j._replace(timeout=j.timeout * options.patience)
            for j in jobs if options.tag == "all"
            or j.is_fast and (options.tag == "fast" or "threads" in j.tags)]
    if options.filter and any(options.filter in j.path for j in jobs):
        jobs = [j for j in jobs if options.filter in j.path]
    for name in options.files:
        if not any(is_below(j.path, name) for j in jobs):
            print("%s is no test" % name)
            return 1
    if options.files:
        jobs = [j for j in jobs if any(is_below(j.path, name) for name in options.files)]
    jobs = [j if j.is_oracle else j._replace(command=options.under.split() + j.command)
            for j in jobs]
    if options.list:
        for job in jobs:
            print(job.path)
        return 0

    total = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pairs = [j for j in jobs if j.has_one_thread]
        # Who may take longest begins first: a long one at the end would have a core for itself.
        futures = {j.path: pool.submit(run_job, j, options.build, options.filter)
                   for j in sorted(pairs, key=lambda j: -j.timeout)}
        for job in pairs:  # in the order of their names, whichever ends first
            report(*futures[job.path].result(), total)
    for job in jobs:  # one by one: these measure, or take both cores
        if not job.has_one_thread:
            report(*run_job(job, options.build, options.filter), total)
    print("%d passed, %d failed, %d skipped" % (total["ok"], total["failed"], total["skipped"]))
    return 1 if total["failed"] or total["ok"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
