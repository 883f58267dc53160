"""`vllm bench serve` from the Python files of vLLM's wheel: vllm_client.py FOLDER OPTION…

The client computes nothing with torch and loads no kernels, but its modules import them: they get empty stand-ins.
"""

import importlib.machinery
import sys
from unittest.mock import MagicMock

# Before the stand-ins are there: it would take them for a real torch.
import transformers.utils.import_utils
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast  # noqa: F401

transformers.utils.import_utils.is_torch_available()

NAMES = ("torch", "triton", "vllm._C", "vllm._moe_C", "vllm.platforms", "vllm.multimodal", "vllm.lora", "cloudpickle", "datasets",
         "msgspec", "PIL", "pybase64", "soundfile", "zmq")


class StandIns:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(f"{one}.") for one in NAMES):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__version__ = [], spec, "2.11.0"
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, StandIns())
sys.path.insert(0, sys.argv.pop(1))

import argparse  # noqa: E402

from vllm.benchmarks.serve import add_cli_args, main  # noqa: E402

parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
