"""Token ids to text: the bytes that preprocessing made tokens of. Ids that are no byte are shown as `?`."""

import numpy as np
import triton_python_backend_utils as pb

FIRST_BYTE = 3
END = 2


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    @staticmethod
    def _answer(request):
        tokens = pb.get_input_tensor_by_name(request, "TOKENS_BATCH").as_numpy()
        lengths = pb.get_input_tensor_by_name(request, "SEQUENCE_LENGTH").as_numpy()
        # [batch, beams, n] and [batch, beams]
        texts = [
            [text(row[: int(length)]) for row, length in zip(beams, counts)] for beams, counts in zip(tokens, lengths)
        ]
        return pb.InferenceResponse([pb.Tensor("OUTPUT", np.array(texts, dtype=object))])


def text(ids):
    return bytes(
        (int(token) - FIRST_BYTE if 0 <= int(token) - FIRST_BYTE < 256 else ord("?")) for token in ids if token != END
    )
