"""Prints the `vllm:` metrics that vLLM's own PrometheusStatLogger registers, from the source of an unpacked wheel, without a GPU.

    pip download --no-deps vllm==0.24.0 && unzip -q vllm-0.24.0-*.whl -d vllm-0.24.0
    python3 -m venv venv && venv/bin/pip install prometheus_client numpy
    venv/bin/python expose.py vllm-0.24.0 > exposition.txt

The modules that register and count are vLLM's. What they import of the engine and of PyTorch is replaced by stand-ins: they are not called
here. The server has the model `m`, a `max_model_len` of 2048, three speculative tokens and a LoRA adapter.
"""

import ast
import enum
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types
from unittest.mock import MagicMock

ROOT = pathlib.Path(sys.argv[1])
REAL = {
    "vllm.v1.metrics.loggers",
    "vllm.v1.metrics.stats",
    "vllm.v1.metrics.utils",
    "vllm.v1.metrics.prometheus",
    "vllm.v1.metrics.perf",
    "vllm.v1.spec_decode.metrics",
}


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        top = name.split(".")[0]
        if name in REAL:
            file = ROOT / (name.replace(".", "/") + ".py")
            return importlib.machinery.ModuleSpec(
                name, importlib.machinery.SourceFileLoader(name, str(file)), origin=str(file)
            )
        if top in {"vllm", "torch", "pydantic", "typing_extensions", "regex"}:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        # A class derives from these.
        if spec.name == "pydantic":
            module.BaseModel = type("BaseModel", (), {})
        return module

    def exec_module(self, module):
        pass


def reasons():
    """The finish reasons, as v1/engine/__init__.py has them."""
    for node in ast.parse((ROOT / "vllm/v1/engine/__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "FINISH_REASON_STRINGS":
            return ast.literal_eval(node.value)


def cache_config_labels():
    """Fields of CacheConfig: the labels of vllm:cache_config_info."""
    for node in ast.parse((ROOT / "vllm/config/cache.py").read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == "CacheConfig":
            fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
            names = [field.target.id for field in fields if "ClassVar" not in ast.unparse(field.annotation)]
            return [name for name in names if not name.startswith("_")]


sys.meta_path.insert(0, StandIns())
import vllm.envs
import vllm.v1.engine

vllm.envs.VLLM_COMPUTE_NANS_IN_LOGITS = False
FinishReason = enum.IntEnum("FinishReason", {text.upper(): at for at, text in enumerate(reasons())})
FinishReason.__str__ = lambda self: reasons()[self.value]
vllm.v1.engine.FinishReason = FinishReason

from prometheus_client import REGISTRY, generate_latest
from vllm.v1.metrics.loggers import PrometheusStatLogger

config = MagicMock()
config.model_config = types.SimpleNamespace(served_model_name="m", max_model_len=2048, is_diffusion=False)
config.observability_config = types.SimpleNamespace(show_hidden_metrics=False, kv_cache_metrics=False)
config.speculative_config = types.SimpleNamespace(num_speculative_tokens=3)
config.lora_config = types.SimpleNamespace(max_loras=1)
config.cache_config = types.SimpleNamespace(metrics_info=lambda: {name: "" for name in cache_config_labels()})
logger = PrometheusStatLogger(config)
logger.log_engine_initialized()
logger.gauge_lora_info.labels(max_lora=1, waiting_lora_adapters="", running_lora_adapters="").set(0)
for line in generate_latest(REGISTRY).decode().splitlines():
    if "vllm:" in line:
        # When it was made is another number each time.
        print(line.rsplit(" ", 1)[0] + " 0.0" if "_created{" in line else line)
