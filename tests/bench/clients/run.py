#!/usr/bin/env python3
"""Load generators and client libraries of others on the simulated servers, one run each: a table of what each of them says.

    tests/bench/clients/run.py REGATTA [--folder target/clients] [--vllm WHEEL] [--only openai,aiperf]

Each client is installed with pip into FOLDER, once. perf_analyzer is that of the wheel of tritonclient 2.51 (later ones have none) and needs
Debian's libb64-0d. vLLM's client runs from the Python files of its wheel, which pip fetches unless --vllm names it; nothing of
vLLM is compiled or computed (vllm_client.py). The rows go to FOLDER/table.md; the exit code is 1 if a client failed.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
HTTP, GRPC, METRICS = 19720, 19721, 19722
PLAIN_HTTP, PLAIN_GRPC, PLAIN_METRICS = 19730, 19731, 19732
PACKAGES = {
    "libraries": ["openai==3.57.0", "tritonclient[all]==2.73.0"],
    "perf_analyzer": ["tritonclient==2.51.0", "nvidia-cuda-runtime-cu12"],
    "genai-perf": ["genai-perf==0.0.16"],
    "aiperf": ["aiperf==0.13.0"],
    "guidellm": ["guidellm==0.8.1"],
}


def installed(folder, name):
    """The folder of programs of a virtual environment."""
    place = os.path.join(folder, name)
    done = os.path.join(place, "installed")
    if not os.path.exists(done):
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([f"{place}/bin/pip", "install", "-q", *PACKAGES[name]], check=True)
        open(done, "w").close()
    return f"{place}/bin"


def vllm_files(folder, wheel):
    """The Python files of vLLM's wheel."""
    place = os.path.join(folder, "vllm-files")
    if not os.path.exists(f"{place}/vllm/benchmarks/serve.py"):
        if not wheel:
            fetch = [f"{installed(folder, 'aiperf')}/pip", "download", "-q", "--no-deps", "-d", place, "vllm==0.24.0"]
            subprocess.run(fetch, check=True)
            wheel = next(f"{place}/{name}" for name in os.listdir(place) if name.endswith(".whl"))
        with zipfile.ZipFile(wheel) as files:
            files.extractall(place, [name for name in files.namelist() if name.endswith(".py")])
    return place


def tokenizer(folder):
    """A tokenizer of single bytes: the clients want one, though the server counts."""
    place = os.path.join(folder, "tokenizer")
    if not os.path.exists(f"{place}/tokenizer.json"):
        subprocess.run([f"{installed(folder, 'aiperf')}/python", f"{HERE}/make_tokenizer.py", place], check=True)
    return place


