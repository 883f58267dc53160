"""Draws the pictures of chapter 21, "Is it really faster?", and prints the numbers that its text quotes.

    REGATTA=/path/to/regatta python3 tests/manual/images/statistics.py [PICTURE…]

Needs Python 3.9, rustc, a C linker and a `regatta` (on PATH, or named by REGATTA); no Python packages. Takes a few
minutes; PICTURE is a name such as `intervals`, all of them otherwise.

All data are of simulated queues in virtual time with fixed seeds: Poisson arrivals, first come first served, a mean service
time of 1 s. The intervals, the search and the overload check are the product's own code: src/base/stats is compiled into a small
helper. The judgements are those of `regatta compare`.
"""

import heapq
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATS = HERE.parents[2] / "src" / "base" / "stats"
REGATTA = os.environ.get("REGATTA") or shutil.which("regatta")

INK, GREY, PALE = "#1f2933", "#6b7785", "#d9dee4"
BLUE, ORANGE, RED, GREEN = "#1f6fb2", "#d9730d", "#c62828", "#2e7d32"


# ---- queues ----


def exponential(rng):
    return -math.log(1.0 - rng.random())


def queue(servers, utilization, requests, seed, *, settle=5_000, fixed=False, slower=1.0, noise=0.0, own=0):
    """(arrival, wait, service) of each request. The first `settle` requests are dropped.

    The same seed gives the same arrivals and demands. `noise` makes each service up to this share longer or shorter, from
    the seed `own`.
    """
    rng, own_rng = random.Random(seed), random.Random(own)
    free = [0.0] * servers
    now, visits = 0.0, []
    for number in range(settle + requests):
        now += exponential(rng) / (servers * utilization)
        demand = 1.0 if fixed else exponential(rng)
        service = slower * demand * (1.0 + noise * (2.0 * own_rng.random() - 1.0))
        start = max(free[0], now)
        heapq.heapreplace(free, start + service)
        if number >= settle:
            visits.append((now, start - now, service))
    return visits


def waits(*args, **options):
    return [wait for _, wait, _ in queue(*args, **options)]


def mean_wait(servers, utilization):
    """The true mean wait of M/M/c, by Erlang's C formula."""
    load, blocked = servers * utilization, 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    must_wait = blocked / (1.0 - utilization * (1.0 - blocked))
    return must_wait / (servers * (1.0 - utilization))


# This file's own name hides Python's module `statistics`.
def average(values):
    return math.fsum(values) / len(values)


def variance(values):
    middle = average(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * p), len(ordered) - 1)]


# ---- the product's own statistics ----

HELPER = """
#![allow(dead_code)]
mod libm { unsafe extern "C" { #[link_name = "lgamma"] fn c_lgamma(x: f64) -> f64; } pub fn lgamma(x: f64) -> f64 { unsafe { c_lgamma(x) } } }
mod units { pub fn four_digits(rate: f64) -> f64 { let scale = 10f64.powi(3 - rate.abs().log10().floor() as i32); (rate * scale).round() / scale } }
mod student; mod within_run; mod rate_search; mod growth; mod latency_trend;
use rate_search::{ProbeOutcome, RateSearcher, RateStep};
fn main() {
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (task, rest) = line.split_once(' ').unwrap();
        let values: Vec<f64> = rest.split(' ').map(|value| value.parse().unwrap()).collect();
        match task {
            "mean" => match within_run::RunSeries::new(&values, 1.0).mean_interval() {
                Ok((low, high)) => println!("{low} {high}"),
                Err(_) => println!("none"),
            },
            "growth" => {
                let visits: Vec<(f64, f64)> = values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                let mut ends: Vec<f64> = visits.iter().map(|visit| visit.1).collect();
                ends.sort_by(f64::total_cmp);
                let growth = growth::Growth::estimate(&latency_trend::VisitsInOrder {
                    count: visits.len(),
                    visits: &|| Box::new(visits.iter().copied()),
                    ends: &|| Box::new(ends.iter().copied()),
                });
                println!("{}", u8::from(growth.is_some_and(|growth| growth.is_likely())));
            }
            "search" => {
                let [low, high, start, precision, most] = values[..5] else { panic!() };
                let searcher = RateSearcher { low, high, start, second: None, precision, most: most as usize };
                let probes: Vec<ProbeOutcome> = values[5..].chunks_exact(4).map(|probe| ProbeOutcome {
                    rate: probe[0], whole: probe[1], first_half: probe[2], capacity: (probe[3] > 0.0).then_some(probe[3]),
                }).collect();
                match searcher.next(&probes) {
                    RateStep::Probe(rate) => println!("probe {rate}"),
                    RateStep::Estimated(found) => println!("found {} {} {} {}", found.rate, found.low, found.high, found.slope),
                    _ => println!("none"),
                }
            }
            _ => panic!("{task}"),
        }
    }
}
"""


