"""Regatta from Python: run a benchmark, and read results into pandas.

    import regatta

    run = regatta.bench("openai://localhost:8000", rate=5, requests=500)
    print(run.verdict, run.metrics.loc["ttft", "p99"])
    run = regatta.load("measured")

The program does all the work; this module calls it and reads its files.
"""

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["Error", "Run", "bench", "load", "program"]


class Error(RuntimeError):
    """A command ended without a result. The text is what it printed; `code` is its exit code."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


def program():
    """The path of the program: next to this Python, else in PATH."""
    name = "regatta"
    beside = (Path(sysconfig.get_path("scripts", scheme)) / name for scheme in sysconfig.get_scheme_names())
    path = next((str(path) for path in beside if os.access(path, os.X_OK)), None) or shutil.which(name)
    if path is None:
        raise Error("the program `regatta` is neither next to this Python nor in PATH")
    return path


@dataclass(frozen=True)
class Run:
    """A result in a folder: of one measurement, or of a sweep."""

    folder: Path

    @cached_property
    def result(self):
        """All of `result.json`, or `sweep.json` of a sweep."""
        name = "sweep.json" if self.is_sweep else "result.json"
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    @property
    def is_sweep(self):
        return (self.folder / "sweep.json").is_file()

    @property
    def verdict(self):
        """`valid`, `valid_with_warnings`, `limit_missed`, `overloaded`, …; a sweep has one for each point."""
        return self.result.get("verdict")

    @cached_property
    def metrics(self):
        """A row for each latency metric: mean, p50, … in `unit`. Of a sweep also for each point (`point`, `metric`)."""
        import pandas

        def table(latency):
            return pandas.DataFrame.from_dict({name: values for name, values in latency.items() if values}, orient="index")

        if not self.is_sweep:
            return table(self.result["latency"]).rename_axis("metric")
        tables = {name: table(run.result["latency"]) for name, run in self.runs.items()}
        return pandas.concat(tables, names=["point", "metric"])

    @cached_property
    def requests(self):
        """A row for each request: times in ns from the start, tokens, how it ended. Of a sweep with `point`."""
        import pandas

        if not self.is_sweep:
            return pandas.read_json(self.folder / "requests.jsonl", lines=True, dtype={"id": str})
        return pandas.concat({name: run.requests for name, run in self.runs.items()}, names=["point", None])

    @cached_property
    def points(self):
        """A row for each point of a sweep. Names of nested values have dots: `ttft.p99.value`."""
        import pandas

        return pandas.json_normalize(self.result["points"] if self.is_sweep else [])

    @cached_property
    def runs(self):
        """The measurement of each point of a sweep, by the name of its folder."""
        folders = (Path(self.folder) / "points").glob("*/result.json")
        return {path.parent.name: Run(path.parent) for path in sorted(folders)}


def load(folder):
    """The result in a folder that `regatta bench --out`, a `bench` stage or `regatta import` wrote."""
    run = Run(Path(folder))
    if not run.is_sweep and not (run.folder / "result.json").is_file():
        raise Error(f"{folder} has neither result.json nor sweep.json")
    return run


def bench(*target, out=None, **options):
    """Runs `regatta bench TARGET` and loads its result: `rate=5` is `--rate 5`, `c="1..64"` is `-c 1..64`.

    `True` gives an option without a value, a list repeats it. `out` is the folder of the result, by default a new one
    below the folder for temporary files. A benchmark that is not VALID has a result, too: look at `verdict`.
    """
    folder = Path(out if out is not None else Path(tempfile.mkdtemp(prefix="regatta-")) / "result")
    command = [program(), "bench", *map(str, target), "--out", str(folder)]
    for name, values in options.items():
        option = f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"
        for value in values if isinstance(values, (list, tuple)) else [values]:
            if value is not None and value is not False:
                command += [option] if value is True else [option, str(value)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    # 3, 4 and 5 are verdicts.
    if ended.returncode not in (0, 3, 4, 5):
        raise Error(ended.stdout.strip(), ended.returncode)
    return load(folder)
