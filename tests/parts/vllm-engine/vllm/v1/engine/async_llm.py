import asyncio
from types import SimpleNamespace

from vllm.sampling_params import RequestOutputKind
from vllm.usage.usage_lib import UsageContext


class AsyncLLM:
    @classmethod
    def from_engine_args(cls, engine_args, usage_context=UsageContext.ENGINE_CONTEXT):
        # As vLLM 0.24: the limits of a batch that are not set depend on the context, and only this one has those of its own server.
        if usage_context is not UsageContext.OPENAI_API_SERVER:
            raise ValueError(f"max_num_seqs is 128 in {usage_context.value}")
        if engine_args.model == "no-such-model":
            raise ValueError("no-such-model is not a folder and not a model at Hugging Face")
        return cls()

    async def generate(self, prompt, sampling_params, request_id):
        ids = []
        for number in range(sampling_params.max_tokens):
            await asyncio.sleep(0.002)
            ids.append(100 + number)
            finished = number + 1 == sampling_params.max_tokens
            delta = sampling_params.output_kind is RequestOutputKind.DELTA
            if delta or finished:
                given = ids[-1:] if delta else ids
                text = "".join(f" t{token}" for token in given)
                yield SimpleNamespace(finished=finished, outputs=[SimpleNamespace(text=text, token_ids=given)])

    def shutdown(self):
        pass