def build_helper(folder):
    names = ("student", "within_run", "rate_search", "growth", "latency_trend")
    for path in [path for path in STATS.rglob("*.rs") if path.relative_to(STATS).parts[0].removesuffix(".rs") in names]:
        text = re.sub(r"^use (schemars|serde)::.*\n", "", path.read_text(), flags=re.M).replace("libm::", "crate::libm::")
        text = re.sub(r"^ *#\[serde\(.*\n", "", text.replace(", Serialize, Deserialize, JsonSchema", ""), flags=re.M)
        (folder / path.relative_to(STATS)).parent.mkdir(exist_ok=True)
        (folder / path.relative_to(STATS)).write_text(text)
    (folder / "main.rs").write_text(HELPER)
    program = folder / "helper"
    subprocess.run(
        ["rustc", "--edition", "2024", "-O", "-A", "warnings", str(folder / "main.rs"), "-o", str(program), "-l", "m"], check=True
    )
    return subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(helper, task, values):
    helper.stdin.write(task + " " + " ".join(repr(float(value)) for value in values) + "\n")
    helper.stdin.flush()
    return helper.stdout.readline().split()


# ---- sides for `regatta compare` ----


def write_run(folder, visits, seed):
    """A result.json as `regatta bench` writes it, with what `compare` reads. 0.2 of a service is the prompt; 15 more tokens."""
    values = {
        "ttft": [1000 * (wait + 0.2 * service) for _, wait, service in visits],
        "tpot": [1000 * 0.8 * service / 15 for _, _, service in visits],
        "e2e": [1000 * (wait + service) for _, wait, service in visits],
    }
    latency = {}
    for metric, of_metric in values.items():
        latency[metric] = {"unit": "ms", "n": len(visits), "population": "successful requests", "excluded": 0,
                           "zero_point": "schedule", "token_source": "usage", "window": "full",
                           "percentile_rule": "nearest rank, sorted element floor(N·p)", "mean": average(of_metric)}
        latency[metric] |= {f"p{p}": percentile(of_metric, p / 100) for p in (50, 90, 95, 99)}
    last = max(arrival + wait + service for arrival, wait, service in visits)
    rate = len(visits) / (last - visits[0][0])
    result = {
        "schema": 1, "verdict": "valid", "reasons": [],
        "requested": {"endpoints": ["queue:1"], "model": "queue", "scenario": {"server": {"rate": 3.2}}, "seed": seed},
        "schedule_digest": f"seed {seed}", "counts": {"ok": len(visits)},
        "tokens": {"input": 8 * len(visits), "output": 16 * len(visits), "source": "usage"},
        "rates": {"requests_full": rate, "output_tokens": 16 * rate}, "latency": latency,
    }
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    return latency


def compare(a, b):
    ended = subprocess.run([REGATTA, "compare", str(a), str(b), "--json"], capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)["comparisons"][0]


# ---- SVG ----


class Picture:
    def __init__(self, width, height, about):
        self.size, self.parts = (width, height), []
        self.parts.append(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="Helvetica, Arial, sans-serif" role="img"><title>{about}</title>'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        )

    def line(self, x1, y1, x2, y2, color=GREY, width=1, dash=None):
        dash = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{color}" stroke-width="{width}"{dash}/>')

    def path(self, points, color, width=1):
        text = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path d="{text}" fill="none" stroke="{color}" stroke-width="{width}" stroke-linejoin="round"/>')

    def rect(self, x, y, width, height, color, opacity=1.0):
        shade = f' fill-opacity="{opacity}"' if opacity < 1 else ""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"{shade}/>')

    def dot(self, x, y, color, radius=4, hollow=False):
        fill = f'fill="#ffffff" stroke="{color}" stroke-width="2"' if hollow else f'fill="{color}"'
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {fill}/>')

    def text(self, x, y, text, size=14, color=INK, anchor="start", bold=False):
        weight = ' font-weight="bold"' if bold else ""
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}>{text}</text>')

    def save(self, name):
        path = HERE / f"{name}.svg"
        path.write_text("\n".join([*self.parts, "</svg>"]) + "\n")
        print(f"  {path.name}: {path.stat().st_size / 1000:.0f} kB")


