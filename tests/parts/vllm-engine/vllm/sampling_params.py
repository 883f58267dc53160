import enum


class RequestOutputKind(enum.Enum):
    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


class SamplingParams:
    KNOWN = {"temperature", "ignore_eos", "detokenize", "stop_token_ids", "top_k", "top_p", "min_tokens", "seed"}

    def __init__(self, max_tokens=16, output_kind=RequestOutputKind.CUMULATIVE, **others):
        unknown = others.keys() - self.KNOWN
        if unknown:
            raise TypeError(f"SamplingParams got unexpected arguments {sorted(unknown)}")
        self.max_tokens, self.output_kind = max_tokens, output_kind
