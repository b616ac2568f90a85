#!/usr/bin/env python3
"""Sends the requests of a file that `riptide serve --request-log` wrote again, one after another.

    tools/replay_requests.py FILE [--url http://127.0.0.1:8000] [--key KEY] [--out FOLDER]

Prints a line of each: its id, path, status, seconds and bytes of the answer. --out writes the answers
to FOLDER/NUMBER.txt. The status is 1 when an answer was an error that the server is to blame for.
"""
import argparse
import json
import os
import time
import urllib.error
import urllib.request


def send(url, key, entry):
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
    request = urllib.request.Request(url + entry["path"], entry["body"].encode(), headers,
                                     method=entry["method"])
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--key", default=os.environ.get("RIPTIDE_API_KEY"))
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.out:
        os.makedirs(args.out, exist_ok=True)
    worst = 0
    with open(args.file, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            entry = json.loads(line)
            start = time.monotonic()
            status, body = send(args.url.rstrip("/"), args.key, entry)
            worst = max(worst, status)
            print(entry["id"], entry["path"], status, "%.3f s" % (time.monotonic() - start),
                  len(body), "bytes", flush=True)
            if args.out:
                with open(os.path.join(args.out, "%d.txt" % number), "wb") as f:
                    f.write(body)
    raise SystemExit(worst >= 500)


if __name__ == "__main__":
    main()
