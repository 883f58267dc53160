"""Gives every input back as the output of the same name."""

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb.InferenceResponse([pb.Tensor(tensor.name(), tensor.as_numpy()) for tensor in request.inputs()])
            for request in requests
        ]
