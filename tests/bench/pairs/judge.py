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
    count, paired, claimed, worse = 0, 0, collections.Counter(), collections.Counter()
    for a, b in sides:
        comparison = deltas(a, b)
        count += 1
        paired += comparison["pairing"]["pairs"] > 0
        rows = comparison["deltas"]
        claimed.update({row["family"] for row in rows if row["judgement"] in ("better", "worse")})
        worse.update(f"{row['metric']} {row['stat']}".strip() for row in rows
                     if row["family"] == "primary" and row["judgement"] == "worse")
    families = ", ".join(f"{claimed[family]} with {family} rows" for family in ("primary", "exploratory"))
    found = ", ".join(f"{row} {times}" for row, times in sorted(worse.items())) or "none"
    print(f"{title}: {count} comparisons, {paired} paired; better or worse: {families}; primary rows that are worse: {found}")


others = dict(zip(whole, whole[1:] + whole[:1]))
tally("A/A, same seeds", [(f"{pair}-a", f"{pair}-c") for pair in whole])
tally("A/A, other seeds", [(f"{pair}-a", f"{others[pair]}-c") for pair in whole])
tally("A/B +5 %, same seeds", [(f"{pair}-a", f"{pair}-b") for pair in whole])
tally("A/B +5 %, other seeds", [(f"{pair}-a", f"{others[pair]}-b") for pair in whole])
