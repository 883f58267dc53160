"""vLLM's engine behind Triton, with the tensors of TensorRT-LLM's model (token ids) or of Triton's vLLM backend (text).

    requests ─Triton─→ execute() ─a line each─→ engine.py (vLLM) ─a line for each step of the engine─→ _listen() ─→ responses

The engine has a process and a Python of its own, which the file `python` names. Triton's stub embeds a Python that wants an
older NumPy than vLLM does, and what the stub spends on responses is not taken from the engine's event loop.
VLLM_ENGINE_ARGS is a JSON object with the arguments of `vllm.AsyncEngineArgs`.
"""

import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb

FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL
# How long Triton waits for what the engine has in flight when the server is stopped, and how often it looks for clients that left.
STOP_SECONDS, LOOK_SECONDS = 20, 5


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        interface = TokenIds if any(tensor["name"] == "input_ids" for tensor in config["input"]) else Text
        engine_args = json.loads(os.environ.get("VLLM_ENGINE_ARGS", "{}"))
        self.interface = interface
        self.lock = threading.Lock()
        self.flight = {}
        self.number = 0
        self.failure = None
        self.leaving = threading.Event()

        ours, theirs = socket.socketpair()
        python = Path(__file__).with_name("python").read_text().strip()
        engine = str(Path(__file__).with_name("engine.py"))
        words = [python, engine, str(theirs.fileno()), json.dumps(engine_args)]
        self.process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self.socket = ours
        self.lines = ours.makefile("r", encoding="utf-8")
        first = self.lines.readline()
        if not first:
            raise pb.TritonModelException(f"vLLM did not start ({self._ended()}); its lines are above in the server's log")
        pb.Logger.log_info(f"vLLM {json.loads(first)['version']} is ready, process {self.process.pid}")
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._look_for_clients_that_left, daemon=True).start()

    def execute(self, requests):
        lines = []
        for request in requests:
            sender = request.get_response_sender()
            try:
                if self.failure:
                    raise ValueError(self.failure)
                answer = self.interface(request, sender)
            except ValueError as error:
                sender.send(pb.InferenceResponse(error=pb.TritonError(str(error), pb.TritonError.INVALID_ARG)), flags=FINAL)
                continue
            with self.lock:
                self.number += 1
                self.flight[self.number] = answer
                lines.append(json.dumps([self.number, answer.prompt, answer.sampling, answer.streaming]))
        self._write(lines)
        return None

    def _write(self, lines):
        if not lines:
            return
        try:
            self.socket.sendall(("\n".join(lines) + "\n").encode())
        except OSError:
            # The engine has ended; `_listen` sees it, too, and answers all that is in flight.
            pass

    def _listen(self):
        """Each line has what one step of the engine gave: [number, token ids or text, 1 if it is the last, error or null]."""
        for line in self.lines:
            for number, piece, last, error in json.loads(line):
                with self.lock:
                    answer = self.flight.pop(number, None) if last else self.flight.get(number)
                if answer:
                    answer.send(piece, last, error)
        self._fail_all()

    def _fail_all(self):
        if self.leaving.is_set():
            return
        with self.lock:
            self.failure = f"vLLM has ended ({self._ended()}); its last lines are in the server's log"
            left, self.flight = list(self.flight.values()), {}
        for answer in left:
            answer.send(None, True, self.failure)

    def _ended(self):
        code = self.process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _look_for_clients_that_left(self):
        while not self.leaving.wait(LOOK_SECONDS):
            with self.lock:
                flight = list(self.flight.items())
            self._write([json.dumps([number]) for number, answer in flight if answer.is_cancelled()])

    def finalize(self):
        # Requests in flight are over by now: Triton waits for them. The engine ends when its socket closes.
        self.leaving.set()
        self.socket.shutdown(socket.SHUT_WR)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def scalar(request, name, default):
    tensor = pb.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().reshape(-1)[0].item()


class Answer:
    """A request in flight. The engine's pieces are answered one by one where it streams, and as one response otherwise."""

    def __init__(self, request, sender):
        self.sender = sender
        self.wanted = request.requested_output_names()
        self.lock = threading.Lock()
        self.has_ended = False

    def is_cancelled(self):
        # A sender that is queried after its final response ends the whole server with a segmentation fault.
        with self.lock:
            return not self.has_ended and self.sender.is_cancelled()

    def send(self, piece, last, error):
        with self.lock:
            self.has_ended = bool(last)
            self._send(piece, FINAL if last else 0, error)

    def _send(self, piece, flags, error):
        if error:
            code = pb.TritonError.CANCELLED if error == "cancelled" else pb.TritonError.INTERNAL
            self.sender.send(pb.InferenceResponse(error=pb.TritonError(error, code)), flags=flags)
        else:
            tensors = [pb.Tensor(name, value) for name, value in self.tensors(piece).items() if name in self.wanted]
            self.sender.send(pb.InferenceResponse(tensors), flags=flags)


class TokenIds(Answer):
    """TensorRT-LLM's model: input_ids → output_ids."""

    SAMPLING = {
        "temperature": "temperature",
        "runtime_top_k": "top_k",
        "runtime_top_p": "top_p",
        "min_length": "min_tokens",
        "repetition_penalty": "repetition_penalty",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "random_seed": "seed",
    }

    def __init__(self, request, sender):
        super().__init__(request, sender)
        self.streaming = bool(scalar(request, "streaming", False))
        ids = pb.get_input_tensor_by_name(request, "input_ids").as_numpy()
        if len(ids) != 1:
            raise ValueError(f"input_ids has {len(ids)} prompts; one for each request is taken")
        self.prompt = ids[0, : scalar(request, "input_lengths", ids.shape[1])].tolist()
        self.sampling = {"max_tokens": scalar(request, "request_output_len", 16), "detokenize": False}
        for tensor, name in self.SAMPLING.items():
            value = scalar(request, tensor, None)
            if value is not None:
                self.sampling[name] = value
        # vLLM takes the model's own end token; another one ends the answer in its place, and -1 stands for none.
        end_id = scalar(request, "end_id", None)
        if end_id is not None:
            self.sampling["ignore_eos"] = True
            if end_id >= 0:
                self.sampling["stop_token_ids"] = [end_id]

    def tensors(self, ids):
        return {
            "output_ids": np.array([[ids]], np.int32),
            "sequence_length": np.array([[len(ids)]], np.int32),
        }


class Text(Answer):
    """Triton's vLLM backend: text_input → text_output, with vLLM's sampling parameters as one JSON text."""

    def __init__(self, request, sender):
        super().__init__(request, sender)
        self.streaming = bool(scalar(request, "stream", False))
        self.prompt = pb.get_input_tensor_by_name(request, "text_input").as_numpy().reshape(-1)[0].decode()
        self.echo = "" if scalar(request, "exclude_input_in_output", self.streaming) else self.prompt
        sampling = scalar_text(request, "sampling_parameters")
        self.sampling = json.loads(sampling) if sampling else {}

    def tensors(self, text):
        return {"text_output": np.array([self.echo + text], np.object_)}


def scalar_text(request, name):
    tensor = pb.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy().reshape(-1)[0].decode()
