"""Calls of OpenAI's Python client, and the errors that it must raise: openai_calls.py URL"""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none")
chat, completions = client.chat.completions.create, client.completions.create
hello = [{"role": "user", "content": "hello " * 20}]
calls = errors = 0


def check(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


def raises(kind, what, call):
    global errors
    try:
        call()
    except kind:
        errors += 1
    else:
        sys.exit(f"no {kind.__name__}: {what}")


check("ensemble" in [model.id for model in client.models.list()], "the list of models")
check(client.models.retrieve("ensemble").id == "ensemble", "one model")
whole = chat(model="ensemble", messages=hello, max_tokens=16)
check(whole.usage.completion_tokens == 16 and whole.choices[0].finish_reason == "length", "a chat")
parts = list(chat(model="ensemble", messages=hello, max_tokens=8, stream=True, stream_options={"include_usage": True}))
check(parts[-1].usage.completion_tokens == 8, "the usage of a streamed chat")
check(sum(1 for part in parts if part.choices and part.choices[0].delta.content) == 8, "the chunks of a chat")
check(completions(model="ensemble", prompt="hello", max_tokens=5).usage.completion_tokens == 5, "a completion")
check(completions(model="ensemble", prompt=[1, 2, 3], max_tokens=5).usage.prompt_tokens == 3, "a completion of token ids")
check(len(list(completions(model="ensemble", prompt="hello", max_tokens=5, stream=True))) >= 5, "a streamed completion")
calls = 7
raises(openai.NotFoundError, "an unknown model", lambda: chat(model="other", messages=hello))
raises(openai.NotFoundError, "an unknown model's card", lambda: client.models.retrieve("other"))
raises(openai.BadRequestError, "a long prompt", lambda: chat(model="ensemble", messages=[{"role": "user", "content": "a " * 100_000}]))
raises(openai.BadRequestError, "no tokens", lambda: chat(model="ensemble", messages=hello, max_tokens=-1))
raises(openai.BadRequestError, "no messages", lambda: chat(model="ensemble", messages=[]))
raises(openai.NotFoundError, "embeddings", lambda: client.embeddings.create(model="ensemble", input="a"))
print(f"{calls} calls, {errors} errors of the right kind")
