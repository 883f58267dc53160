"""Text to token ids, without a tokenizer: one token for each byte of UTF-8, its value plus 3 (0 pads, 1 begins, 2 ends)."""

import numpy as np
import triton_python_backend_utils as pb

FIRST_BYTE = 3
END = 2
PAD = 0


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        queries = self._input(request, "QUERY").reshape(-1)
        rows = [[byte + FIRST_BYTE for byte in query] for query in queries]
        lengths = np.array([[len(row)] for row in rows], np.int32)
        width = max(1, int(lengths.max(initial=0)))
        ids = np.array([row + [PAD] * (width - len(row)) for row in rows], np.int32)
        batch = len(rows)

        def given_or(name, value):
            given = self._input(request, name)
            return np.full((batch, 1), value, np.int32) if given is None else given

        outputs = {
            "INPUT_ID": ids,
            "REQUEST_INPUT_LEN": lengths,
            "DECODER_INPUT_ID": np.full((batch, 1), END, np.int32),
            "REQUEST_DECODER_INPUT_LEN": np.ones((batch, 1), np.int32),
            "REQUEST_OUTPUT_LEN": self._input(request, "REQUEST_OUTPUT_LEN"),
            "STOP_WORDS_IDS": self._words(request, "STOP_WORDS_DICT", batch),
            "BAD_WORDS_IDS": self._words(request, "BAD_WORDS_DICT", batch),
            "EMBEDDING_BIAS": np.zeros((batch, 0), np.float32),
            "OUT_END_ID": given_or("END_ID", END),
            "OUT_PAD_ID": given_or("PAD_ID", PAD),
            "OUT_PROMPT_TABLE_EXTRA_IDS": np.zeros((batch, 0), np.uint64),
        }
        wanted = request.requested_output_names()
        return pb.InferenceResponse([pb.Tensor(name, value) for name, value in outputs.items() if name in wanted])

    def _words(self, request, name, batch):
        """Words as TensorRT-LLM takes them: row 0 all their ids, row 1 where each ends, padded with -1. [batch, 2, n]"""
        given = self._input(request, name)
        if given is None:
            return np.zeros((batch, 2, 0), np.int32)
        rows = []
        for words in given.reshape(batch, -1):
            ids, ends = [], []
            for word in words:
                ids += [byte + FIRST_BYTE for byte in word]
                ends.append(len(ids))
            rows.append((ids, ends))
        width = max(len(ids) for ids, _ in rows)
        pad = lambda values, filler: values + [filler] * (width - len(values))
        return np.array([[pad(ids, 0), pad(ends, -1)] for ids, ends in rows], np.int32)

    @staticmethod
    def _input(request, name):
        tensor = pb.get_input_tensor_by_name(request, name)
        return None if tensor is None else tensor.as_numpy()
