#!/usr/bin/env python3
"""A what-if of four MLPerf workloads on five systems, beside published results where there are such: a table in Markdown.

    tests/bench/published/what_if.py REGATTA

Server and Interactive are the highest rate within the round's limits. Published numbers are those of the table that
tests/it/simulator/truth.rs writes into tests/manual/concepts/simulation.md. A dash: no tuning of the system was published for the scenario.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../manual/concepts/simulation.md")
# Where no tuning of a workload was published for one of the first line's, another one is in its place.
SYSTEMS = {
    "llama2-70b": ["h200-x1", "h200-x8", "h100-x8", "b200-x8", "gb200-x4"],
    "mixtral-8x7b": ["h200-x1", "h200-x8-v4.1", "h100-x8", "b200-x8", "gb200-x4"],
    "llama3.1-405b": ["h200-x8", "h200-nvl-x8", "b200-x4", "b200-x8", "gb200-x4"],
    "llama3.1-8b": ["h200-nvl-x8", "b200-x1", "b200-x8", "gb200-x1", "gb200-x4"],
}
SCENARIOS = ["offline", "server", "interactive"]
# Lengths of prompts, which are assumed, and of answers; the limits of Server and of Interactive. As in truth.rs.
WORKLOADS = {
    "llama2-70b": ("294,220,1024", "294,230,1024", "ttft_p99<2s tpot_p99<200ms", "ttft_p99<450ms tpot_p99<40ms"),
    "mixtral-8x7b": ("180,143,1024", "146,116,1024", "ttft_p99<2s tpot_p99<200ms", None),
    "llama3.1-405b": ("9600,6188,20000", "684,544,2000", "ttft_p99<6s tpot_p99<175ms", "ttft_p99<4500ms tpot_p99<80ms"),
    "llama3.1-8b": ("870,400,2540", "128", "ttft_p99<2s tpot_p99<100ms", "ttft_p99<500ms tpot_p99<30ms"),
}


def published():
    """(workload, system, scenario) → tokens per second."""
    row = re.compile(r"^\| ([a-z0-9.-]+) \| ([a-z0-9.-]+) \| (offline|server|interactive) \| ([\d,]+) \|", re.M)
    return {found[:3]: float(found[3].replace(",", "")) for found in row.findall(open(PAGE).read())}


def simulated(regatta, workload, system, scenario):
    """Tokens per second; None: it is refused."""
    inputs, outputs, server, interactive = WORKLOADS[workload]
    goal = interactive if scenario == "interactive" else server
    if goal is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [regatta, "what-if", workload, f"system=sim-{system}", f"scenarios={scenario}", "--input-tokens", inputs,
                   "--output-tokens", outputs, "--goal", goal, "--json"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if run.returncode != 0:
        print(f"{workload} {system} {scenario}: {run.stderr.splitlines()[0]}", file=sys.stderr)
        return None
    return json.loads(run.stdout)["points"][0].get("tokens_per_second")


def main():
    known = published()
    print("| workload | system | " + " | ".join(f"{name}: simulated | published | error" for name in SCENARIOS) + " |")
    print("|---" * (2 + 3 * len(SCENARIOS)) + "|")
    for workload, systems in SYSTEMS.items():
        for name in systems:
            cells = []
            for scenario in SCENARIOS:
                rate = simulated(sys.argv[1], workload, name, scenario)
                real = known.get((workload, name, scenario))
                cells += ["–" if rate is None else f"{rate:,.0f}", "–" if real is None else f"{real:,.0f}",
                          "" if rate is None or real is None else f"{(rate / real - 1) * 100:+.1f} %".replace("-", "−")]
            print(f"| {workload} | {name} | " + " | ".join(cells) + " |", flush=True)


main()
