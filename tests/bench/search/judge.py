"""The table of run.sh: probes, time, answer and error of each search, beside the true rate of the queue.

    python3 judge.py RESULTS
"""

import itertools
import json
import pathlib
import random
import sys

SLOTS, SERVICE_S, FIRST_TOKEN_S, LIMIT_S = 4, 0.040, 0.010, 0.140
ARRIVALS = 6_000_000


def waits(rate, gaps):
    """Waiting times of an M/D/c queue, first come, first served: equal service times end in the order of arrival."""
    free_at, now = [0.0] * SLOTS, 0.0
    for number, gap in enumerate(gaps):
        now += gap / rate
        start = max(now, free_at[number % SLOTS])
        free_at[number % SLOTS] = start + SERVICE_S
        yield start - now


def true_rate():
    """The rate at which the p99 of TTFT is the limit, from the same six million arrivals at each rate."""
    draw = random.Random(1)
    gaps = [draw.expovariate(1.0) for _ in range(ARRIVALS)]
    low, high = 0.5 * SLOTS / SERVICE_S, 0.98 * SLOTS / SERVICE_S
    for _ in range(9):
        rate = (low + high) / 2
        p99 = sorted(waits(rate, gaps))[int(0.99 * ARRIVALS)]
        low, high = (rate, high) if p99 <= LIMIT_S - FIRST_TOKEN_S else (low, rate)
    return (low + high) / 2


def read(path):
    return json.loads(path.read_text()) if path.exists() else None


def of_regatta(folder, name):
    search = read(folder / f"{name}.json")
    if not search:
        return None
    estimate = search["estimate"]
    if not estimate:
        return len(search["probes"]), None, None, "the limit held at the highest rate"
    return len(search["probes"]), estimate["rate"], (estimate["low"], estimate["high"]), ""


def of_aiperf(folder, name):
    history = read(folder / name / "search_history.json")
    if not history:
        return None
    summary = history.get("boundary_summary") or {}
    passed, missed = summary.get("feasible_max") or {}, summary.get("infeasible_min") or {}
    low, high = passed.get("value"), missed.get("value")
    note = "last rate that passed, first that failed; no confidence interval"
    return len(history["iterations"]), low, (low, high) if low and high else None, note


def of_goodput(folder, name):
    report = read(folder / f"{name}.json")
    if not report:
        return None
    passed = [probe for probe in report["conclusions"][0]["probes"] if probe["passed"]]
    best = max(passed, key=lambda probe: probe["streams"])
    note = f"a concurrency, not a rate: {best['streams']} streams"
    return len(report["conclusions"][0]["probes"]), best["goodput"], None, note


def of_sweep(folder, name):
    report = read(folder / f"{name}.json")
    if not report:
        return None
    points = []
    for benchmark in report["benchmarks"]:
        strategy, metrics = benchmark["config"]["strategy"], benchmark["metrics"]
        if strategy.get("rate"):
            points.append((strategy["rate"], metrics["time_to_first_token_ms"]["successful"]["percentiles"]["p99"]))
    points.sort()
    held = list(itertools.takewhile(lambda point: point[1] <= 1e3 * LIMIT_S, points))
    missed = points[len(held)][0] if len(held) < len(points) else None
    rate = held[-1][0] if held else None
    note = "no search: the last rate of the sweep below the first that missed"
    return len(report["benchmarks"]), rate, (rate, missed) if rate and missed else None, note


def main():
    folder = pathlib.Path(sys.argv[1])
    truth = true_rate()
    print(f"True rate: {truth:.1f} req/s (M/D/{SLOTS}, TTFT p99 <= {1e3 * LIMIT_S:.0f} ms)\n")
    print("| tool | probes | time s | answer req/s | error % | interval or bracket | holds the truth | server late, p99 ms | note |")
    print("|---|---|---|---|---|---|---|---|---|")
    tools = {
        "regatta-1": of_regatta,
        "regatta-1001": of_regatta,
        "aiperf-monotonic-sla": of_aiperf,
        "aiperf-smooth-isotonic": of_aiperf,
        "guidellm-goodput": of_goodput,
        "guidellm-sweep": of_sweep,
        "guidellm-sweep-one-worker": of_sweep,
    }
    for name, answer in tools.items():
        timed = read(folder / f"{name}.time.json")
        if not timed:
            continue
        found = answer(folder, name)
        late = (timed["lateness"] or {}).get("p99_ms") or 0.0
        capped = "stopped at the time limit; " if timed["exit_code"] in (124, 137) else ""
        if not found or found[1] is None:
            print(f"| {name} | | {timed['wall_s']:.0f} | none | | | | {late:.1f} | {capped}exit code {timed['exit_code']} |")
            continue
        probes, rate, interval, note = found
        error = 100 * (rate / truth - 1)
        bounds = f"{interval[0]:.1f}-{interval[1]:.1f}" if interval else "none"
        holds = ("yes" if interval[0] <= truth <= interval[1] else "no") if interval else "-"
        print(
            f"| {name} | {probes} | {timed['wall_s']:.0f} | {rate:.1f} | {error:+.1f} | {bounds} | {holds} | {late:.1f} "
            f"| {capped}{note} |"
        )


main()
