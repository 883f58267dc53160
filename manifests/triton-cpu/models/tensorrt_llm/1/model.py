"""A stand-in for TensorRT-LLM's model: the same tensors, tokens from arithmetic instead of a network.

One loop steps all requests in flight together, once every TRITON_CPU_STEP_MS milliseconds (0: as fast as it can), and
each step gives every one of them a token, as in-flight batching does. The tokens of a prompt are always the same:
letters, beginning at one that the prompt's ids decide, so that text models have something to show.
"""

import json
import os
import threading
import time

import numpy as np
import triton_python_backend_utils as pb

FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL
FIRST_LETTER = 3 + ord("a")
LETTERS = 26


def given(request, name):
    tensor = pb.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def scalar(request, name, default, row=0):
    values = given(request, name)
    return default if values is None or values.size == 0 else values.reshape(-1)[min(row, values.size - 1)].item()


class Request:
    """One message: a row for each prompt in it."""

    def __init__(self, request):
        self.request = request
        self.sender = request.get_response_sender()
        self.streaming = bool(scalar(request, "streaming", False))
        ids = given(request, "input_ids")
        if ids is None:
            raise ValueError("input_ids is missing")
        self.rows = [Row(self, number, prompt) for number, prompt in enumerate(ids)]

    def open(self):
        return [row for row in self.rows if not row.done]

    def send(self, row, tokens):
        last = not self.open()
        self.sender.send(row.response(tokens), flags=FINAL if last else 0)

    def fail(self, message, code):
        for row in self.rows:
            row.done = True
        self.sender.send(pb.InferenceResponse(error=pb.TritonError(message, code)), flags=FINAL)


class Row:
    """One prompt of a message."""

    def __init__(self, owner, number, ids):
        request = owner.request
        self.owner, self.number = owner, number
        length = scalar(request, "input_lengths", len(ids), number)
        self.prompt = [int(token) for token in ids[:length]]
        self.limit = scalar(request, "request_output_len", 1, number)
        if self.limit < 1:
            raise ValueError(f"request_output_len is {self.limit}; at least 1 is needed")
        self.end_id = scalar(request, "end_id", -1, number)
        self.echo = not owner.streaming and not bool(scalar(request, "exclude_input_in_output", True, number))
        self.stop_words = words(given(request, "stop_words_list"), number)
        self.tokens = []
        self.done = False

    def step(self):
        letter = (sum(self.prompt) + len(self.tokens)) % LETTERS
        self.tokens.append(FIRST_LETTER + letter)
        stopped = any(self.tokens[-len(word) :] == word for word in self.stop_words)
        self.done = len(self.tokens) >= self.limit or self.tokens[-1] == self.end_id or stopped
        if self.owner.streaming:
            self.owner.send(self, self.tokens[-1:])
        elif self.done:
            self.owner.send(self, self.prompt * self.echo + self.tokens)

    def response(self, tokens):
        tensors = {
            "output_ids": np.array([[tokens]], np.int32),
            "sequence_length": np.array([[len(tokens)]], np.int32),
            "batch_index": np.array([[self.number]], np.int32),
            "sequence_index": np.zeros((1, 1), np.int32),
        }
        wanted = self.owner.request.requested_output_names()
        return pb.InferenceResponse([pb.Tensor(name, value) for name, value in tensors.items() if name in wanted])


def words(values, number):
    """[batch, 2, n]: ids in row 0, the end of each word in row 1, -1 where there is none."""
    if values is None or values.size == 0:
        return []
    ids, ends = values[min(number, len(values) - 1)]
    bounds = [0] + [int(end) for end in ends if end >= 0]
    return [[int(token) for token in ids[a:b]] for a, b in zip(bounds, bounds[1:]) if b > a]


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        self.pause = float(os.environ.get("TRITON_CPU_STEP_MS", "2")) / 1000
        self.wake = threading.Condition()
        self.flight = []
        self.leaving = False
        self.loop = threading.Thread(target=self._loop, daemon=True)
        self.loop.start()

    def execute(self, requests):
        if not self.decoupled:
            return [self._at_once(request) for request in requests]
        for request in requests:
            try:
                self._take(Request(request))
            except ValueError as error:
                answer = pb.InferenceResponse(error=pb.TritonError(str(error), pb.TritonError.INVALID_ARG))
                request.get_response_sender().send(answer, flags=FINAL)
        return None

    def _take(self, request):
        with self.wake:
            if scalar(request.request, "stop", False):
                # Early stop: a second message with the id of the first, which ends here.
                for other in self.flight:
                    if other.request.request_id() == request.request.request_id():
                        other.fail("the request was stopped", pb.TritonError.CANCELLED)
                request.sender.send(flags=FINAL)
                return
            self.flight.append(request)
            self.wake.notify()

    @staticmethod
    def _at_once(request):
        """Without decoupling there is one answer, and the batch is answered when its slowest is done."""
        try:
            whole = Whole(request)
        except ValueError as error:
            return pb.InferenceResponse(error=pb.TritonError(str(error), pb.TritonError.INVALID_ARG))
        return whole.answer()

    def _loop(self):
        due = time.monotonic()
        while True:
            with self.wake:
                while not self.flight and not self.leaving:
                    self.wake.wait()
                    due = time.monotonic()
                if self.leaving and not self.flight:
                    return
            if self.pause:
                due = max(due + self.pause, time.monotonic())
                time.sleep(max(0.0, due - time.monotonic()))
            with self.wake:
                for request in self.flight:
                    if request.open() and request.sender.is_cancelled():
                        request.fail("cancelled", pb.TritonError.CANCELLED)
                    for row in request.open():
                        row.step()
                self.flight = [request for request in self.flight if request.open()]

    def finalize(self):
        with self.wake:
            self.leaving = True
            self.wake.notify()
        self.loop.join()


class Whole:
    """A request of a model that is not decoupled: every row's tokens in one response."""

    def __init__(self, request):
        self.request = request
        self.streaming = False
        if scalar(request, "streaming", False):
            raise ValueError("streaming is only supported by a decoupled model")
        ids = given(request, "input_ids")
        if ids is None:
            raise ValueError("input_ids is missing")
        self.rows = [Row(self, number, prompt) for number, prompt in enumerate(ids)]
        self.answers = {}

    def send(self, row, tokens):
        self.answers[row.number] = tokens

    def answer(self):
        pause = float(os.environ.get("TRITON_CPU_STEP_MS", "2")) / 1000
        while any(not row.done for row in self.rows):
            time.sleep(pause)
            for row in self.rows:
                if not row.done:
                    row.step()
        lists = [self.answers[row.number] for row in self.rows]
        width = max(len(tokens) for tokens in lists)
        tensors = {
            "output_ids": np.array([[tokens + [0] * (width - len(tokens))] for tokens in lists], np.int32),
            "sequence_length": np.array([[len(tokens)] for tokens in lists], np.int32),
        }
        wanted = self.request.requested_output_names()
        return pb.InferenceResponse([pb.Tensor(name, value) for name, value in tensors.items() if name in wanted])
