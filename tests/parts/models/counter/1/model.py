"""Counts from 1 to n, a response for each; an n below 0 is an error. A cancelled request is over at its next number."""

import json
import threading
import time

import numpy as np
import triton_python_backend_utils as pb

FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.apart = json.loads(args["model_config"])["parameters"]["final"]["string_value"] == "apart"
        self.threads = []

    def execute(self, requests):
        for request in requests:
            thread = threading.Thread(target=self.count, args=(request,))
            self.threads.append(thread)
            thread.start()
        return None

    def count(self, request):
        sender = request.get_response_sender()
        n = int(pb.get_input_tensor_by_name(request, "n").as_numpy()[0])
        pause = pb.get_input_tensor_by_name(request, "pause_ms")
        pause = 0 if pause is None else int(pause.as_numpy()[0]) / 1000
        if n < 0:
            error = pb.TritonError(f"cannot count to {n}", pb.TritonError.INVALID_ARG)
            sender.send(pb.InferenceResponse(error=error), flags=FINAL)
            return
        for i in range(1, n + 1):
            time.sleep(pause)
            if request.is_cancelled():
                error = pb.TritonError("cancelled", pb.TritonError.CANCELLED)
                sender.send(pb.InferenceResponse(error=error), flags=FINAL)
                return
            response = pb.InferenceResponse([pb.Tensor("i", np.array([i], dtype=np.int32))])
            sender.send(response, flags=FINAL if i == n and not self.apart else 0)
        if self.apart or n == 0:
            sender.send(flags=FINAL)

    def finalize(self):
        for thread in self.threads:
            thread.join()
