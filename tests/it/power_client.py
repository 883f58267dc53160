#!/usr/bin/env python3
"""A stand-in for the client of mlcommons/power-dev and all that is behind it: its options, its order of events and its
files are those of `ptd_client_server/lib/client.py`; the meter has 4,000 W."""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

parser = argparse.ArgumentParser(allow_abbrev=False)
for short, name in [("-a", "--addr"), ("-w", "--run-workload"), ("-L", "--loadgen-logs"), ("-o", "--output"), ("-n", "--ntp")]:
    parser.add_argument(short, name, required=True)
parser.add_argument("-p", "--port", type=int, default=4950)
parser.add_argument("-l", "--label", default="")
args = parser.parse_args()

logs, output = (os.path.abspath(path) for path in (args.loadgen_logs, args.output))
if logs == os.path.commonpath([logs, output]):
    sys.exit("OUTDIR should not be the INDIR subdirectory")
if os.environ.get("NO_NTP"):
    # As the client ends without a clock: with exit code 0.
    sys.exit(0)
session = pathlib.Path(output, "2026-11-29_12-00-00")
session.mkdir()
(session / "power").mkdir()
phases = {"ranging": [], "testing": []}


def times(detail):
    text = detail.read_text()
    stamps = [re.search(rf'"{key}", "value": "([^"]+)"', text) for key in ("power_begin", "power_end")]
    return [datetime.datetime.strptime(stamp.group(1), "%m-%d-%Y %H:%M:%S.%f") for stamp in stamps]


def phase(mode):
    phases[mode].append([time.time(), time.monotonic()])


for mode, name in [("ranging", "ranging"), ("testing", "run_1")]:
    phase(mode)
    phase(mode)
    subprocess.run(args.run_workload, shell=True, check=True)
    phase(mode)
    phase(mode)
    found = [path for path in pathlib.Path(logs).rglob("mlperf_log_detail.txt")]
    utc = datetime.timezone.utc
    found = [p for p in found if times(p)[0].replace(tzinfo=utc).timestamp() > phases[mode][1][0]]
    if not found:
        sys.exit(f"Expected {logs!r} to be a directory containing loadgen logs, but it is not")
    (session / name).mkdir()
    for file in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"]:
        shutil.copy(found[0].parent / file, session / name)
    begin, end = times(session / name / "mlperf_log_detail.txt")
    step = (end - begin) / 8
    with open(session / name / "spl.txt", "w") as samples:
        for count in range(1, 8):
            at = (begin + count * step).strftime("%m-%d-%Y %H:%M:%S.%f")[:-3]
            print(f"Time,{at},Watts,4000.0,Volts,230.0,Amps,17.7463,PF,0.98,Mark,x_{mode}", file=samples)

for file in ["client.log", "server.log", "ptd_logs.txt"]:
    (session / "power" / file).write_text(f"measured by {args.addr}:{args.port}, the clock is {args.ntp}'s\n")
files = [path for path in session.rglob("*") if path.is_file()]
results = {str(path.relative_to(session)): hashlib.sha1(path.read_bytes()).hexdigest() for path in files}
record = {
    "version": "1.0", "timezone": 0, "modules": {}, "sources": {}, "messages": [], "session_name": session.name,
    "uuid": {"client": "56a4d881-4d7c-4a84-a7b8-c40515ad068d", "server": "0b65afba-71db-488c-adae-d14390fa5647"},
    "results": results, "phases": phases,
}
for file in ["client.json", "server.json"]:
    (session / "power" / file).write_text(json.dumps(record, indent=4))
(session / "run_1" / "ptd_out.txt").write_text("of newer servers, and no part of a submission\n")
