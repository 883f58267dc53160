"""vLLM's engine for the model beside it: requests come as lines over a socket, and tokens go back as lines.

    engine.py SOCKET ENGINE_ARGS

in:   [number, token ids or text, sampling parameters, streaming]     a request
      [number]                                                        its client has left
out:  {"version": …}                                                  once, when the engine is loaded
      [[number, token ids or text, last, error], …]                   what one step of the engine gave

It ends when the socket closes, so that it does not outlive the server.
"""

import asyncio
import json
import socket
import sys

LIMIT = 1 << 26  # bytes of a line: a prompt of several million tokens


class Engine:
    def __init__(self, engine, writer):
        self.engine, self.writer = engine, writer
        self.tasks = {}
        self.pieces = []

    def give(self, number, piece, last, error=None):
        """All requests that one step wakes run before what is called soon: their tokens leave in one line."""
        if not self.pieces:
            asyncio.get_running_loop().call_soon(self.flush)
        self.pieces.append((number, piece, int(last), error))

    def flush(self):
        self.writer.write(json.dumps(self.pieces, separators=(",", ":")).encode() + b"\n")
        self.pieces = []

    def start(self, number, prompt, sampling, streaming):
        task = asyncio.get_running_loop().create_task(self.answer(number, prompt, sampling, streaming))
        self.tasks[number] = task
        task.add_done_callback(lambda _: self.tasks.pop(number, None))

    async def answer(self, number, prompt, sampling, streaming):
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        kind = RequestOutputKind.DELTA if streaming else RequestOutputKind.FINAL_ONLY
        is_text = isinstance(prompt, str)
        try:
            parameters = SamplingParams(**sampling, output_kind=kind)
            question = prompt if is_text else TokensPrompt(prompt_token_ids=prompt)
            async for output in self.engine.generate(question, parameters, str(number)):
                one = output.outputs[0]
                self.give(number, one.text if is_text else list(one.token_ids), output.finished)
        except asyncio.CancelledError:
            self.give(number, None, True, "cancelled")
        except Exception as error:  # one request's error is that request's answer
            self.give(number, None, True, f"{type(error).__name__}: {error}")


async def main(descriptor, engine_args):
    import vllm
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor), limit=LIMIT)
    # vLLM's defaults (max_num_seqs, max_num_batched_tokens) depend on it: here they are those of its own server.
    context = UsageContext.OPENAI_API_SERVER
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**engine_args), usage_context=context)
    try:
        requests = Engine(engine, writer)
        writer.write(json.dumps({"version": vllm.__version__}).encode() + b"\n")
        while line := await reader.readline():
            message = json.loads(line)
            if len(message) > 1:
                requests.start(*message)
            elif task := requests.tasks.get(message[0]):
                task.cancel()
    finally:
        engine.shutdown()


# vLLM starts its workers as new processes that read this file once more.
if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), json.loads(sys.argv[2])))
