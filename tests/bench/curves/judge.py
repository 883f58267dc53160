"""Reads what run.sh left, and prints each tool's points beside Regatta's."""

import glob
import json
import os
import sys


def of_regatta(folder):
    with open(os.path.join(folder, "regatta/sweep.json")) as file:
        sweep = json.load(file)
    return {
        point["level"]["users"]: (
            point["requests_per_s"],
            point["ttft"]["p50"]["value"],
            point["ttft"]["p99"]["value"],
            point["verdict"],
        )
        for point in sweep["points"]
    }


def of_aiperf(folder):
    points = {}
    for path in glob.glob(os.path.join(folder, "aiperf/**/profile_export_aiperf.json"), recursive=True):
        with open(path) as file:
            result = json.load(file)
        users = find(result.get("input_config", result), "concurrency")
        ttft = result["time_to_first_token"]
        points[int(users)] = (result["request_throughput"]["avg"], ttft["p50"], ttft["p99"], "")
    return points


def find(value, key):
    """The first value of a key, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get(key), (int, float)):
            return value[key]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            found = find(one, key)
            if found is not None:
                return found
    return None


def of_guidellm(folder):
    with open(os.path.join(folder, "guidellm.json")) as file:
        report = json.load(file)
    points = {}
    for benchmark in report["benchmarks"]:
        users = find(benchmark["config"], "streams")
        metrics = benchmark["metrics"]
        rate = metrics["requests_per_second"]["successful"]["mean"]
        ttft = metrics["time_to_first_token_ms"]["successful"]
        points[int(users)] = (rate, ttft["percentiles"]["p50"], ttft["percentiles"]["p99"], "")
    return points


def tokens(folder):
    """Mean tokens in and out of a request, over all levels, from the results that were made of each tool's files."""
    means = {}
    for name, place in (("regatta", "regatta"), ("aiperf", "imported/aiperf"), ("guidellm", "imported/guidellm")):
        sums = [0, 0, 0]
        for path in glob.glob(os.path.join(folder, place, "points/*/result.json")):
            with open(path) as file:
                result = json.load(file)
            tokens_in = result["tokens"].get("input_server", result["tokens"]["input"])
            for at, value in enumerate((tokens_in, result["tokens"]["output"], result["counts"]["ok"])):
                sums[at] += value
        if sums[2]:
            means[name] = (sums[0] / sums[2], sums[1] / sums[2])
    return means


def main(folder):
    readers = {"regatta": of_regatta, "aiperf": of_aiperf, "guidellm": of_guidellm}
    all_points = {}
    for name, read in readers.items():
        try:
            all_points[name] = read(folder)
        except (OSError, KeyError, TypeError, ValueError) as error:
            print(f"{name}: {type(error).__name__} {error}", file=sys.stderr)
            all_points[name] = {}
    print("| users | " + " | ".join(f"{name} req/s, TTFT p50, p99 ms" for name in readers) + " |")
    print("|---|" + "---|" * len(readers))
    ours = all_points["regatta"]
    for users in sorted({users for points in all_points.values() for users in points}):
        cells = []
        for name, points in all_points.items():
            point = points.get(users)
            if point is None:
                cells.append("–")
                continue
            share = ""
            if name != "regatta" and users in ours:
                share = f" ({(point[0] / ours[users][0] - 1) * 100:+.1f} %)"
            cells.append(f"{point[0]:.2f}{share}, {point[1]:.0f}, {point[2]:.0f} {point[3]}".rstrip())
        print(f"| {users} | " + " | ".join(cells) + " |")
    for name, (tokens_in, tokens_out) in tokens(folder).items():
        print(f"{name}: mean tokens of a request by the server's count: {tokens_in:.1f} in, {tokens_out:.1f} out")
    for name in readers:
        with open(os.path.join(folder, f"{name}.time.json")) as file:
            time = json.load(file)
        print(f"{name}: {time['wall_s']:.0f} s, exit code {time['exit_code']}, {len(all_points[name])} points")


main(sys.argv[1])