def scale(low, high, start, end):
    return lambda value: start + (value - low) / (high - low) * (end - start)


# ---- the pictures ----


def neighbors():
    """A queue's waits in the order of arrival, and the same values shuffled."""
    n, block = 1_000, 50
    run = waits(4, 0.8, n, seed=8)
    shuffled = run[:]
    random.Random(1).shuffle(shuffled)
    runs = [waits(4, 0.8, n, seed=1_000 + seed) for seed in range(1_000)]
    variance_of_one = variance([wait for one in runs for wait in one])
    effective = variance_of_one / variance([average(one) for one in runs])
    print(f"neighbors: mean wait of this run {average(run):.2f} s; {n} waits of M/M/4 at 0.8 are worth {effective:.0f} independent")

    picture = Picture(760, 430, "Waiting times of a queue in the order of arrival, and the same values shuffled")
    top = math.ceil(max(run))
    for values, y0, title in ((run, 40, "A queue: 1,000 requests in the order in which they arrive"),
                              (shuffled, 240, "The same 1,000 values, shuffled: now they are independent")):
        x, y = scale(0, n, 60, 740), scale(0, top, y0 + 135, y0)
        picture.text(60, y0 - 14, title, 15, bold=True)
        for tick in range(0, top + 1, 2):
            picture.line(60, y(tick), 740, y(tick), PALE)
            picture.text(52, y(tick) + 4, f"{tick} s", 12, GREY, "end")
        picture.path([(x(index), y(value)) for index, value in enumerate(values)], "#8db8dc", 0.8)
        steps = []
        for start in range(0, n, block):
            level = y(average(values[start : start + block]))
            steps += [(x(start), level), (x(start + block), level)]
        picture.path(steps, ORANGE, 2.5)
    picture.line(60, 410, 84, 410, "#8db8dc", 2)
    picture.text(90, 415, "wait of one request", 13)
    picture.line(250, 410, 274, 410, ORANGE, 2.5)
    picture.text(280, 415, "mean of 50 requests", 13)
    picture.text(740, 415, f"mean of all in both: {average(run):.2f} s", 13, anchor="end")
    picture.save("neighbors")


def intervals(helper):
    """Intervals of many runs of one queue: as if requests were independent, and the product's."""
    n, count, shown = 10_000, 400, 40
    truth = mean_wait(4, 0.7)
    naive, ours = [], []
    for seed in range(count):
        run = waits(4, 0.7, n, seed=5_000 + seed)
        mean = average(run)
        half = 1.96 * math.sqrt(variance(run) / n)
        naive.append((mean - half, mean + half))
        answer = ask(helper, "mean", run)
        ours.append(None if answer == ["none"] else (float(answer[0]), float(answer[1])))
    sides = []
    for found in (naive, ours):
        printed = [one for one in found if one]
        sides.append((found, sum(low <= truth <= high for low, high in printed), len(printed)))
    print(f"intervals: true mean {truth:.3f} s; as if independent {sides[0][1]} of {sides[0][2]} hold it; ours {sides[1][1]} of "
          f"{sides[1][2]}, {count - sides[1][2]} runs have none")

    picture = Picture(760, 440, "Intervals of 40 runs: as if requests were independent, and those of Regatta")
    titles = ("As if requests were independent", "Regatta’s interval")
    low, high = 0.0, 0.9
    for (found, held, printed), y0, title in zip(sides, (40, 235), titles):
        x, y = scale(-1, shown, 60, 740), scale(low, high, y0 + 145, y0)
        picture.text(60, y0 - 14, title, 15, bold=True)
        picture.text(740, y0 - 14, f"true value inside: {held} of {printed} ({100 * held / printed:.0f} %)", 14, anchor="end")
        for tick in (0.0, 0.2, 0.4, 0.6, 0.8):
            picture.line(60, y(tick), 740, y(tick), PALE)
            picture.text(52, y(tick) + 4, f"{tick:.1f} s", 12, GREY, "end")
        for index, one in enumerate(found[:shown]):
            if one is None:
                picture.dot(x(index), y(truth), GREY, 5, hollow=True)
                continue
            color = BLUE if one[0] <= truth <= one[1] else RED
            picture.line(x(index), y(max(one[0], low)), x(index), y(min(one[1], high)), color, 7)
            if one[1] > high:
                picture.text(x(index) + 7, y(high) + 10, f"to {one[1]:.1f} s", 12, GREY)
        picture.line(60, y(truth), 740, y(truth), INK, 1.5, "6 4")
    picture.line(60, 420, 84, 420, INK, 1.5, "6 4")
    picture.text(90, 425, "true mean wait", 13)
    picture.line(212, 412, 212, 428, BLUE, 7)
    picture.text(222, 425, "interval holds it", 13)
    picture.line(350, 412, 350, 428, RED, 7)
    picture.text(360, 425, "misses it", 13)
    picture.dot(446, 420, GREY, 5, hollow=True)
    picture.text(456, 425, "none: run too short", 13)
    picture.text(740, 425, f"{shown} of {count} runs drawn", 13, GREY, "end")
    picture.save("intervals")


