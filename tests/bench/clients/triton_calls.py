"""Calls of tritonclient and the errors that it must raise: triton_calls.py HTTP GRPC STREAMING_GRPC"""

import queue
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

calls = errors = 0


def check(condition, what):
    global calls
    calls += 1
    if not condition:
        sys.exit(f"wrong: {what}")


def raises(what, text, call):
    global errors
    try:
        call()
    except InferenceServerException as error:
        if text not in error.message():
            sys.exit(f"another error: {what}: {error.message()}")
        errors += 1
    else:
        sys.exit(f"no error: {what}")


def inputs(module, is_streamed):
    values = [("text_input", "BYTES", np.array([["hello world"]], dtype=object)), ("max_tokens", "INT32", np.array([[8]], dtype=np.int32)),
              ("stream", "BOOL", np.array([[is_streamed]]))]
    made = []
    for name, kind, value in values:
        made.append(module.InferInput(name, value.shape, kind))
        made[-1].set_data_from_numpy(value)
    return made


for module, address in ((tritonclient.http, sys.argv[1]), (tritonclient.grpc, sys.argv[2])):
    client = module.InferenceServerClient(address)
    check(client.is_server_live() and client.is_server_ready() and client.is_model_ready("ensemble"), "health")
    check(client.get_server_metadata() and client.get_model_metadata("ensemble") and client.get_model_config("ensemble"), "metadata")
    check(client.get_model_repository_index(), "the index")
    check(client.infer("ensemble", inputs(module, False)).as_numpy("text_output") is not None, "an inference")
    check(client.get_inference_statistics("ensemble"), "statistics")
    check(client.get_trace_settings() and client.get_log_settings(), "settings")
    check(client.get_system_shared_memory_status() is not None and client.get_cuda_shared_memory_status() is not None, "shared memory")
    raises("an unknown model", "unknown model", lambda: client.infer("other", inputs(module, False)))
    raises("an unknown model's metadata", "unknown model", lambda: client.get_model_metadata("other"))
    raises("a missing input", "expected", lambda: client.infer("ensemble", inputs(module, False)[:1]))
    raises("loading", "explicit model load / unload is not allowed", lambda: client.load_model("ensemble"))

client = tritonclient.grpc.InferenceServerClient(sys.argv[3])
raises("no stream", "decoupled", lambda: client.infer("ensemble", inputs(tritonclient.grpc, True)))
answers = queue.Queue()
client.start_stream(lambda result, error: answers.put((result, error)))
client.async_stream_infer("ensemble", inputs(tritonclient.grpc, True), request_id="1", enable_empty_final_response=True)
count, is_final = 0, False
while not is_final:
    result, error = answers.get(timeout=20)
    if error is not None:
        sys.exit(f"wrong: a stream: {error}")
    count += 1
    is_final = result.get_response().parameters["triton_final_response"].bool_param
check(count >= 8, "a stream")
client.stop_stream()
print(f"{calls} calls, {errors} errors of the right kind")
