#!/usr/bin/python3
"""Stands in for git, python3, mpirun, build.py and tritonserver: writes down how it was called, and leaves what they would leave.

Engines and servers are those of the simulator, made beforehand for the same tuning.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

ME = os.path.realpath(__file__)
name, args = os.path.basename(sys.argv[0]), sys.argv[1:]
KEPT = ["CUDA_VISIBLE_DEVICES", "CCACHE_NODISABLE", "TRTLLM_ORCHESTRATOR", "TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES"]


def record(words):
    line = json.dumps({"task": os.environ["REGATTA_TASK"], "argv": words, "env": {key: os.environ[key] for key in KEPT if key in os.environ}}) + "\n"
    handle = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, line.encode())
    os.close(handle)


def value(option):
    for index, word in enumerate(args):
        if word == option:
            return args[index + 1]
        if word.startswith(option + "="):
            return word.split("=", 1)[1]
    return None


def link(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(ME, path)


def write(path, text=""):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def simulate(repository, grpc, http, metrics):
    regatta = os.environ["REGATTA"]
    ports = ["--grpc-port", grpc, "--http-port", http, "--metrics-port", metrics]
    os.execv(regatta, [regatta, "sim", "serve", "--repository", repository, *ports])


def engine():
    """Leaves the simulated engine of the same limits."""
    for scenario in sorted(os.listdir(os.environ["ENGINES"])):
        folder = os.path.join(os.environ["ENGINES"], scenario)
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
        limits = config["build_config"]
        world = config["pretrained_config"]["mapping"]["world_size"]
        asked = [value("--max_batch_size"), value("--max_num_tokens"), value("--workers") or "1"]
        if asked == [str(limits["max_batch_size"]), str(limits["max_num_tokens"]), str(world)]:
            shutil.copytree(folder, value("--output_dir"), dirs_exist_ok=True)
            return
    sys.exit("no simulated engine has these limits: %s" % args)


if name == "git":
    words = list(args)
    while words[:1] == ["-c"]:
        words = words[2:]
    if words[0] in ("fetch", "ls-remote", "checkout", "cherry-pick", "submodule", "apply"):
        record(["git", *words])
    known = json.loads(os.environ["ORIGINS"])
    real = os.environ["REAL_GIT"]
    translated = []
    for word in args:
        for ours, theirs in known.items():
            word = word.replace(ours, theirs)
        translated.append(word)
    os.execv(real, [real, *translated])

record([sys.argv[0] if "venv" in sys.argv[0] else name, *args])
if name in ("python3", "python"):
    if args[:2] == ["-m", "venv"]:
        link(os.path.join(args[-1], "bin/python"))
    elif args[0].endswith("build_wheel.py"):
        write("build/tensorrt_llm-0.0.0.whl")
    elif args[0].endswith("quantize.py"):
        write(os.path.join(value("--output_dir"), "config.json"), '{"mapping": {"world_size": 1}}')
        write(os.path.join(value("--output_dir"), "rank0.safetensors"), "weights")
    elif args[:2] == ["-m", "tensorrt_llm.commands.build"]:
        engine()
    elif args[:2] == ["-m", "tensorrt_llm.commands.serve"]:
        simulate(os.environ["SIMULATED"], "0", value("--port"), "0")
elif name == "build.py":
    link(os.path.join(value("--install-dir"), "bin/tritonserver"))
    write(os.path.join(value("--install-dir"), "backends/tensorrtllm/libtriton_tensorrtllm.so"))
elif name == "tritonserver":
    if value("--allow-grpc") == "false":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        while True:
            time.sleep(60)
    simulate(value("--model-repository"), value("--grpc-port"), value("--http-port"), value("--metrics-port"))
elif name == "mpirun":
    rest = args[args.index("-n"):]
    ranks, rank = [], []
    for word in rest + [":"]:
        if word == ":":
            ranks.append(subprocess.Popen(rank[2:]))
            rank = []
        else:
            rank.append(word)
    end = lambda *_: [one.terminate() for one in ranks]
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    code = ranks[0].wait()
    for one in ranks:
        one.terminate()
        one.wait()
    sys.exit(code)
