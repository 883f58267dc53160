"""Compares the sides of all pairs and counts what is concluded. Argument: the folder with PAIR-SIDE."""

import collections
import json
import os
import subprocess
import sys

root = sys.argv[1]
names = os.listdir(root)
begun = sorted({int(name.split("-")[0].removesuffix(".log")) for name in names})
# A log is left by a pair of which a run was not accepted: INVALID(client) says that the machine was disturbed.
whole = [pair for pair in begun if f"{pair}.log" not in names]
print(f"{len(whole)} pairs whose runs were all accepted, {len(begun) - len(whole)} left out")


def deltas(a, b):
    sides = [os.path.join(root, name) for name in (a, b)]
    ended = subprocess.run([os.environ["REGATTA"], "compare", *sides, "--json"], capture_output=True, text=True)
    return json.loads(ended.stdout)["comparisons"][0]


def tally(title, sides):
    count, paired, claimed, latency = 0, 0, 0, collections.Counter()
    for a, b in sides:
        comparison = deltas(a, b)
        count += 1
        paired += comparison["pairing"]["pairs"] > 0
        rows = [(row["metric"], row["stat"], row["judgement"]) for row in comparison["deltas"]]
        claimed += any(row[2] in ("better", "worse") for row in rows)
        for metric in ("ttft", "tpot", "e2e"):
            latency[metric] += (metric, "mean", "worse") in rows
    means = ", ".join(f"{metric} {found}" for metric, found in latency.items())
    print(f"{title}: {count} comparisons, {paired} paired; {claimed} with a row better or worse; mean worse: {means}")


others = dict(zip(whole, whole[1:] + whole[:1]))
tally("A/A, same seeds", [(f"{pair}-a", f"{pair}-c") for pair in whole])
tally("A/A, other seeds", [(f"{pair}-a", f"{others[pair]}-c") for pair in whole])
tally("A/B +5 %, same seeds", [(f"{pair}-a", f"{pair}-b") for pair in whole])
tally("A/B +5 %, other seeds", [(f"{pair}-a", f"{others[pair]}-b") for pair in whole])