def pairs(folder):
    """Five runs of A and of B with the same seeds, for each of the three judgements."""
    sides, latencies = {}, {}
    for name, slower, own in (("a", 1.0, 10), ("same", 1.0, 20), ("slow", 1.02, 30)):
        for seed in range(5):
            visits = queue(4, 0.8, 3_000, seed=200 + seed, slower=slower, noise=0.1, own=1_000 * own + seed)
            latencies[name, seed] = write_run(folder / "pairs" / name / str(seed), visits, seed)
        sides[name] = folder / "pairs" / name
    panels = []
    for other, metric, stat, title, about in (
        ("slow", "ttft", "p99", "worse", "TTFT p99, B 2 % slower"),
        ("same", "tpot", "mean", "equivalent", "mean TPOT, B the same as A"),
        ("same", "ttft", "p99", "cannot tell", "TTFT p99, B the same as A"),
    ):
        comparison = compare(sides["a"], sides[other])
        (row,) = [row for row in comparison["deltas"] if (row["metric"], row["stat"]) == (metric, stat)]
        print("pairs:", about, json.dumps(row))
        values = [(latencies["a", seed][metric][stat], latencies[other, seed][metric][stat]) for seed in range(5)]
        panels.append((title, about, row, values))

    picture = Picture(760, 430, "Five pairs of runs for each of the judgements worse, equivalent and cannot tell")
    colors = {"worse": RED, "equivalent": GREEN, "cannot tell": ORANGE}
    reach = [end for _, _, row, _ in panels for end in row_numbers(row)[1]]
    for (title, about, row, values), x0 in zip(panels, (20, 270, 520)):
        picture.text(x0 + 110, 26, title, 18, colors[title], "middle", True)
        picture.text(x0 + 110, 46, about, 13, INK, "middle")
        low, high = min(min(one) for one in values), max(max(one) for one in values)
        y = scale(low - 0.08 * (high - low), high + 0.08 * (high - low), 262, 62)
        xa, xb = x0 + 80, x0 + 190
        unit = (lambda value: f"{value / 1000:.1f} s") if high > 1000 else (lambda value: f"{value:.1f} ms")
        for value in (low, high):
            picture.text(x0 + 64, y(value) + 5, unit(value), 12, GREY, "end")
        for a, b in values:
            picture.line(xa, y(a), xb, y(b), GREY, 1.5)
            picture.dot(xa, y(a), BLUE, 5)
            picture.dot(xb, y(b), ORANGE, 5)
        picture.text(xa, 284, "A", 15, BLUE, "middle", True)
        picture.text(xb, 284, "B", 15, ORANGE, "middle", True)
        x = scale(min(reach) - 1, max(reach) + 1, x0 + 10, x0 + 220)
        picture.rect(x(-1), 318, x(1) - x(-1), 44, GREEN, 0.25)
        picture.line(x(0), 318, x(0), 362, GREY)
        picture.line(x0 + 10, 362, x0 + 220, 362, GREY)
        for tick in [tick for tick in range(-50, 51, 5) if min(reach) - 1 <= tick <= max(reach) + 1]:
            picture.line(x(tick), 362, x(tick), 367, GREY)
            picture.text(x(tick), 381, f"{tick:+d} %" if tick else "0", 12, GREY, "middle")
        change, ends = row_numbers(row)
        picture.line(x(ends[0]), 340, x(ends[1]), 340, colors[title], 4)
        picture.dot(x(change), 340, colors[title], 6)
        picture.text(x0 + 110, 310, "B compared with A", 12, GREY, "middle")
    picture.text(20, 418, "Lines join runs with the same seed. Bars: 95 % interval of the difference. Green band: ±1 %.", 13)
    picture.save("pairs")