class Server:
    def __init__(self, regatta, repository, http, grpc, metrics, log):
        ports = ["--http-port", str(http), "--grpc-port", str(grpc), "--metrics-port", str(metrics)]
        self.process = subprocess.Popen([regatta, "sim", "serve", "--repository", repository, *ports], stdout=open(log, "w"))
        for _ in range(200):
            if open(log).read().startswith("ready"):
                return
            time.sleep(0.1)
        raise SystemExit(f"the server is not ready: {log}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


def clients(folder, words, wheel):
    """Name and version, command and its environment, and the pattern of what it prints."""
    tok, http = tokenizer(folder), f"http://127.0.0.1:{HTTP}"
    offline = {"HF_HUB_OFFLINE": "1"}
    perf = installed(folder, "perf_analyzer")
    libraries = f"{perf}/../lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/nvidia/cuda_runtime/lib"
    with_perf = {"LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}", "PATH": f"{perf}:{os.environ['PATH']}"}
    stable = ["--request-count", "40", "--measurement-interval", "3000", "--stability-percentage", "999"]
    genai = ["--streaming", "--tokenizer", tok, "--synthetic-input-tokens-mean", "64", "--output-tokens-mean", "16",
             "--concurrency", "4", "--request-count", "24"]
    vllm = [f"{installed(folder, 'aiperf')}/python", f"{HERE}/vllm_client.py", vllm_files(folder, wheel) if "vllm" in words else "",
            "--base-url", http, "--model", "ensemble", "--tokenizer", tok, "--dataset-name", "random", "--random-input-len", "64",
            "--random-output-len", "16", "--num-prompts", "40", "--request-rate", "10", "--ignore-eos", "--ready-check-timeout-sec", "0"]
    lib = f"{installed(folder, 'libraries')}/python"
    vllm_says = r"(Successful requests: +\d+|Failed requests: +\d+|Mean TTFT \(ms\): +[\d.]+|Mean TPOT \(ms\): +[\d.]+)"
    perf_says = r"(Concurrency: \d+, throughput: .*)"
    genai_says = r"(Request Count \(count\) │ +[\d.]+|Request Throughput │ +[\d.]+|Time To First Token(?: \(ms\))? │ +[\d.]+)"
    return [
        ("openai", "OpenAI's client 3.57.0", [lib, f"{HERE}/openai_calls.py", f"{http}/v1"], {}, r"(\d+ calls, .*)"),
        ("tritonclient", "tritonclient 2.73.0, HTTP and gRPC",
         [lib, f"{HERE}/triton_calls.py", *(f"127.0.0.1:{port}" for port in (PLAIN_HTTP, PLAIN_GRPC, GRPC))], {}, r"(\d+ calls, .*)"),
        ("perf_analyzer", "perf_analyzer 2.51.0, gRPC streams, `ensemble`",
         ["perf_analyzer", "-m", "ensemble", "-i", "grpc", "--streaming", "--async", "-u", f"127.0.0.1:{GRPC}", "--input-data",
          f"{HERE}/streamed.json", "--concurrency-range", "4", *stable], with_perf, perf_says),
        ("perf_analyzer", "perf_analyzer 2.51.0, gRPC streams, `tensorrt_llm_bls`",
         ["perf_analyzer", "-m", "tensorrt_llm_bls", "-i", "grpc", "--streaming", "--async", "-u", f"127.0.0.1:{GRPC}",
          "--input-data", f"{HERE}/streamed.json", "--concurrency-range", "4", *stable], with_perf, perf_says),
        ("perf_analyzer", "perf_analyzer 2.51.0, HTTP",
         ["perf_analyzer", "-m", "ensemble", "-i", "http", "-u", f"127.0.0.1:{PLAIN_HTTP}", "--input-data", f"{HERE}/whole.json",
          "--concurrency-range", "2", *stable], with_perf, perf_says),
        ("genai-perf", "GenAI-Perf 0.0.16, KServe",
         [f"{installed(folder, 'genai-perf')}/genai-perf", "profile", "-m", "ensemble", "--backend", "tensorrtllm",
          "--endpoint-type", "kserve", "-u", f"127.0.0.1:{GRPC}", *genai, "--artifact-dir", f"{folder}/out/genai-perf-kserve"],
         with_perf, genai_says),
        ("genai-perf", "GenAI-Perf 0.0.16, chat",
         [f"{installed(folder, 'genai-perf')}/genai-perf", "profile", "-m", "ensemble", "--endpoint-type", "chat", "-u",
          f"127.0.0.1:{HTTP}", *genai, "--artifact-dir", f"{folder}/out/genai-perf-chat"], with_perf, genai_says),
        *(("aiperf", f"AIPerf 0.13.0, {kind}",
           [f"{installed(folder, 'aiperf')}/aiperf", "profile", "-m", "ensemble", "--url", http, "--endpoint-type", kind,
            "--streaming", "--tokenizer", tok, "--use-server-token-count", "--isl", "64", "--osl", "16", "--concurrency", "4",
            "--request-count", "40", "--ui", "none", "--artifact-dir", f"{folder}/out/aiperf-{kind}"], {},
           r"(Request Count \(requests\) │ +[\d.]+|Request Error Rate \(%\) │ +[\d.]+|Time to First Token \(ms\) │ +[\d.]+|Inter Token Latency \(ms\) │ +[\d.]+)")
          for kind in ("chat", "completions")),
        ("guidellm", "GuideLLM 0.8.1",
         [f"{installed(folder, 'guidellm')}/guidellm", "run", "--backend", f"kind=openai_http,target={http},model=ensemble",
          "--tokenizer", json.dumps({"kind": "huggingface_auto", "model": tok}), "--data",
          "kind=synthetic_text,prompt_tokens=64,output_tokens=16", "--profile", json.dumps({"kind": "concurrent", "streams": [4]}),
          "--constraint", "kind=max_requests,count=40", "--disable-console-interactive", "--output",
          f"kind=json,path={folder}/out/guidellm.json"], offline, r"(generated \d+ benchmark\(s\))"),
        *(("vllm", f"`vllm bench serve` 0.24.0, {backend}", [*vllm, "--backend", backend, "--endpoint", endpoint], offline, vllm_says)
          for backend, endpoint in (("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions"))),
    ]


def guidellm_says(folder):
    """GuideLLM prints wide tables; the counts are in its file."""
    counts = json.load(open(f"{folder}/out/guidellm.json"))["benchmarks"][0]["metrics"]["request_totals"]
    return ", ".join(f"{counts[key]} {key}" for key in ("successful", "errored", "incomplete"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regatta")
    parser.add_argument("--folder", default="target/clients")
    parser.add_argument("--vllm", default="")
    parser.add_argument("--only", default="openai,tritonclient,perf_analyzer,genai-perf,aiperf,guidellm,vllm")
    args = parser.parse_args()
    regatta, folder, only = os.path.abspath(args.regatta), os.path.abspath(args.folder), args.only.split(",")
    os.makedirs(f"{folder}/out", exist_ok=True)
    subprocess.run([regatta, "run", "quickstart", "-q", "requests=2", "duration=1s"], cwd=folder, stdout=subprocess.DEVNULL)
    repository = f"{folder}/latest/generate_triton_config/{{}}/triton_model_repo_0"
    servers = [
        Server(regatta, repository.format("server"), HTTP, GRPC, METRICS, f"{folder}/out/streaming.log"),
        Server(regatta, repository.format("offline"), PLAIN_HTTP, PLAIN_GRPC, PLAIN_METRICS, f"{folder}/out/plain.log"),
    ]
    rows, failed = [], 0
    try:
        for name, title, command, environment, pattern in clients(folder, only, args.vllm):
            if name not in only:
                continue
            log = f"{folder}/out/{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}.log"
            with open(log, "w") as out:
                try:
                    code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                          env={**os.environ, **environment}, cwd=f"{folder}/out", timeout=200).returncode
                except subprocess.TimeoutExpired:
                    code = "no end in 200 s"
            text = open(log, errors="replace").read()
            said = "; ".join(dict.fromkeys(re.sub(" +", " ", one.replace("│", "")) for one in re.findall(pattern, text)))
            if name == "guidellm" and code == 0:
                said = guidellm_says(folder)
            failed += code != 0
            rows.append(f"| {title} | {'no error' if code == 0 else f'exit code {code}'} | {said} |")
            print(rows[-1], flush=True)
    finally:
        for server in servers:
            server.stop()
    with open(f"{folder}/table.md", "w") as table:
        table.write("| client | outcome | what it printed |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    sys.exit(1 if failed else 0)


main()
