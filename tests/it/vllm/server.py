#!/usr/bin/python3
"""Stands in for `vllm serve` 0.24: its log, its endpoints, and an engine core in a session of its own.

It writes its arguments and its GPUs to $W/calls. $FAULT names a file with log lines: they are printed in place of the rest, and it
exits with 1.
"""
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

args = sys.argv[1:]


def value(option, default=None):
    return args[args.index(option) + 1] if option in args else default


MODEL = value("--model") or value("--model-path") or value("-hf") or args[args.index("serve") + 1]
NAME = value("--served-model-name", MODEL)
CORE = f"(EngineCore pid={os.getpid()}) INFO 11-23 09:12:05"
START = [
    f"(APIServer pid={os.getpid()}) INFO 11-23 09:12:01 [utils.py:253] non-default args: {{'model_tag': '{MODEL}'}}",
    f"{CORE} [core.py:115] Initializing a V1 LLM engine (v0.24.0) with config: model='{MODEL}'",
    f"{CORE} [gpu_model_runner.py:5161] Starting to load model {MODEL}...",
    "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.20it/s]",
    f"{CORE} [gpu_model_runner.py:5256] Model loading took 14.99 GiB memory and 3.250000 seconds",
    f"{CORE} [gpu_worker.py:509] Available KV cache memory: 54.32 GiB",
    f"{CORE} [kv_cache_utils.py:2146] GPU KV cache size: 444,976 tokens",
    "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 51/51 [00:02<00:00, 21.3it/s]",
    f"{CORE} [core.py:345] init engine (profile, create kv cache, warmup model) took 41.02 s",
    f"(APIServer pid={os.getpid()}) INFO:     Application startup complete.",
]
counted = {"prompt": 0, "generation": 0, "requests": 0}
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, text, kind="application/json"):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/v1/") and os.environ.get("VLLM_API_KEY"):
            return self.send_error(401)
        if self.path == "/v1/models":
            entry = {"id": NAME, "object": "model", "created": 1, "owned_by": "vllm", "root": MODEL, "max_model_len": 4096}
            return self.reply(json.dumps({"object": "list", "data": [entry]}))
        if self.path == "/version":
            return self.reply('{"version":"0.24.0"}')
        if self.path == "/metrics":
            return self.reply(metrics(), "text/plain; version=0.0.4")
        return self.reply("")

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = "messages" in asked
        prompt = len(asked["messages"][0]["content"].split()) if chat else len(asked["prompt"])
        count = asked["max_tokens"]
        with lock:
            counted["prompt"] += prompt
            counted["generation"] += count
            counted["requests"] += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        head = {"id": "cmpl-1", "object": "chat.completion.chunk" if chat else "text_completion", "created": 1, "model": NAME}
        for index in range(count):
            reason = "length" if index == count - 1 else None
            piece = {"delta": {"content": " a"}} if chat else {"text": " a"}
            self.event({**head, "choices": [{"index": 0, **piece, "finish_reason": reason}]})
            time.sleep(0.002)
        if "--enable-logging-iteration-details" in args:
            with lock:
                number = counted["requests"] - 1
                print(f"{CORE} [core.py:453] Iteration({number}): 1 context requests, {prompt} context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 12.34 ms", flush=True)
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
        self.event({**head, "choices": [], "usage": usage})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data):
        text = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))


def metrics():
    label = f'{{engine="0",model_name="{NAME}"}}'
    lines = []
    for name, kind, number in [
        ("vllm:num_requests_running", "gauge", 3.0),
        ("vllm:num_requests_waiting", "gauge", 1.0),
        ("vllm:kv_cache_usage_perc", "gauge", 0.25),
        ("vllm:num_preemptions_total", "counter", 0.0),
        ("vllm:num_preemptions_created", "gauge", 1763889121.0),
        ("vllm:prompt_tokens_total", "counter", float(counted["prompt"])),
        ("vllm:generation_tokens_total", "counter", float(counted["generation"])),
    ]:
        lines += [f"# HELP {name} As vLLM has it.", f"# TYPE {name} {kind}", f"{name}{label} {number}"]
    return "\n".join(lines) + "\n"


def main():
    with open(os.path.join(os.environ["W"], "calls"), "a") as calls:
        calls.write(json.dumps({"argv": args, "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}) + "\n")
    # The engine core leaves the group of the server.
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if os.environ.get("FAULT"):
        with open(os.environ["FAULT"]) as lines:
            print(lines.read(), flush=True)
        sys.exit(1)
    for line in START:
        print(line, flush=True)
    ThreadingHTTPServer((value("--host", "127.0.0.1"), int(value("--port"))), Handler).serve_forever()


main()
