"""Compares the official checker's word on published results with `regatta mlperf check`'s; run.sh explains and calls it."""

import collections
import json
import os
import re
import shutil
import sys

LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")


def link(clone, tree):
    """Links the tree file by file, without benchmarks of which a log is not there, and without incomplete submitters."""
    os.makedirs(tree)
    gone, without = {}, incomplete(clone)
    for folder, link_name, name in entries(clone):
        source = os.path.join(folder, name)
        parts = os.path.relpath(source, clone).split(os.sep)
        if "/".join(parts[:2]) in without:
            continue
        if parts[2] in ("results", "measurements", "compliance") and len(parts) > 6:
            benchmark = (*parts[:2], *parts[3:5])
            if benchmark not in gone:
                gone[benchmark] = lacks_logs(os.path.join(clone, *parts[:2], "results", *parts[3:5]))
            if gone[benchmark]:
                continue
        target = os.path.join(tree, *parts)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if link_name:
            os.symlink(os.readlink(source), target)
        else:
            os.link(source, target) if os.stat(source).st_dev == os.stat(tree).st_dev else shutil.copy2(source, target)
    names = ["/".join(benchmark) for benchmark, lacks in gone.items() if lacks]
    print(f"left out, since a log is not in the clone: {len(names)} benchmarks")
    print(f"left out, since the official checker ends at them: {len(without)} submitters {sorted(without)}")


def incomplete(clone):
    """Submitters that lack a folder of results, or of measurements where the round has one: the official checker lists
    both without asking. A sparse clone has such: submitters without a language model."""
    submitters = [f"{division}/{name}" for division in ("closed", "open", "network")
                  for name in listed(os.path.join(clone, division)) if os.path.isdir(os.path.join(clone, division, name))]
    has = {kind: {name for name in submitters if os.path.isdir(os.path.join(clone, name, kind))}
           for kind in ("results", "measurements")}
    return {name for name in submitters for kind in has if has[kind] and name not in has[kind]}


def listed(folder):
    return os.listdir(folder) if os.path.isdir(folder) else []


def entries(clone):
    """Every file and every link: its folder, whether it is a link, its name."""
    for division in ("closed", "open", "network"):
        for folder, below, files in os.walk(os.path.join(clone, division)):
            for name in files + below:
                is_link = os.path.islink(os.path.join(folder, name))
                if is_link or name in files:
                    yield folder, is_link, name


def lacks_logs(benchmark):
    """Whether a scenario's log is not in the clone."""
    if not os.path.isdir(benchmark):
        return False
    scenarios = [os.path.join(benchmark, name) for name in os.listdir(benchmark)]
    wanted = [os.path.join(scenario, run, log) for scenario in scenarios if os.path.isdir(scenario)
              for run in ("performance/run_1", "accuracy") for log in LOGS]
    return not all(is_there(path) for path in wanted)


def is_there(path):
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return not file.read(40).startswith(b"version https://git-lfs")


def official(text):
    """Result → whether the official checker accepts it; and how often it named each reason."""
    results, reasons = {}, collections.Counter()
    for line in text.splitlines():
        found = re.search(r"(INFO\] Results|ERROR\] NoResults) (\S+)", line)
        if found:
            key = result_of(found[2])
            if key:
                results[key] = results.get(key, True) and found[1].startswith("INFO")
        elif "ERROR]" in line:
            reasons[re.sub(r"\S*/\S*", "PATH", line.split("] ", 1)[-1])[:100]] += 1
    return results, reasons


def result_of(path):
    """<division>/<submitter>/<system>/<benchmark>/<scenario>, of a path inside a result."""
    parts = re.sub(r"^\./", "", path).split("/")
    if len(parts) < 6 or parts[2] not in ("results", "measurements", "compliance"):
        return None
    return "/".join(parts[:2] + parts[3:6]).lower()


def table(round_, work, to=None):
    with open(os.path.join(work, "official.log"), errors="replace") as file:
        text = file.read()
    theirs, reasons = official(text)
    if "SUMMARY" not in text:
        print("the official checker crashed:", text.splitlines()[-1])
    with open(os.path.join(work, "ours.json")) as file:
        report = json.load(file)["examined"]
    ours = {}
    for one in report["results"]:
        ours["/".join(one[key] for key in ("division", "submitter", "system", "benchmark", "scenario")).lower()] = True
    refused, beside, review = collections.Counter(), [], collections.Counter()
    submitters = {key.split("/", 2)[1] for key in ours}
    refused_submitters = set()
    for finding in report["findings"]:
        if finding["weight"] != "refused":
            review[finding["check"]] += 1
            continue
        refused[finding["check"]] += 1
        parts = finding["place"].split("/")
        if len(parts) > 1:
            refused_submitters.add(parts[1])
        key = result_of(finding["place"])
        if key in ours:
            ours[key] = False
        else:
            beside.append(f"{finding['check']}: {finding['place']}: {finding['what']}")
    both = [key for key in ours if key in theirs]
    false = [key for key in both if theirs[key] and not ours[key]]
    missed = [key for key in both if not theirs[key] and ours[key]]
    counts = {
        "round": round_,
        "official: results examined": len(theirs),
        "official: refused": sum(not taken for taken in theirs.values()),
        "ours: results examined": len(ours),
        "ours: submitters examined": len(submitters),
        "ours: results refused": sum(not taken for taken in ours.values()),
        "ours: submitters with a refusal": len(refused_submitters),
        "both examined": len(both),
        "false refusals": len(false),
        "missed refusals": len(missed),
        "refusals outside results": len(beside),
        "ours: refused, by check": dict(refused.most_common()),
        "ours: for review, by check": dict(review.most_common()),
        "ours: not examined": len(report.get("not_examined", [])),
    }
    print(json.dumps(counts, indent=2))
    for title, lines in (("false refusals", false), ("missed refusals", missed), ("outside results", beside),
                         ("official reasons", [f"{n} {why}" for why, n in reasons.most_common()])):
        print(f"{title}: {len(lines)}")
        for line in lines[:40]:
            print("  ", line)
    if to:
        with open(to, "w") as file:
            json.dump(counts, file, indent=2)


if __name__ == "__main__":
    {"link": link, "table": table}[sys.argv[1]](*sys.argv[2:])
