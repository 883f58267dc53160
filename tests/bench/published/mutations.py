"""Counts the ways to cheat or slip that `regatta mlperf check` lets pass without a word.

  mutations.py CLONE ROUND [--only WORDS] [--json FILE]

CLONE   a clone of mlcommons/inference_results_<round>, or a sparse copy of it (only the submitters of BASES are read)
ROUND   v5.1 or v6.0
REGATTA (in the environment) the program to examine [default: target/debug/regatta]

Each row of ROWS is one small edit of a published result. The program is run on the tree before and after it; a row is
silent if no finding is there that was not there before. Rows were written without a look at the checks.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Of each round: the submitter and system that rows edit, another system to take files from, and one with power.
BASES = {
    "v5.1": {"submitter": "GigaComputing", "system": "8xMI325X_2xEPYC_9575F", "other": "G894-SD1_B200-SXM-180GBx8_TRT",
             "power": ("Lenovo", "SR680a_V3_B200SXMx8_TRT")},
    "v6.0": {"submitter": "GigaComputing", "system": "8xMI355X_2xEPYC-9575F", "other": "G894-SD3-AAX7_B300-SXM-270GBx8_TRT",
             "power": None},
}
LLAMA, OSS = "llama2-70b-99", "gpt-oss-120b"

# Folders of a scenario: <role> → path below it, where each round has it (results, measurements or compliance till v5.1).
ROLES = {
    "run": ("results", "performance/run_1"),
    "accuracy": ("results", "accuracy"),
    "ranging": ("results", "performance/ranging"),
    "power": ("results", "performance/power"),
    "measured": ("measurements", ""),
    "test06": ("compliance", "TEST06"),
    "test07": ("compliance", "TEST07"),
    "test09": ("compliance", "TEST09"),
}


class Tree:
    """A copy of the submitters that rows edit; a row's files are put back after it."""

    def __init__(self, clone, round_, root):
        self.base, self.round, self.root, self.saved = BASES[round_], round_, root, {}
        submitters = [self.base["submitter"]] + ([self.base["power"][0]] if self.base["power"] else [])
        systems = [self.base["system"], self.base["other"]] + ([self.base["power"][1]] if self.base["power"] else [])
        for submitter in submitters:
            source = os.path.join(clone, "closed", submitter)
            for folder, _, files in os.walk(source):
                parts = os.path.relpath(folder, source).split(os.sep)
                if parts[0] in ("results", "measurements", "compliance") and len(parts) > 1 and parts[1] not in systems:
                    continue
                for name in files:
                    if parts[0] == "systems" and os.path.splitext(name)[0] not in systems:
                        continue
                    target = os.path.join(root, "closed", submitter, *parts, name)
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copy2(os.path.join(folder, name), target, follow_symlinks=False)

    def scenario(self, place, role):
        """`Server/run` of the first system, `other:Server/run` of the other, `power:Server/run` of the one with power."""
        system, submitter, benchmark = self.base["system"], self.base["submitter"], LLAMA
        for prefix in re.findall(r"(\S+?):", place):
            if prefix == "other":
                system = self.base["other"]
            elif prefix == "power":
                submitter, system = self.base["power"]
            else:
                benchmark = prefix
        scenario = place.split(":")[-1]
        kind, below = ROLES[role]
        kind = kind if self.round < "v6.0" else "results"
        return os.path.join(self.root, "closed", submitter, kind, system, benchmark, scenario, below)

    def path(self, place):
        """`system`, `docs/NAME`, `code/NAME`, or `[system:][benchmark:]Scenario/role/file`."""
        submitter = os.path.join(self.root, "closed", self.base["submitter"])
        if place == "system":
            return os.path.join(submitter, "systems", self.base["system"] + ".json")
        if place.startswith("docs/"):
            return os.path.join(submitter, "documentation", place[5:])
        if place.startswith("code/"):
            return os.path.join(submitter, "code", place[5:])
        if place.startswith("power-system/"):
            submitter = os.path.join(self.root, "closed", self.base["power"][0])
            return os.path.join(submitter, "measurements", self.base["power"][1], place[13:])
        scenario, role, *names = place.split("/", 2)
        folder = self.scenario(scenario, role)
        name = names[0] if names else ""
        if name == "measurements.json" and self.round < "v6.0":
            name = next(name for name in sorted(os.listdir(folder)) if name.endswith(".json"))
        return os.path.join(folder, name) if name else folder

    def save(self, path):
        if path in self.saved:
            return
        copy = None
        if os.path.lexists(path):
            copy = os.path.join(self.root + ".saved", str(len(self.saved)))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            (shutil.copytree if os.path.isdir(path) else shutil.copy2)(path, copy)
        self.saved[path] = copy

    def put_back(self):
        for path, copy in self.saved.items():
            if os.path.lexists(path):
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
            if copy:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                shutil.move(copy, path)
        self.saved = {}

    def read(self, path):
        with open(path, errors="surrogateescape", newline="") as file:
            return file.read()

    def write(self, path, text):
        self.save(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", errors="surrogateescape", newline="") as file:
            file.write(text)


def changed(old, change, decimals=None):
    """The new value: `x1.03` multiplies, `+7` adds, anything else replaces. Written as the old one was."""
    if not (isinstance(change, str) and re.fullmatch(r"[x+][-\d.e]+", change)):
        return change if isinstance(change, str) else json.dumps(change)
    number = float(old) * float(change[1:]) if change[0] == "x" else float(old) + float(change[1:])
    if decimals is not None:
        return f"{number:.{decimals}f}"
    return str(round(number)) if re.fullmatch(r"\d+", old) else f"{number:.6g}"


# Edits: each takes the tree and the rest of its row.

def detail(tree, place, keys, change):
    """The values of the detail log's keys that match."""
    path = tree.path(place + "/mlperf_log_detail.txt")
    pattern = re.compile(r'("key": "(%s)", "value": )(.*?)(, "time_ms": )' % keys)

    def replaced(match):
        old = match[3]
        new = changed(old.strip('"'), change)
        return match[1] + (f'"{new}"' if old.startswith('"') and not new.startswith('"') else new) + match[4]
    text, count = pattern.subn(replaced, tree.read(path))
    assert count, f"{place} has no {keys}"
    tree.write(path, text)


LABELS = [
    (r"result_first_token_(\d[\d.]+)_percentile_latency_ns", r"\1 percentile first token latency"),
    (r"result_time_per_output_token_(\d[\d.]+)_percentile_ns", r"\1 percentile time to output token"),
    (r"result_(\d[\d.]+)_percentile_latency_ns", r"\1 percentile latency"),
    (r"result_first_token_(min|max|mean)_latency_ns", r"\1 First Token latency"),
    (r"result_time_to_output_token_(min|max|mean)", r"\1 Time (?:to|per) Output Token"),
    (r"result_(min|max|mean)_latency_ns", r"\1 latency"),
    (r"result_(\w+)_per_sec(?:ond)?", r"\1 per second"),
    (r"effective_(\w+?)(?:_ms)?", r"\1"),
    (r"requested_server_(ttft|tpot)_latency", r"\1_latency"),
]


def both(tree, place, keys, change):
    """The same change in the detail log and the summary."""
    path = tree.path(place + "/mlperf_log_detail.txt")
    names = sorted(set(re.findall(r'"key": "(%s)"' % keys, tree.read(path))))
    detail(tree, place, keys, change)
    for name in names:
        label = next((match.expand(text) for match, text in
                      ((re.fullmatch(pattern, name), text) for pattern, text in LABELS) if match), None)
        if label:
            summary(tree, place, label.replace("completed_", "Completed ").replace("scheduled_", "Scheduled "), change)


def summary(tree, place, label, change):
    path = tree.path(place + "/mlperf_log_summary.txt")

    def replaced(match):
        old = match[2]
        decimals = len(old.split(".")[1]) if "Completed" in match[1] or "Scheduled" in match[1] else None
        return match[1] + changed(old, change, decimals).strip('"')
    text, count = re.subn(r"(?im)^(\s*%s(?: \(\w+\))?\s*: *)(\S.*?)$" % label, replaced, tree.read(path))
    assert count, f"{place} has no {label} in the summary"
    tree.write(path, text)


def sub(tree, place, pattern, text, count=0):
    path = tree.path(place)
    new, times = re.subn(pattern, text, tree.read(path), count=count)
    assert times, f"{place} has no {pattern}"
    tree.write(path, new)


def field(tree, place, name, value):
    """A field of a JSON object, as text."""
    path = tree.path(place)
    entries = json.loads(tree.read(path))
    entries[name] = value
    tree.write(path, json.dumps(entries, indent=4))


def copy(tree, source, target):
    source, target = tree.path(source), tree.path(target)
    tree.save(target)
    if os.path.isdir(source):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def remove(tree, place):
    path = tree.path(place)
    if not os.path.lexists(path):
        return
    tree.save(path)
    (shutil.rmtree if os.path.isdir(path) else os.remove)(path)


def write(tree, place, text):
    tree.write(tree.path(place), text)


def answers(tree, place, change):
    """Changes the list of answers of an accuracy log: `change(answers)` gives the new list."""
    path = tree.path(place + "/mlperf_log_accuracy.json")
    text = tree.read(path)
    if "{" not in text:
        raise AssertionError(f"{place} has no answers")
    lines = [json.loads(line.rstrip().rstrip(",")) for line in text.splitlines() if line.startswith("{") and '"seq_id"' in line
             and line.rstrip().rstrip(",").endswith("}")]
    lines = change(lines)
    tree.write(path, "[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")


def watts(tree, place, change):
    """The watts of each line of a power log, phases and all."""
    sub(tree, place, r"Watts,([\d.]+)", lambda match: f"Watts,{float(match[1]) * change:.6f}")


def with_each(**new):
    return lambda lines: [{**line, **new} for line in lines]


RUN, OFFLINE, CHAT, TEST06 = "Server/run", "Offline/run", "Interactive/run", "Server/test06/accuracy"
FAST = r"result_(?:completed_(?:samples_per_sec|tokens_per_second)|token_throughput_with_loadgen_overhead)"

ROWS = [
    # Numbers of a run
    ("Server: rates 2 % up in both logs, below the scheduled rate", "fraud", [(both, RUN, FAST, "x1.02")]),
    ("Server: scheduled rate 8 % above the target in both logs", "contradiction",
     [(both, RUN, "result_scheduled_samples_per_sec", "x1.08")]),
    ("Server: every time per output token halved in both logs", "fraud",
     [(both, RUN, "result_time_(?:per|to)_output_token_.*", "x0.5")]),
    ("Server: TTFT percentiles from the 95th on halved in both logs", "fraud",
     [(both, RUN, r"result_first_token_9[579].*|result_first_token_max_latency_ns", "x0.5")]),
    ("Server: mean TTFT tenth of what it was in both logs", "fraud",
     [(both, RUN, "result_first_token_mean_latency_ns", "x0.1")]),
    ("Server: every latency halved, TTFT and TPOT left", "fraud",
     [(both, RUN, r"result_(?:min|max|mean|\d[\d.]+_percentile)_latency_ns", "x0.5")]),
    ("Server: one digit of the summary's p90 latency", "contradiction",
     [(summary, RUN, "90.00 percentile latency", "x1.001")]),
    ("Offline: rates 3 % up, latencies 3 % down in both logs", "fraud",
     [(both, OFFLINE, "result_(?:samples|tokens)_per_second", "x1.03"),
      (both, OFFLINE, r"result_(?:min|max|mean|\d[\d.]+_percentile)_latency_ns", "x0.970874")]),
    ("Offline: tokens per second 4 % up, samples left", "fraud", [(both, OFFLINE, "result_tokens_per_second", "x1.04")]),
    ("Server: completed tokens 4 % up, samples left, in both logs", "fraud",
     [(both, RUN, "result_completed_tokens_per_second", "x1.04"),
      (detail, RUN, "result_token_throughput_with_loadgen_overhead", "x1.04")]),
    ("Server: queries 73,728 → 98,304 everywhere in the detail log", "fraud",
     [(detail, RUN, "(?:generated|result)_query_count", "+24576")]),
    ("Server: over-latency count of a VALID run above all queries", "contradiction",
     [(detail, RUN, "result_overlatency_query_count", "x3")]),
    ("Server: the power window of a ten-minute run is three minutes", "contradiction",
     [(sub, RUN + "/mlperf_log_detail.txt", r'(?s)("key": "power_begin", "value": ")(\S+ \d+:)(\d+)(.*?"power_end", "value": ")[^"]*',
       lambda match: match[1] + match[2] + match[3] + match[4] + f"{match[2]}{(int(match[3]) + 3) % 60:02}:01.000")]),
    ("Server: a second, better result line below the first", "fraud",
     [(sub, RUN + "/mlperf_log_detail.txt", r'(:::MLLOG \{"key": "result_completed_tokens_per_second", "value": )([\d.]+)(.*\n)',
       lambda match: match[0] + match[1] + f"{float(match[2]) * 1.2:.1f}" + match[3])]),
    ("Interactive: a Server run's limits in the log", "fraud",
     [(both, CHAT, "requested_server_ttft_latency", "2000000000"), (both, CHAT, "requested_server_tpot_latency", "200000000")]),
    # Settings of a run
    ("Server: minimum duration one minute in the log", "fraud",
     [(both, RUN, "effective_min_duration_ms", "60000"), (detail, RUN, "(?:requested_min|effective_target)_duration_ms", "60000")]),
    ("Server: a maximum duration of ten minutes in the log", "fraud",
     [(both, RUN, "effective_max_duration_ms", "600000"), (detail, RUN, "requested_max_duration_ms", "600000")]),
    ("Server: the same sample is issued again and again", "fraud",
     [(both, RUN, "effective_performance_issue_same", "true"), (detail, RUN, "requested_performance_issue_same", "true")]),
    ("Server: LoadGen's permutation is off", "fraud",
     [(detail, RUN, "(?:requested|effective)_sample_concatenate_permutation", "false")]),
    ("Server: queries are coalesced", "fraud", [(detail, RUN, "requested_server_coalesce_queries", "true")]),
    ("Server: the run's percentile is 90", "fraud",
     [(detail, RUN, "(?:requested_server|effective)_target_latency_percentile", "0.9")]),
    ("Server: the loaded samples repeat one index", "fraud",
     [(sub, RUN + "/mlperf_log_detail.txt", r'("key": "loaded_qsl_set", "value": \[)(\d+,)(?:\d+,){1000}',
       lambda match: match[1] + match[2] * 1001)]),
    ("Server: half of the samples are loaded", "fraud",
     [(sub, RUN + "/mlperf_log_detail.txt", r'("key": "loaded_qsl_set", "value": \[)(?:\d+,){3000}', r"\1")]),
    ("Server: the data set has fewer samples", "contradiction",
     [(detail, RUN, "qsl_reported_(?:total|performance)_count", "x0.5")]),
    ("Server: the target of the log is not the one in use", "contradiction",
     [(detail, RUN, "requested_server_target_qps", "x0.5")]),
    ("Server: samples are logged in a performance run", "contradiction",
     [(both, RUN, "effective_accuracy_log_probability", "0.5"), (detail, RUN, "requested_accuracy_log_probability", "0.5")]),
    # Where a log is from
    ("Server: lines of two processes", "fraud",
     [(sub, RUN + "/mlperf_log_detail.txt", r'("key": "(?:result|early)_.*"pid": )\d+', r"\g<1>4242")]),
    ("Server: lines of the result are timed before the run's end", "fraud",
     [(sub, RUN + "/mlperf_log_detail.txt", r'("key": "result_.*"time_ms": )[\d.]+', r"\g<1>120000.5")]),
    ("Server: the test's date is three months after its power window", "contradiction",
     [(detail, RUN, "test_datetime", "2026-12-24T10:00:00Z")]),
    ("Server: LoadGen was built after the test", "contradiction",
     [(detail, RUN, "loadgen_build_date_(?:utc|local)", "2027-01-01T00:00:00.000000")]),
    ("Server: LoadGen has uncommitted changes", "fraud",
     [(detail, RUN, "loadgen_git_status_message", " M results.cc")]),
    ("Server: LoadGen's loadgen.cc is another", "fraud",
     [(sub, RUN + "/mlperf_log_detail.txt", r'("/loadgen.cc":")[0-9a-f]{8}', r"\g<1>deadbeef")]),
    ("Server: the commit of the version is not the newest of the log", "contradiction",
     [(sub, RUN + "/mlperf_log_detail.txt", r'("loadgen_git_log_message", "value": ")[0-9a-f]{12}', r"\g<1>123456789abc")]),
    ("Server: another system's run", "fraud",
     [(copy, "other:Server/run", RUN)]),
    ("Server: run and accuracy run name different systems under test", "contradiction",
     [(detail, "Server/accuracy", "sut_name", "TensorRT-LLM"), ]),
    ("Server: the accuracy run is of another data set's name", "contradiction",
     [(detail, "Server/accuracy", "qsl_name", "CNN_eval")]),
    ("Server: the summary is cut before its parameters", "contradiction",
     [(sub, RUN + "/mlperf_log_summary.txt", r"(?s)=+\nTest Parameters Used.*", "")]),
    ("Server: an error line in the detail log, none counted", "contradiction",
     [(sub, RUN + "/mlperf_log_detail.txt", r'(:::MLLOG \{"key": "generated_query_duration".*\n)',
       lambda match: match[0] + match[0].replace("generated_query_duration", "error_runtime").replace(
           '"is_error": false', '"is_error": true'))]),
    # Accuracy
    ("accuracy of the Server run is Offline's, log and text", "fraud",
     [(copy, "Offline/accuracy/accuracy.txt", "Server/accuracy/accuracy.txt"),
      (copy, "Offline/accuracy/mlperf_log_accuracy.json", "Server/accuracy/mlperf_log_accuracy.json")]),
    ("ROUGE-1 one point up", "fraud", [(sub, "Server/accuracy/accuracy.txt", r"('rouge1': )4\d", r"\g<1>47")]),
    ("ROUGE-L's sum below ROUGE-L", "contradiction", [(sub, "Server/accuracy/accuracy.txt", r"('rougeLsum': )\d+", r"\g<1>21")]),
    ("tokens per sample that are not tokens over samples", "contradiction",
     [(sub, "Server/accuracy/accuracy.txt", r"('tokens_per_sample': )\d+", r"\g<1>310")]),
    ("characters and tokens that do not go together", "contradiction",
     [(sub, "Server/accuracy/accuracy.txt", r"('gen_len': )\d", r"\g<1>9")]),
    ("accuracy text evaluated twice, the better first", "fraud",
     [(sub, "Server/accuracy/accuracy.txt", r"(\{'rouge1': )4\d(.*\n)", lambda match: match[1] + "46" + match[2] + match[0])]),
    ("accuracy: answers whose count is not their length", "contradiction",
     [(answers, "Server/accuracy", with_each(token_count=300))]),
    ("accuracy: the same answer to every question", "fraud",
     [(answers, "Server/accuracy", lambda lines: [{**line, "data": lines[0]["data"]} for line in lines])]),
    ("accuracy: a question answered twice", "contradiction",
     [(answers, "Server/accuracy", lambda lines: [{**line, "qsl_idx": lines[0]["qsl_idx"]} for line in lines])]),
    ("accuracy run in performance mode with a log of answers", "fraud",
     [(detail, "Server/accuracy", "(?:requested|effective)_test_mode", "PerformanceOnly")]),
    ("accuracy run of 1,000 questions", "fraud",
     [(detail, "Server/accuracy", "generated_query_count", "1000")]),
    ("accuracy run a year before the performance run", "contradiction",
     [(detail, "Server/accuracy", "test_datetime", "2025-06-20T10:00:00Z"), ]),
    # Audits
    ("TEST06 of five answers", "fraud", [(answers, TEST06, lambda lines: lines[:5])]),
    ("TEST06 is another scenario's", "fraud", [(copy, "Offline/test06", "Server/test06")]),
    ("TEST06's answers are another system's", "fraud",
     [(copy, "other:Server/test06/accuracy", TEST06)]),
    ("TEST06: every answer begins with the same token", "fraud",
     [(answers, TEST06, lambda lines: [{**line, "data": "C2010000" + line["data"][8:], "token_data": "C2010000"} for line in lines])]),
    ("TEST06: answers end in two end tokens", "fraud",
     [(answers, TEST06, lambda lines: [{**line, "data": line["data"] + "02000000", "token_count": line["token_count"] + 1}
                                       for line in lines])]),
    ("TEST06: answers cut to 16 tokens", "fraud",
     [(answers, TEST06, lambda lines: [{**line, "data": line["data"][:128], "token_count": 16} for line in lines])]),
    ("TEST06's text passes and fails at once", "contradiction",
     [(sub, "Server/test06/verify_accuracy.txt", "(EOS check pass: True)", r"\1\nEOS check pass: False")]),
    # user.conf, measurements, README
    ("user.conf: half of the run's rate", "contradiction",
     [(sub, "Server/measured/user.conf", r"(llama2-70b\.Server\.target_qps = )([\d.]+)",
       lambda match: match[1] + str(float(match[2]) / 2))]),
    ("user.conf: one minute", "contradiction",
     [(sub, "Server/measured/user.conf", r"(llama2-70b\.Server\.min_duration = )\d+", r"\g<1>60000")]),
    ("user.conf: seeds of its own", "fraud",
     [(sub, "Server/measured/user.conf", r"\A", "*.*.qsl_rng_seed = 7\n*.*.sample_index_rng_seed = 7\n")]),
    ("user.conf: the benchmark's keys are another model's", "contradiction",
     [(sub, "Server/measured/user.conf", r"llama2-70b", "mixtral-8x7b")]),
    ("mlperf.conf of the folder has longer limits", "fraud",
     [(sub, "Server/measured/mlperf.conf", r"(llama2-70b\.Server\.t[tp][fo]t_latency = )\d+", r"\g<1>9000")]),
    ("weights: none transformed, 8 bits", "contradiction",
     [(field, "Server/measured/measurements.json", "weight_transformations", "none")]),
    ("weights: 16 bits in Server, the others quantized", "contradiction",
     [(field, "Server/measured/measurements.json", "weight_data_types", "fp16")]),
    ("weights: those of a smaller model", "fraud",
     [(field, "Server/measured/measurements.json", "starting_weights_filename", "meta-llama/Llama-2-7b-chat-hf")]),
    ("retraining: said in a sentence", "fraud",
     [(field, "Server/measured/measurements.json", "retraining", "Fine-tuned for two epochs on OpenOrca")]),
    ("README of another benchmark", "contradiction",
     [(sub, "Server/measured/README.md", r"(?i)llama2[-_]70b", "mixtral-8x7b")]),
    ("README of one line", "style", [(write, "Server/measured/README.md", "TODO\n")]),
    # Systems
    ("system: four of the eight accelerators", "fraud", [(field, "system", "accelerators_per_node", 4)]),
    ("system: two nodes of a one-node name", "contradiction", [(field, "system", "number_of_nodes", 2)]),
    ("system: another generation's accelerator", "fraud", [(field, "system", "accelerator_model_name", "AMD Instinct MI210 64GB")]),
    ("system: memory of another accelerator", "contradiction", [(field, "system", "accelerator_memory_capacity", "80 GB")]),
    ("system: accelerators without a number of them", "contradiction", [(field, "system", "accelerators_per_node", 0)]),
    ("system: the host has no processor", "style", [(field, "system", "host_processors_per_node", 0)]),
    ("system: status is research", "contradiction", [(field, "system", "status", "rdi")]),
    ("system: memory in words", "style", [(field, "system", "host_memory_capacity", "enough")]),
    ("system: software that no release has", "style", [(field, "system", "framework", "internal build")]),
    ("system: an edge system with 8 accelerators", "contradiction", [(field, "system", "system_type", "edge")]),
    ("system: of another submitter", "contradiction", [(field, "system", "submitter", "Gigabyte")]),
    ("system: said to be open", "contradiction", [(field, "system", "division", "open")]),
    ("calibration.md is a line", "style", [(write, "docs/calibration.md", "See the vendor.\n")]),
    ("benchmark's code is empty", "contradiction",
     [(remove, "code/llama2-70b"), (remove, "code/llama2-70b-99"), (remove, "code/llama2-70b-99.9")]),
]

# gpt-oss-120b
O7, O9, OACC = (f"{OSS}:Server/{role}" for role in ("test07", "test09", "accuracy"))
ROWS_V60 = [
    ("gpt-oss: the score for the checker is not the final score", "fraud",
     [(sub, OACC + "/accuracy.txt", r"('exact_match': )\d+\.\d+", r"\g<1>84.9")]),
    ("gpt-oss: right answers of one set raised, the sum left", "fraud",
     [(sub, OACC + "/accuracy.txt", r"(aime25 +)\d{3}", r"\g<1>231")]),
    ("gpt-oss: TEST07 is Offline's", "fraud", [(copy, f"{OSS}:Offline/test07", O7)]),
    ("gpt-oss: TEST07 with a lower threshold", "fraud",
     [(sub, O7 + "/verify_accuracy.txt", r"(Accuracy threshold: )[\d.]+", r"\g<1>50.0")]),
    ("gpt-oss: TEST07 of 990 answers in accuracy mode", "fraud",
     [(detail, O7 + "/performance/run_1", "(?:requested|effective)_test_mode", "AccuracyOnly")]),
    ("gpt-oss: TEST07's copy of the log beside is another", "contradiction",
     [(detail, O7, "(?:requested|effective)_test_mode", "AccuracyOnly")]),
    ("gpt-oss: TEST07's score is not its fraction", "fraud",
     [(sub, O7 + "/verify_accuracy.txt", r"619", "590")]),
    ("gpt-oss: TEST09's mean above its longest answer", "contradiction",
     [(sub, O9 + "/verify_output_len.txt", r"(Max output tokens: )\d+", r"\g<1>1200")]),
    ("gpt-oss: TEST09's mean moved into its bounds", "fraud",
     [(sub, O9 + "/verify_output_len.txt", r"(Mean output tokens: )[\d.]+", r"\g<1>1290.10")]),
    ("gpt-oss: TEST09 of 100 answers", "fraud",
     [(sub, O9 + "/verify_output_len.txt", r"(Total samples: )\d+", r"\g<1>100")]),
    ("gpt-oss: tokens per second of the run 10 % up, samples left", "fraud",
     [(both, f"{OSS}:Server/run", "result_completed_tokens_per_second", "x1.03"),
      (detail, f"{OSS}:Server/run", "result_token_throughput_with_loadgen_overhead", "x1.03")]),
]

POWER = "power:Server/power"
ROWS_POWER = [
    ("power: a third fewer watts in the run's log", "fraud", [(watts, "power:Server/run/spl.txt", 0.67)]),
    ("power: ranging's log in the run's place", "fraud", [(copy, "power:Server/ranging/spl.txt", "power:Server/run/spl.txt")]),
    ("power: five minutes are cut out of the log", "fraud",
     [(sub, "power:Server/run/spl.txt", r"(?:Time,.*\n){300}(?=Time,07-28-2025 04:4)", "", 1)]),
    ("power: the mean watts of the server's record lowered", "fraud",
     [(sub, POWER + "/server.json", r"Watts,9606\.", "Watts,7606.")]),
    ("power: uncertainty above one per cent", "fraud",
     [(sub, POWER + "/server.json", r"Uncertainty,0\.006038", "Uncertainty,0.036038")]),
    ("power: client and server of two sessions", "fraud",
     [(sub, POWER + "/client.json", "2025-07-28_03-30-24", "2025-07-29_03-30-24")]),
    ("power: another source of the client", "fraud",
     [(sub, POWER + "/client.json", r'("lib/client.py": ")[0-9a-f]{6}', r"\g<1>badbad")]),
    ("power: clocks half an hour apart", "contradiction",
     [(sub, POWER + "/client.json", r'("reply_time": 17536)7', r"\g<1>9")]),
    ("power: no word on the power settings", "style", [(write, "power-system/power_settings.txt", "")]),
    ("power: two analyzers where the log has one device", "contradiction",
     [(sub, POWER + "/server.json", r'("device_type": )48', r"\g<1>8")]),
]


def findings(program, root, round_):
    """The findings of the program, as (weight, check, place, text)."""
    run = subprocess.run([program, "mlperf", "check", root, "--round", round_, "--json"], capture_output=True, text=True)
    try:
        report = json.loads(run.stdout)["examined"]
    except (ValueError, KeyError) as error:
        raise SystemExit(f"{program} ended with {run.returncode}: {run.stderr[-2000:]}") from error
    return {(entry["weight"], entry["check"], entry["place"], entry["what"]) for entry in report["findings"]}


def main(clone, round_, *options):
    options = dict(zip(options[::2], options[1::2]))
    program = os.path.abspath(os.environ.get("REGATTA", "target/debug/regatta"))
    rows = ROWS + (ROWS_V60 if round_ >= "v6.0" else []) + (ROWS_POWER if BASES[round_]["power"] else [])
    rows = [row for row in rows if re.search(options.get("--only", ""), row[0])]
    silent, told = [], []
    with tempfile.TemporaryDirectory() as work:
        tree = Tree(clone, round_, os.path.join(work, "tree"))
        before = findings(program, tree.root, round_)
        for name, kind, edits in rows:
            try:
                for edit, *arguments in edits:
                    edit(tree, *arguments)
                new = findings(program, tree.root, round_) - before
            except (AssertionError, FileNotFoundError, StopIteration) as error:
                print(f"not made    {kind:13} {name}: {error}")
                new = None
            finally:
                tree.put_back()
            if new is not None:
                (told if new else silent).append({"row": name, "kind": kind, "findings": sorted(new)})
                checks = ", ".join(sorted({f"{check} ({weight})" for weight, check, _, _ in new}))
                print(f"{'told' if new else 'SILENT':11} {kind:13} {name}: {checks}", flush=True)
    count = {kind: [sum(entry["kind"] == kind for entry in part) for part in (silent, told)]
             for kind in ("fraud", "contradiction", "style")}
    print(f"{round_}: {len(silent)} of {len(silent) + len(told)} silent; silent and told by kind: {count}")
    if "--json" in options:
        with open(options["--json"], "w") as file:
            json.dump({"round": round_, "silent": silent, "told": told}, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
