"""An OpenAI-compatible server that behaves as an M/D/c queue: c slots, first come, first served, the same service time for all.

    python3 server.py [--port 9600] [--slots 4] [--service-ms 40]

Every answer has four tokens, at equal distances within its service time: TTFT is the wait plus a quarter of the service
time. The queue is kept in numbers, not in timers: a response that is written late does not delay the next one, so the
capacity is exactly slots / service time on a busy machine, too. GET /lateness returns how late first tokens were written, and
sets the record back.
"""

import argparse
import asyncio
import json

TOKENS = 4


class Queue:
    def __init__(self, slots, service_s):
        self.free_at = [0.0] * slots
        self.service_s = service_s
        self.arrivals = 0
        self.lateness = []

    def enter(self, now):
        """When the service of a request begins that arrives now. Equal service times end in the order of arrival."""
        slot = self.arrivals % len(self.free_at)
        self.arrivals += 1
        start = max(now, self.free_at[slot])
        self.free_at[slot] = start + self.service_s
        return start

    def report(self):
        late = sorted(self.lateness)
        self.lateness = []
        at = lambda share: 1e3 * late[int(share * (len(late) - 1))] if late else None
        return {"requests": len(late), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0)}


def response(body, content_type="application/json"):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def chunk(text):
    data = f"data: {text}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def until(time):
    await asyncio.sleep(max(0.0, time - asyncio.get_running_loop().time()))


async def answer(queue, writer, path, body):
    loop = asyncio.get_running_loop()
    start = queue.enter(loop.time())
    asked = json.loads(body or b"{}")
    is_chat = "chat" in path
    kind = ("chat.completion" if is_chat else "text_completion") + (".chunk" if is_chat and asked.get("stream") else "")
    about = {"id": f"r{queue.arrivals}", "object": kind, "created": 0, "model": asked.get("model", "queue")}
    prompt_tokens = max(1, len(body) // 4)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": TOKENS, "total_tokens": prompt_tokens + TOKENS}
    if not asked.get("stream"):
        await until(start + queue.service_s)
        text = " token" * TOKENS
        choice = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        choices = [{"index": 0, "finish_reason": "length", **choice}]
        writer.write(response(json.dumps({**about, "choices": choices, "usage": usage}).encode()))
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for token in range(TOKENS):
        due = start + queue.service_s * (token + 1) / TOKENS
        await until(due)
        if token == 0:
            queue.lateness.append(loop.time() - due)
        choice = {"delta": {"role": "assistant", "content": " token"}} if is_chat else {"text": " token"}
        finish = "length" if token + 1 == TOKENS else None
        writer.write(chunk(json.dumps({**about, "choices": [{"index": 0, "finish_reason": finish, **choice}]})))
    writer.write(chunk(json.dumps({**about, "choices": [], "usage": usage})) + chunk("[DONE]") + b"0\r\n\r\n")


async def connection(queue, reader, writer):
    try:
        while True:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            path = lines[0].split(" ")[1]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            if path.endswith("/completions"):
                await answer(queue, writer, path, body)
            elif path == "/lateness":
                writer.write(response(json.dumps(queue.report()).encode()))
            else:
                models = {"object": "list", "data": [{"id": "queue", "object": "model", "created": 0, "owned_by": "test"}]}
                writer.write(response(json.dumps(models).encode()))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=9600)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--service-ms", type=float, default=40)
    asked = parser.parse_args()
    queue = Queue(asked.slots, asked.service_ms / 1e3)
    server = await asyncio.start_server(
        lambda reader, writer: connection(queue, reader, writer), "127.0.0.1", asked.port, backlog=4096
    )
    async with server:
        await server.serve_forever()


asyncio.run(main())
