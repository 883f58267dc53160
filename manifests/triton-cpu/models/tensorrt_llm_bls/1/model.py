"""Text in, text out, by calling preprocessing, tensorrt_llm and postprocessing one after the other."""

import json

import numpy as np
import triton_python_backend_utils as pb

FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL

# What the caller may say, and what the model behind calls it.
PASSED = {
    "end_id": "end_id",
    "pad_id": "pad_id",
    "stream": "streaming",
    "temperature": "temperature",
    "top_k": "runtime_top_k",
    "top_p": "runtime_top_p",
    "random_seed": "random_seed",
    "exclude_input_in_output": "exclude_input_in_output",
}


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        parameters = config.get("parameters", {})
        self.accumulate = parameters.get("accumulate_tokens", {}).get("string_value", "false") == "true"
        self.model = parameters.get("tensorrt_llm_model_name", {}).get("string_value", "tensorrt_llm")

    def execute(self, requests):
        if not self.decoupled:
            return [next(self._texts(request)) for request in requests]
        for request in requests:
            sender = request.get_response_sender()
            try:
                for response in self._texts(request):
                    sender.send(response)
                sender.send(flags=FINAL)
            except pb.TritonModelException as error:
                sender.send(pb.InferenceResponse(error=pb.TritonError(str(error))), flags=FINAL)
        return None

    def _texts(self, request):
        given = lambda name: pb.get_input_tensor_by_name(request, name)
        asked = [
            pb.Tensor("QUERY", given("text_input").as_numpy()),
            pb.Tensor("REQUEST_OUTPUT_LEN", given("max_tokens").as_numpy()),
        ]
        for name, theirs in (("stop_words", "STOP_WORDS_DICT"), ("bad_words", "BAD_WORDS_DICT")):
            if given(name) is not None:
                asked.append(pb.Tensor(theirs, given(name).as_numpy()))
        prepared = self._one("preprocessing", asked, ["INPUT_ID", "REQUEST_INPUT_LEN", "STOP_WORDS_IDS"])
        inputs = [
            pb.Tensor("input_ids", prepared["INPUT_ID"]),
            pb.Tensor("input_lengths", prepared["REQUEST_INPUT_LEN"]),
            pb.Tensor("request_output_len", given("max_tokens").as_numpy()),
        ]
        if prepared["STOP_WORDS_IDS"].size:
            inputs.append(pb.Tensor("stop_words_list", prepared["STOP_WORDS_IDS"]))
        for name, theirs in PASSED.items():
            if given(name) is not None:
                inputs.append(pb.Tensor(theirs, given(name).as_numpy()))
        so_far = None
        for tokens in self._tokens(inputs):
            so_far = tokens if so_far is None or not self.accumulate else np.concatenate([so_far, tokens], axis=2)
            shown = so_far if self.accumulate else tokens
            text = self._one(
                "postprocessing",
                [
                    pb.Tensor("TOKENS_BATCH", shown),
                    pb.Tensor("SEQUENCE_LENGTH", np.full(shown.shape[:2], shown.shape[2], np.int32)),
                ],
                ["OUTPUT"],
            )
            yield pb.InferenceResponse([pb.Tensor("text_output", text["OUTPUT"])])

    def _tokens(self, inputs):
        names = ["output_ids", "sequence_length"]
        call = pb.InferenceRequest(model_name=self.model, requested_output_names=names, inputs=inputs)
        answers = call.exec(decoupled=True) if self.decoupled else [call.exec()]
        for answer in answers:
            if answer.has_error():
                raise pb.TritonModelException(answer.error().message())
            tensors = {tensor.name(): tensor.as_numpy() for tensor in answer.output_tensors()}
            if "output_ids" in tensors:
                yield tensors["output_ids"]

    @staticmethod
    def _one(model, inputs, names):
        answer = pb.InferenceRequest(model_name=model, requested_output_names=names, inputs=inputs).exec()
        if answer.has_error():
            raise pb.TritonModelException(answer.error().message())
        return {tensor.name(): tensor.as_numpy() for tensor in answer.output_tensors()}
