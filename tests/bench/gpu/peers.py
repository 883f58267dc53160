#!/usr/bin/env python3
"""Regatta and other load generators on one running server of vLLM, one after the other, several rounds.

    peers.py --regatta PROGRAM --url http://127.0.0.1:8100 --model NAME --tokenizer FOLDER --out FOLDER
             [--rounds 3] [--burst 256] [--rate 20] [--requests 160] [--tools regatta,vllm,aiperf,guidellm] [--steps FILE]

Two loads: a burst of requests at once, and Poisson arrivals at a rate; 512 tokens in, 128 out, no end token. Each round begins with
another tool, so that a server that changes over time favours none. CPU is of the client's processes, their start included.
A tool's own numbers are printed, by its own definitions. `arrivals` is the p-value of a Kolmogorov-Smirnov test: whether the gaps
between requests, as the server's log of arrivals has them (--steps, written by step_log_hook.py), are exponential.
"""

import argparse
import glob
import json
import math
import os
import shutil
import subprocess
import sys
import time

PROMPT, ANSWER = 512, 128


def commands(args, load, out):
    """The command lines of a load, by tool."""
    python = sys.executable
    burst = load == "burst"
    count = args.burst if burst else args.requests
    host = args.url.split("://")[1]
    regatta = [args.regatta, "bench", f"openai://{host}", "--protocol", "openai-completions", "-m", args.model, "-n", str(count),
               "--isl", str(PROMPT), "--osl", str(ANSWER), "--ignore-eos", "--tokenizer", args.tokenizer, "--warmup", "4",
               # A chunk may have several tokens: the server counts them.
               "--extra", json.dumps({"stream_options": {"include_usage": True, "continuous_usage_stats": True}}), "--out", f"{out}/result", *(["--offline"] if burst else ["--rate", str(args.rate)])]
    vllm = [python, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "vllm", "--base-url", args.url,
            "--model", args.model, "--tokenizer", args.tokenizer, "--dataset-name", "random", "--random-input-len", str(PROMPT),
            "--random-output-len", str(ANSWER), "--num-prompts", str(count), "--ignore-eos", "--save-result",
            "--result-dir", out, "--result-filename", "vllm.json", "--request-rate", "inf" if burst else str(args.rate)]
    aiperf = [python, "-m", "aiperf", "profile", "-m", args.model, "--url", args.url, "--endpoint-type", "completions",
              "--streaming", "--tokenizer", args.tokenizer, "--use-server-token-count", "--isl", str(PROMPT),
              "--isl-stddev", "0", "--osl", str(ANSWER), "--osl-stddev", "0", "--extra-inputs", "ignore_eos:true",
              "--request-count", str(count), "--ui", "none", "--artifact-dir", f"{out}/aiperf",
              *(["--concurrency", str(count)] if burst else
                ["--request-rate", str(args.rate), "--request-rate-mode", "poisson"])]
    profile = {"kind": "concurrent", "streams": [count]} if burst else {"kind": "poisson", "rate": [args.rate]}
    guidellm = [python, "-m", "guidellm", "run",
                "--backend", f"kind=openai_http,target={args.url},model={args.model},request_format=/v1/completions",
                "--tokenizer", json.dumps({"kind": "huggingface_auto", "model": args.tokenizer}),
                "--data", f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={ANSWER}",
                "--profile", json.dumps(profile), "--constraint", f"kind=max_requests,count={count}",
                "--disable-console-interactive", "--output", f"kind=json,path={out}/guidellm.json"]
    return {"regatta": regatta, "vllm": vllm, "aiperf": aiperf, "guidellm": guidellm}


def run(argv, log, env):
    """Runs it and returns (exit code, seconds, CPU seconds of it and its children)."""
    before = os.times()
    begun = time.monotonic()
    with open(log, "w") as file:
        code = subprocess.run(argv, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env, timeout=240).returncode
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return code, time.monotonic() - begun, cpu


def regatta_numbers(out):
    result = json.load(open(glob.glob(f"{out}/result/**/result.json", recursive=True)[0]))
    latency = result["latency"]
    return {"tok_s": result["rates"]["output_tokens"], "ttft": latency["ttft"]["mean"], "tpot": latency["tpot"]["mean"],
            "input": result["tokens"]["input_server"], "verdict": result["verdict"]}


def vllm_numbers(out):
    result = json.load(open(f"{out}/vllm.json"))
    return {"tok_s": result["output_throughput"], "ttft": result["mean_ttft_ms"], "tpot": result["mean_tpot_ms"],
            "input": result["total_input_tokens"]}


def aiperf_numbers(out):
    result = json.load(open(glob.glob(f"{out}/aiperf/**/profile_export_aiperf.json", recursive=True)[0]))
    value = lambda name: result[name]["avg"]
    return {"tok_s": value("output_token_throughput"), "ttft": value("time_to_first_token"), "tpot": value("inter_token_latency"),
            "input": value("input_sequence_length")}


