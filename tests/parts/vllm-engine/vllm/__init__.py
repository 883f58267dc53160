"""Stands in for vLLM on machines without a GPU: the part of its Python interface that the Triton model uses. Its tokens are
100, 101, …, one every two milliseconds."""

__version__ = "0.24.0+standin"

from .sampling_params import SamplingParams as SamplingParams


class TokensPrompt(dict):
    pass
