#!/usr/bin/env python3
# tags: timeout=300
"""The commands of build/riptide as a person or a script calls them: output, errors, exit status."""
import contextlib
import json
import math
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.environ.get("RIPTIDE_ROOT", os.getcwd())
RIPTIDE = os.path.join(ROOT, os.environ.get("RIPTIDE_BUILD", "build"), "riptide")
ENV = {k: v for k, v in os.environ.items() if not k.startswith("RIPTIDE_")}


def call(*args, stdin="", env=None):
    p = subprocess.run([RIPTIDE, *args], input=stdin.encode(), capture_output=True, timeout=120,
                       env={**ENV, **(env or {})})
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def run(*args, **kw):
    code, out, err = call("run", "--backend", "ref", "--json", *args, **kw)
    assert code == 0, err
    return json.loads(out)


def safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    out = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        a, b = t["data_offsets"]
        kind = {"F32": "f", "I32": "i"}[t["dtype"]]
        out[name] = (t["shape"], struct.unpack("<%d%s" % ((b - a) // 4, kind), data[8 + n + a:8 + n + b]))
    return out


def case(name):
    def wrap(f):
        CASES.append((name, f))
        return f
    return wrap


CASES = []
SUM = "2068,329,198,496,277,220,16,17,464,220,18,15,30,2069,198,2068,330,198,2078,358,2079,358"


@case("run --json has every field and answers from ids")
def _(tmp):
    r = run("--ids", SUM, "--temperature", "0")
    for key in ("prompt_ids", "ids", "text", "finish_reason", "drafted", "accepted", "cycles",
                "prefill_ms", "decode_ms", "backend"):
        assert key in r, key
    assert r["prompt_ids"] == [int(x) for x in SUM.split(",")]
    assert r["finish_reason"] == "stop" and r["ids"][-1] == 2069 and r["backend"] == "ref"
    assert r["drafted"] > 0 and r["cycles"] < len(r["ids"])


@case("messages, a request object and a rendered prompt are the same prompt")
def _(tmp):
    a, b = os.path.join(tmp, "a.json"), os.path.join(tmp, "b.json")
    messages = [{"role": "user", "content": "What is 12 + 30?"}]
    json.dump(messages, open(a, "w"))
    json.dump({"messages": messages, "chat_template_kwargs": {"enable_thinking": False}}, open(b, "w"))
    want = [int(x) for x in SUM.split(",")]
    assert run("--messages", a, "--no-thinking", "--max-tokens", "1")["prompt_ids"] == want
    assert run("--messages", b, "--max-tokens", "1")["prompt_ids"] == want
    assert run("--prompt", "What is 12 + 30?", "--no-thinking", "--max-tokens", "1")["prompt_ids"] == want
    code, text, err = call("template", "--messages", b)
    assert code == 0, err
    assert run("--prompt", text, "--max-tokens", "1")["prompt_ids"] == want
    code, out, err = call("tokenize", "--text", text)
    assert json.loads(out)["tokens"] == want


@case("a turn marker inside a message stays text")
def _(tmp):
    marked = run("--prompt", "say <|im_end|> now", "--max-tokens", "1")["prompt_ids"]
    plain = run("--prompt", "say now", "--max-tokens", "1")["prompt_ids"]
    assert marked.count(2069) == plain.count(2069)


@case("seeds repeat, the environment mirrors flags, n gives different answers")
def _(tmp):
    args = ("--prompt", "Tell a story of 3 days about Mara in Oslo.", "--max-tokens", "64", "--temperature", "1",
            "--top-k", "0", "--top-p", "1")
    a = run(*args, "--seed", "5")
    assert a["seed"] == 5
    assert run(*args, env={"RIPTIDE_SEED": "5"})["ids"] == a["ids"]
    assert run(*args, "--seed", "5", "--draft-model", "none")["ids"] == a["ids"]
    n = run(*args, "--seed", "5", "--n", "3", "--lanes", "2")
    assert len(n["choices"]) == 3 and n["ids"] == a["ids"]
    assert len({tuple(c["ids"]) for c in n["choices"]}) == 3


@case("the seed is printed where none was given")
def _(tmp):
    code, out, err = call("run", "--backend", "ref", "--prompt", "Hello!", "--max-tokens", "2")
    assert code == 0 and "seed " in err, err


@case("a stop text cuts the answer")
def _(tmp):
    whole = run("--ids", SUM, "--temperature", "0")["text"]
    cut = run("--ids", SUM, "--temperature", "0", "--stop", whole[4:8])
    assert cut["text"] == whole[:whole.index(whole[4:8])] and cut["finish_reason"] == "stop"


@case("a conversation is read line by line from standard input")
def _(tmp):
    code, out, err = call("run", "--backend", "ref", "--temperature", "0", "--no-thinking",
                          stdin="Who are you?\nHello!\n/exit\nHi\n")
    assert code == 0, err
    assert "I am a very small test model." in out and out.count("\n") == 2, out


class Terminal:
    """riptide run on a terminal of its own."""

    def __init__(self, home, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(RIPTIDE, [RIPTIDE, "run", *args], {**ENV, "HOME": home, "TERM": "xterm"})
        self.text = ""

    def read_until(self, *wanted):
        deadline = time.monotonic() + 90
        while not all(w in self.text for w in wanted):
            assert time.monotonic() < deadline, "no %r in %r" % (wanted, self.text)
            if select.select([self.fd], [], [], 1)[0]:
                self.text += os.read(self.fd, 65536).decode("utf-8", "replace")

    def type(self, keys):
        self.text = ""
        os.write(self.fd, keys.encode())

    def leave(self):
        os.write(self.fd, b"/exit\r")
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:  # the other side is closed
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@case("on a terminal ctrl c stops the answer alone and lines are remembered")
def _(tmp):
    args = ("--backend", "cpu", "--temperature", "0", "--ignore-eos")
    t = Terminal(tmp, *args)
    t.read_until("/help", "> ")
    t.type("Tell a story of 9 days about Juno in Lima.\r")
    t.read_until("\x1b[2m", "Juno in Lima.\r\n")  # reasoning is dim
    time.sleep(0.3)
    t.type("\x03")
    t.read_until("[stopped, ", "> ")
    t.type("\x03")  # at the prompt it ends nothing either
    time.sleep(0.3)
    t.type("\r/help\r")
    t.read_until("starts over")
    assert t.leave() == 0
    path = os.path.join(tmp, ".local/state/riptide/history")
    assert os.stat(path).st_mode & 0o777 == 0o600
    again = Terminal(tmp, *args)
    again.read_until("/help", "> ")
    again.type("\x1b[A\x1b[A\x1b[A")  # past /exit and /help
    again.read_until("Tell a story of 9 days about Juno")
    again.type("\x15")
    assert again.leave() == 0


@contextlib.contextmanager
def server(*args, env=None):
    """riptide serve on a free port."""
    p = subprocess.Popen([RIPTIDE, "serve", "--backend", "cpu", "--port", "0", "--max-context", "2K", *args],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**ENV, **(env or {})})
    try:
        line = p.stdout.readline().decode()
        assert line.startswith("Ready"), line
        yield line.split("http://127.0.0.1:")[1].split("/")[0]
    finally:
        p.terminate()
        p.communicate()


@case("serve keeps requests that replay_requests sends again with the same answers")
def _(tmp):
    log = os.path.join(tmp, "requests")
    bodies = [{"messages": [{"role": "user", "content": "Say \u00e4 %d" % i}], "max_tokens": 8,
               "temperature": 0} for i in range(3)]
    with server("--request-log", log, "--log-level", "error") as port:
        answers = []
        for body in bodies:
            request = urllib.request.Request("http://127.0.0.1:%s/v1/chat/completions?x=1" % port,
                                             json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                answers.append(json.load(answer)["choices"])
    assert os.stat(log).st_mode & 0o777 == 0o600
    with server() as port:
        p = subprocess.run([sys.executable, os.path.join(ROOT, "tools/replay_requests.py"), log, "--url",
                            "http://127.0.0.1:" + port, "--out", os.path.join(tmp, "out")],
                           capture_output=True, timeout=60)
    assert p.returncode == 0, p.stderr
    assert p.stdout.decode().count("/v1/chat/completions?x=1 200 ") == 3, p.stdout
    again = [json.load(open(os.path.join(tmp, "out", "%d.txt" % i)))["choices"] for i in (1, 2, 3)]
    assert again == answers


@case("agents are started with what points them at the server")
def _(tmp):
    names = ("claude", "codex", "opencode", "pi", "qwen")
    for name in names:  # says how it was called
        path = os.path.join(tmp, name)
        open(path, "w").write("#!/usr/bin/python3\nimport json, os, sys\n"
                              "print(json.dumps([sys.argv[1:], dict(os.environ)]))\nsys.exit(7)\n")
        os.chmod(path, 0o755)
    with server("--api-key", "secret") as port:
        env = {"PATH": tmp, "HOME": tmp, "RIPTIDE_PORT": port, "RIPTIDE_API_KEY": "secret"}
        url, seen = "http://127.0.0.1:" + port, {}
        for name in names:
            code, out, err = call(name, "-p", "--model", "own", "--", "--port", "x", env=env)
            assert code == 7, (code, err)
            args, seen[name] = json.loads(out)
            assert args[-5:] == ["-p", "--model", "own", "--port", "x"], args
            seen[name]["args"] = args[:-5]
        c = seen["claude"]
        assert (c["ANTHROPIC_BASE_URL"], c["ANTHROPIC_AUTH_TOKEN"], c["ANTHROPIC_MODEL"]) == (url, "secret", "mini-dense")
        assert 'model_providers.riptide.base_url="%s/v1"' % url in seen["codex"]["args"]
        assert "model_context_window=2048" in seen["codex"]["args"]
        config = json.loads(seen["opencode"]["OPENCODE_CONFIG_CONTENT"])
        assert config["model"] == "riptide/mini-dense"
        assert config["provider"]["riptide"]["options"] == {"baseURL": url + "/v1", "apiKey": "secret"}
        assert config["provider"]["riptide"]["models"]["mini-dense"]["limit"]["context"] == 2048
        assert seen["qwen"]["OPENAI_BASE_URL"] == url + "/v1" and seen["qwen"]["args"] == ["--auth-type", "openai"]
        args = seen["pi"]["args"]
        assert args[2:] == ["--provider", "riptide", "--model", "mini-dense"]
        assert args[0] == "-e" and "registerProvider" in open(args[1]).read()
        for wrong, args, e in (("--api-key", (), {"RIPTIDE_API_KEY": "wrong"}), ("not installed", (), {"PATH": "/nowhere"})):
            code, out, err = call("claude", *args, env={**env, **e})
            assert code == 1 and wrong in err, err
    code, out, err = call("pi", env=env)
    assert code == 1 and "riptide serve" in err, err
    code, out, err = call("pi", "--port", "0", env=env)
    assert code == 2 and "--port" in err, err


@case("the service manager is told when serving begins and ends")
def _(tmp):
    path = os.path.join(tmp, "manager")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(60)
        with server(env={"NOTIFY_SOCKET": path}):
            assert manager.recv(100) == b"READY=1"
        assert manager.recv(100) == b"STOPPING=1"


@case("commands, flags and their words are completed")
def _(tmp):
    script = os.path.join(ROOT, "tools/completion/riptide.bash")
    def complete(*words):
        text = 'source "%s"; COMP_WORDS=("%s" %s); COMP_CWORD=%d; _riptide; echo "${COMPREPLY[@]}"' % (
            script, RIPTIDE, " ".join("'%s'" % w for w in words), len(words))
        return subprocess.run(["bash", "-c", text], capture_output=True, check=True, cwd=tmp).stdout.decode().split()
    assert complete("se") == ["serve"] and "opencode" in complete("o")
    assert complete("serve", "--response-s") == ["--response-store", "--response-store-size"]
    assert complete("serve", "--kv-format", "b") == ["bf16"]
    open(os.path.join(tmp, "a.json"), "w").close()
    assert complete("run", "--messages", "a") == ["a.json"]


@case("logits writes rows, layers, draft logits and the draft's path")
def _(tmp):
    path = os.path.join(tmp, "out.safetensors")
    code, out, err = call("logits", "--backend", "ref", "--ids", SUM, "--rows", "3", "--layers", "--out", path)
    assert code == 0, err
    t = safetensors(path)
    assert t["logits"][0] == [3, 3072] and t["draft_logits"][0] == [7, 3072] and t["draft_path"][0] == [7]
    assert all(t["layer.%d" % i][0] == [22, 384] for i in range(8))
    assert all(math.isfinite(x) for x in t["logits"][1])
    row = t["logits"][1][-3072:]
    assert row.index(max(row)) == run("--ids", SUM, "--temperature", "0", "--max-tokens", "1")["ids"][0]
    code, out, err = call("logits", "--backend", "ref", "--ids", SUM, "--draft-model", "none", "--out", path)
    assert code == 0 and sorted(safetensors(path)) == ["logits"], err


@case("ids may come from a file, as JSON or one a line")
def _(tmp):
    path = os.path.join(tmp, "ids")
    for text in ("[%s]" % SUM, SUM.replace(",", "\n")):
        open(path, "w").write(text)
        assert run("--ids-file", path, "--max-tokens", "1")["prompt_ids"][:3] == [2068, 329, 198]


@case("info describes the model and adds its memory up")
def _(tmp):
    code, out, err = call("info", "--model", os.path.join(ROOT, "models/mini-moe"))
    assert code == 0, err
    r = json.loads(out)
    m = r["memory"]
    assert m["total_bytes"] == sum(v for k, v in m.items() if k != "total_bytes")
    assert r["format"] == "mlx" and r["draft"]["block"] == 8


@case("wrong calls are named and leave a status")
def _(tmp):
    bad = os.path.join(tmp, "bad.json")
    open(bad, "w").write('[{"role":"user","content":"x"},]')
    for status, words, args in (
            (2, "there is no command", ("fly",)),
            (2, "--nope", ("run", "--nope")),
            (2, "temperature", ("run", "--temperature", "7", "--ids", "1")),
            (1, "--draft-rows", ("run", "--draft-rows", "99", "--ids", "1")),
            (1, "want auto, all or 1 to", ("run", "--prefill-rows", "0", "--ids", "1")),
            (1, "no such file", ("run", "--model", "/nowhere/at-all", "--ids", "1")),
            (1, "config.json", ("run", "--model", tmp, "--ids", "1")),
            (1, "not a token id", ("run", "--ids", "1,x")),
            (1, "not below 3072", ("run", "--ids", "1,4000")),
            (1, "not below 3072", ("logits", "--ids", "4000", "--out", os.path.join(tmp, "o"))),
            (1, "context", ("run", "--ids", SUM, "--max-context", "16")),
            (1, "bad.json", ("template", "--messages", bad)),
            (1, "backend", ("run", "--backend", "abacus", "--ids", "1")),
            (1, "give one of", ("run", "--ids", "1", "--prompt", "x"))):
        code, out, err = call(*args)
        assert code == status and words in err and "Traceback" not in err, (args, code, err)
        assert len(err.splitlines()) < 20, err


@case("every command explains itself")
def _(tmp):
    for command in ("serve", "run", "logits", "tokenize", "template", "info"):
        code, out, err = call(command, "--help")
        assert code == 0 and "--model" in out + err, command
    code, out, _ = call("--help")
    assert code == 0 and call("-h") == (0, out, "") and call("help") == (0, out, "")
    assert call("--version")[1].startswith("riptide build ")


def main():
    if not os.path.exists(RIPTIDE):
        print("skip cli there is no %s" % RIPTIDE)
        return
    for name, f in CASES:
        with tempfile.TemporaryDirectory() as tmp:
            try:
                f(tmp)
                print("ok " + name)
            except Exception as e:
                print("not ok %s: %s: %.600s" % (name, type(e).__name__, e))


main()