def guidellm_numbers(out):
    metrics = json.load(open(f"{out}/guidellm.json"))["benchmarks"][0]["metrics"]
    value = lambda name: metrics[name]["successful"]["mean"]
    return {"tok_s": value("output_tokens_per_second"), "ttft": value("time_to_first_token_ms"), "tpot": value("inter_token_latency_ms"),
            "input": value("prompt_token_count")}


NUMBERS = {"regatta": regatta_numbers, "vllm": vllm_numbers, "aiperf": aiperf_numbers, "guidellm": guidellm_numbers}


def arrivals(steps, since):
    """Of the requests that reached the server after byte `since` of the log: rate, and p of exponential gaps."""
    times = []
    for path in glob.glob(steps + ".arrivals*"):
        with open(path) as file:
            file.seek(since.get(path, 0))
            times += [float(line) for line in file if line.strip()]
    times.sort()
    # The requests before the measured ones come one after the other.
    gaps = [b - a for a, b in zip(times, times[1:])]
    if len(gaps) < 50:
        return None
    gaps = gaps[-(len(gaps) - 8):]
    mean = sum(gaps) / len(gaps)
    ordered = sorted(gaps)
    n = len(ordered)
    d = max(max((i + 1) / n - (1 - math.exp(-g / mean)), (1 - math.exp(-g / mean)) - i / n) for i, g in enumerate(ordered))
    t = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * d
    p = 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * t * t) for k in range(1, 101))
    return {"rate": round(1 / mean, 2), "p": round(min(max(p, 0), 1), 3)}


def mean_and_interval(values):
    """Mean and the half width of its 95 % interval."""
    quantile = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:,.4g}"
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    half = quantile.get(len(values), 2.0) * deviation / math.sqrt(len(values))
    return f"{mean:,.1f} ± {half:,.1f}"


def main():
    parser = argparse.ArgumentParser()
    for name in ("regatta", "url", "model", "tokenizer", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--burst", type=int, default=256)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--requests", type=int, default=160)
    parser.add_argument("--tools", default="regatta,vllm,aiperf,guidellm")
    parser.add_argument("--loads", default="burst,rate")
    parser.add_argument("--steps", default="")
    parser.add_argument("--seconds", type=float, default=1e9, help="no round begins after so many")
    args = parser.parse_args()
    args.out = os.path.abspath(args.out)
    tools = args.tools.split(",")
    env = dict(os.environ, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    env.pop("STEP_LOG", None)
    begun = time.monotonic()
    rows = []
    for number in range(args.rounds):
        if time.monotonic() - begun > args.seconds:
            break
        for load in args.loads.split(","):
            for tool in tools[number % len(tools):] + tools[:number % len(tools)]:
                out = f"{args.out}/{load}-{number}-{tool}"
                shutil.rmtree(out, ignore_errors=True)
                os.makedirs(out)
                # AIPerf reads a local tokenizer only while the hub is not said to be offline.
                its_env = {k: v for k, v in env.items() if tool != "aiperf" or k != "HF_HUB_OFFLINE"}
                since = {path: os.path.getsize(path) for path in glob.glob(args.steps + ".arrivals*")} if args.steps else {}
                row = {"load": load, "round": number, "tool": tool}
                try:
                    code, seconds, cpu = run(commands(args, load, out)[tool], f"{out}/log", its_env)
                    row |= {"code": code, "wall_s": round(seconds, 1), "cpu_s": round(cpu, 2)}
                    row |= NUMBERS[tool](out)
                except Exception as error:  # A tool that fails is a row that says so.
                    row |= {"error": f"{type(error).__name__}: {error}"}
                if args.steps and load == "rate":
                    row["arrivals"] = arrivals(args.steps, since)
                rows.append(row)
                print(json.dumps(row), flush=True)
    with open(f"{args.out}/rows.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print("\n| load | client | tokens/s | TTFT mean, ms | TPOT mean, ms | CPU, s | arrivals: p |\n|---|---|---|---|---|---|---|")
    for load in args.loads.split(","):
        for tool in tools:
            its = [row for row in rows if row["load"] == load and row["tool"] == tool and "tok_s" in row]
            # A number that a tool leaves out is none.
            cell = lambda key: mean_and_interval(known) if (known := [row[key] for row in its if row[key] is not None]) else "-"
            if its:
                cells = [cell(key) for key in ("tok_s", "ttft", "tpot", "cpu_s")]
                gaps = ", ".join(str(row["arrivals"]["p"]) for row in its if row.get("arrivals"))
                print(f"| {load} | {tool} | " + " | ".join(cells) + f" | {gaps} |")


main()