def row_numbers(row):
    return row["percent"], (row["interval"]["low"], row["interval"]["high"])


def same_twice(folder):
    """Two identical queues, many times: one run each as if requests were independent, and five runs each."""
    count, n = 200, 1_000
    alone, together = [], []
    for pair in range(count):
        first = []
        for side in (0, 1):
            for run in range(5):
                visits = queue(4, 0.8, n, seed=100_000 + 100 * pair + 10 * side + run, settle=2_000)
                write_run(folder / "same" / f"{pair}-{side}" / str(run), visits, 10 * side + run)
                if run == 0:
                    first.append([wait + 0.2 * service for _, wait, service in visits])
        a, b = first
        error = math.sqrt(variance(a) / n + variance(b) / n)
        alone.append(abs(average(a) - average(b)) > 1.96 * error)
        rows = compare(folder / "same" / f"{pair}-0", folder / "same" / f"{pair}-1")["deltas"]
        together.append(any(row["judgement"] in ("better", "worse") for row in rows))
    print(f"same twice: one run each, mean TTFT alone: {sum(alone)} of {count} called different; five runs each, {len(rows)} rows: {sum(together)}")

    picture = Picture(760, 330, "How often two identical servers are called different")
    for found, x0, title, about in ((alone, 20, "One run each", "requests taken as independent, mean TTFT only"),
                                    (together, 400, "Five runs each", f"regatta compare, any of {len(rows)} rows")):
        picture.text(x0, 26, title, 17, bold=True)
        picture.text(x0, 46, about, 13, GREY)
        for index, is_different in enumerate(found):
            picture.rect(x0 + index % 20 * 17, 62 + index // 20 * 17, 14, 14, RED if is_different else PALE)
        picture.text(x0, 262, f"{sum(found)} of {count} called different", 16, RED if sum(found) > count / 20 else INK, bold=True)
    picture.rect(20, 292, 14, 14, PALE)
    picture.text(42, 304, "a comparison of two identical servers", 13)
    picture.rect(300, 292, 14, 14, RED)
    picture.text(322, 304, "the same, called better or worse (wrong)", 13)
    picture.save("same-twice")


def search(helper):
    """The product's search on a queue whose true rate is known."""
    servers, load, n = 8, 0.9, 1_000
    per_s = 128 / servers
    truth = load * servers * per_s
    allowed = percentile(waits(servers, load, 1_000_000, seed=99, fixed=True), 0.99)
    held, widths, first, count = 0, [], None, 200
    for seed in range(count):
        settings = [0.09 * truth, 1.44 * truth, 0.09 * truth, 0.02, 11]
        probes = []
        while True:
            answer = ask(helper, "search", settings + [value for probe in probes for value in probe])
            if answer[0] != "probe":
                break
            rate = float(answer[1])
            visits = queue(servers, rate / per_s / servers, n, seed=7_000 + 100 * seed + len(probes), settle=0, fixed=True)
            values = [wait for _, wait, _ in visits]
            last = visits[-1][0]
            done = sum(arrival + wait + service <= last for arrival, wait, service in visits) / last * per_s
            margin = lambda values: math.log(max(percentile(values, 0.99) / allowed, 1e-3))
            probes.append((rate, margin(values), margin(values[: n // 2]), done if done < 0.95 * rate else 0))
        if answer[0] == "none":
            continue
        found = [float(value) for value in answer[1:]]
        held += found[1] <= truth <= found[2]
        widths.append((found[2] - found[1]) / found[0])
        if seed == 3:
            first = (probes, found)
    probes, (rate, low, high, slope) = first
    print(f"search: true {truth:.1f}, limit {allowed:.2f} s of wait; this one {rate:.1f}, {low:.1f} … {high:.1f}, {len(probes)} probes; "
          f"{held} of {len(widths)} intervals hold it ({count} searches), median width {100 * percentile(widths, 0.5):.0f} %")

    picture = Picture(760, 450, "The probes of a search, the line through them, the limit and the rate with its interval")
    x, y = scale(0, 170, 70, 740), scale(math.log(0.05), math.log(20), 380, 40)
    picture.rect(x(low), 40, x(high) - x(low), 340, BLUE, 0.15)
    for value in (0.1, 0.2, 0.5, 2, 5, 10):
        picture.line(70, y(math.log(value)), 740, y(math.log(value)), PALE)
        picture.text(62, y(math.log(value)) + 4, f"{value:g} ×", 12, GREY, "end")
    picture.line(70, y(0), 740, y(0), RED, 2)
    picture.text(62, y(0) + 4, "limit", 13, RED, "end", True)
    for value in range(0, 171, 20):
        picture.line(x(value), 380, x(value), 385, GREY)
        picture.text(x(value), 400, str(value), 12, GREY, "middle")
    picture.line(70, 380, 740, 380, GREY)
    picture.text(405, 420, "requests per second", 13, INK, "middle")
    picture.text(70, 26, "p99 of the wait, as a multiple of the limit", 14, bold=True)
    line = [(x(value), y(slope * math.log(value / rate))) for value in range(60, 171)]
    picture.path([point for point in line if 40 <= point[1] <= 380], GREY, 2)
    for number, (at, margin, _, _) in enumerate(probes, 1):
        height = min(max(y(margin), 46), 374)
        picture.dot(x(at), height, ORANGE, 8 if number <= 3 else 5)
        if number <= 3:
            picture.text(x(at), height + 4, str(number), 11, "#ffffff", "middle", True)
    picture.line(x(truth), 40, x(truth), 380, GREEN, 1.5, "5 4")
    picture.line(x(rate), y(0), x(rate), 380, BLUE, 2)
    picture.dot(x(rate), y(0), BLUE, 6)
    picture.text(x(85), 308, f"found: {rate:.0f} req/s", 14, BLUE, "end", True)
    picture.text(x(85), 326, f"95 % interval: {low:.0f} … {high:.0f}", 13, BLUE, "end")
    picture.text(x(85), 344, f"true: {truth:.0f} req/s", 13, GREEN, "end")
    picture.dot(78, 438, ORANGE, 6)
    picture.text(92, 443, "a probe; 1, 2, 3: the first ones", 13)
    picture.line(340, 438, 364, 438, GREY, 2)
    picture.text(370, 443, "line through the probes near the limit", 13)
    picture.save("search")


def overload(helper):
    """Waits over time below and above what the server can do."""
    n, every = 3_000, 6
    courses = []
    for load, color in ((0.9, BLUE), (1.05, RED)):
        visits = queue(4, load, n, seed=3, settle=0)
        pairs = [value for arrival, wait, service in visits for value in (arrival, arrival + wait + service)]
        is_likely = ask(helper, "growth", pairs) == ["1"]
        print(f"overload: {load} of capacity: queue grows: {is_likely}; mean wait {average([wait for _, wait, _ in visits]):.1f} s")
        courses.append((load, color, visits))
    picture = Picture(760, 340, "Wait over time at 0.9 and at 1.05 times what a server can do")
    length = max(visits[-1][0] for _, _, visits in courses)
    top = max(wait for _, _, visits in courses for _, wait, _ in visits)
    x, y = scale(0, length, 60, 740), scale(0, top, 280, 40)
    picture.text(60, 24, "Wait of the requests that arrive at this time", 14, bold=True)
    step = 10 if top < 60 else 20
    for tick in range(0, int(top) + 1, step):
        picture.line(60, y(tick), 740, y(tick), PALE)
        picture.text(52, y(tick) + 4, f"{tick} s", 12, GREY, "end")
    for tick in range(0, int(length) + 1, 100):
        picture.text(x(tick), 298, f"{tick} s", 12, GREY, "middle")
    for load, color, visits in courses:
        picture.path([(x(arrival), y(wait)) for arrival, wait, _ in visits[::every]], color, 1.5)
    picture.text(400, 318, "time since the start of the run", 13, INK, "middle")
    picture.line(76, 60, 100, 60, RED, 3)
    picture.text(106, 65, "1.05 × what the server can do: the queue grows without end", 14)
    picture.line(76, 82, 100, 82, BLUE, 3)
    picture.text(106, 87, "0.9 ×: the queue comes and goes", 14)
    picture.save("overload")


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "helper").mkdir()
        helper = build_helper(folder / "helper")
        pictures = {
            "neighbors": neighbors,
            "intervals": lambda: intervals(helper),
            "pairs": lambda: pairs(folder),
            "same-twice": lambda: same_twice(folder),
            "search": lambda: search(helper),
            "overload": lambda: overload(helper),
        }
        for name in sys.argv[1:] or pictures:
            pictures[name]()
        helper.stdin.close()
        helper.wait()


if __name__ == "__main__":
    main()
