#!/usr/bin/env python3
"""What Regatta, GuideLLM and AIPerf measure of servers whose answers are scripted, as a table in Markdown.

    wire_forms.py --regatta PROGRAM --guidellm PROGRAM --aiperf PROGRAM --tokenizer FOLDER --out FOLDER [--form NAME]

Each server answers chat requests one at a time, in one way, at known times: the truth is what the script writes. TTFT is from
the request to the first read with a token, TPOT is (last token - first token) / (tokens - 1), ITL is the mean gap between
tokens of different reads, or with GuideLLM and AIPerf what they call so. `make_tokenizer.py` writes the tokenizer.
"""

import argparse
import glob
import json
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REQUESTS = 20
FIRST, GAP = 0.1, 0.02


def delta(text=None, **more):
    return {"choices": [{"index": 0, "delta": {**({} if text is None else {"content": text}), **more}, "finish_reason": None}]}


def usage(tokens):
    return {"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": 8 + tokens}}


def steady(per_chunk, chunks):
    """So many tokens in each of these chunks, GAP apart."""
    return [(FIRST if n == 0 else GAP, delta("a" * per_chunk)) for n in range(chunks)]


# Name: (pause before it, message) of each event; tokens of each read that has any. A token is one letter.
FORMS = {
    "one token a chunk, usage": (steady(1, 16) + [(0, usage(16))], [1] * 16),
    "no usage": (steady(1, 16), [1] * 16),
    "an empty first chunk with the role": ([(0.01, delta("", role="assistant"))] + steady(1, 16) + [(0, usage(16))], [1] * 16),
    "four tokens a chunk, usage": (steady(4, 4) + [(0, usage(16))], [4] * 4),
    "reasoning before the answer": (
        [(FIRST if n == 0 else GAP, delta(reasoning_content="a")) for n in range(8)]
        + [(GAP, delta("a")) for _ in range(8)] + [(0, usage(16))], [1] * 16),
    "usage 200 ms after the last token": (steady(1, 16) + [(0.2, usage(16))], [1] * 16),
    "pause of 300 ms in the middle": (
        [(0.3 + GAP if n == 8 else pause, event) for n, (pause, event) in enumerate(steady(1, 16))] + [(0, usage(16))], [1] * 16),
}


def truth(form):
    """TTFT, TPOT and ITL in ms, and tokens of an answer."""
    events, reads = FORMS[form]
    at, times = 0.0, []
    for pause, event in events:
        at += pause
        fields = event["choices"][0]["delta"] if event["choices"] else {}
        if fields.get("content") or fields.get("reasoning_content"):
            times.append(at)
    tokens = sum(reads)
    span = times[-1] - times[0]
    first = times[0]
    return [first * 1e3, span / (tokens - 1) * 1e3, span / (tokens - reads[0]) * 1e3, tokens]


def serve(form):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def send(self, body, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.send(json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode(), "application/json")

        def do_POST(self):
            due = time.monotonic()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.connection.setsockopt(6, 1, 1)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            events = FORMS[form][0]
            at = len(events) - (1 if "usage" in events[-1][1] else 0)
            for pause, event in events[:at] + [(0, end)] + events[at:]:
                due += pause
                time.sleep(max(0.0, due - time.monotonic()))
                self.write(f"data: {json.dumps({**head, **event})}\n\n".encode())
            self.write(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def write(self, data):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    ThreadingHTTPServer.handle_error = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def regatta(args, url, out):
    line = [args.regatta, "bench", f"openai://{url}", "-m", "m", "-n", str(REQUESTS), "--concurrency", "1", "--isl", "8",
            "--osl", "16", "--warmup", "1", "--out", out]
    run(line, f"{out}.log")
    result = json.load(open(glob.glob(f"{out}/**/result.json", recursive=True)[0]))
    latency = result["latency"]
    return [latency[key]["mean"] for key in ("ttft", "tpot", "itl_token")] + [result["tokens"]["output"] / result["counts"]["ok"]]


def guidellm(args, url, out):
    line = [args.guidellm, "run", "--backend", f"kind=openai_http,target=http://{url},model=m,request_format=/v1/chat/completions",
            "--tokenizer", json.dumps({"kind": "huggingface_auto", "model": args.tokenizer}),
            "--data", "kind=synthetic_text,prompt_tokens=8,output_tokens=16",
            "--profile", json.dumps({"kind": "concurrent", "streams": [1]}), "--constraint", f"kind=max_requests,count={REQUESTS}",
            "--disable-console-interactive", "--output", f"kind=json,path={out}.json"]
    run(line, f"{out}.log")
    metrics = json.load(open(f"{out}.json"))["benchmarks"][0]["metrics"]
    keys = ("time_to_first_token_ms", "time_per_output_token_ms", "inter_token_latency_ms", "output_token_count")
    return [metrics[key]["successful"]["mean"] for key in keys]


def aiperf(args, url, out):
    line = [args.aiperf, "profile", "-m", "m", "--url", url, "--endpoint-type", "chat", "--streaming", "--tokenizer",
            args.tokenizer, "--isl", "8", "--isl-stddev", "0", "--osl", "16", "--osl-stddev", "0", "--use-server-token-count",
            "--request-count", str(REQUESTS), "--concurrency", "1", "--ui", "none", "--artifact-dir", out]
    run(line, f"{out}.log")
    result = json.load(open(glob.glob(f"{out}/**/profile_export_aiperf.json", recursive=True)[0]))
    value = lambda key: result[key]["avg"] if key in result else None
    # What AIPerf calls inter token latency is the time per output token of others.
    keys = ("time_to_first_token", "inter_token_latency", "inter_chunk_latency", "output_sequence_length")
    return [value(key) for key in keys]


def run(line, log):
    with open(log, "w") as file:
        subprocess.run(line, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120)


def main():
    parser = argparse.ArgumentParser()
    for name in ("regatta", "guidellm", "aiperf", "tokenizer", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--form", action="append")
    args = parser.parse_args()
    print("| answers | | TTFT ms | TPOT ms | ITL ms | tokens |\n|---|---|---|---|---|---|", flush=True)
    for place, form in enumerate(args.form or FORMS):
        server = serve(form)
        url = "127.0.0.1:%d" % server.server_address[1]
        rows = [("truth", truth(form))]
        for tool in (regatta, guidellm, aiperf):
            try:
                rows.append((tool.__name__, tool(args, url, f"{args.out}/{tool.__name__}-{place}")))
            except (OSError, LookupError, subprocess.TimeoutExpired) as error:
                rows.append((tool.__name__, [repr(error)]))
        server.shutdown()
        for name, values in rows:
            cells = [value if isinstance(value, str) else "none" if value is None else f"{value:.1f}" for value in values]
            print(f"| {form if name == 'truth' else ''} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
