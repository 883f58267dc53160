"""The schedulers of the simulator, a second time: every KV block is a number in a list, every request a dictionary.

    python3 reference.py > steps.jsonl

Each line has the limits, the requests (arrival in ns, prompt and answer tokens), and what each step computed: its end in ns,
tokens of context, requests that generate, requests that lost their blocks. `src/sim/core/tests.rs` compares the core with it.
"""
import json

MASK = 2**64 - 1
COST = {"overhead": 1.0e-3, "weights": 4.18e-3, "token": 27e-6, "pair": 1.33e-9, "request": 4e-6, "kv": 34e-9,
        "context": 2e-4, "prompt": 5e-5}


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, most):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % most


def step_ns(contexts, generating):
    """`contexts`: (request, tokens)."""
    prompt_tokens = sum(tokens for _, tokens in contexts)
    tokens = prompt_tokens + len(generating)
    pairs = sum(n * r["computed"] + n * n // 2 for r, n in contexts)
    kv = sum(r["prompt"] + r["made"] for r in generating)
    seconds = COST["overhead"] + max(COST["weights"], COST["token"] * tokens) + COST["pair"] * pairs
    seconds = seconds + COST["request"] * len(generating) + COST["kv"] * kv
    if prompt_tokens > 0:
        seconds += COST["context"] + COST["prompt"] * len(contexts)
    return int(1e9 * seconds)


class Server:
    def __init__(self, limits):
        self.limits = limits
        self.pool = list(range(limits["blocks"]))
        self.inside = []
        self.visible = 0

    def blocks(self, tokens):
        return -(-tokens // self.limits["tokens_per_block"])

    def generates(self, r):
        return r["computed"] >= r["context"]

    def give(self, r, count):
        """Blocks up to `count`, or nothing when the pool has too few."""
        missing = count - len(r["blocks"])
        if missing > len(self.pool):
            return False
        for _ in range(max(missing, 0)):
            r["blocks"].append(self.pool.pop())
        return True

    def release(self, r):
        self.pool += r["blocks"]
        r["blocks"] = []

    def preempt(self, r):
        self.release(r)
        r.update(started=False, computed=0, context=r["prompt"] + r["made"])

    def candidates(self):
        return self.inside[:self.limits["max_batch_size"]]

    def no_evict(self, static):
        """Blocks to the end, for all that run; then for those that wait, in order, until one does not fit."""
        admits = not static or not any(r["started"] for r in self.inside)
        chosen = []
        for r in self.candidates():
            if r["blocks"]:
                continue
            if not admits or not self.give(r, self.blocks(r["prompt"] + r["answer"])):
                break
        for r in [r for r in self.candidates() if self.generates(r)] + [r for r in self.candidates() if not self.generates(r)]:
            if r["blocks"]:
                chosen.append(r)
        return chosen, 0

    def max_utilization(self):
        """Blocks for one more step; the youngest that runs gives its own back when they are short."""
        chosen, lost, end, at = [], 0, len(self.candidates()), 0
        queue = self.candidates()
        while at < end:
            r = queue[at]
            tokens = r["prompt"] + r["made"] if self.generates(r) else r["context"]
            if self.give(r, self.blocks(tokens + 1)):
                chosen.append(r)
                at += 1
                continue
            victims = [i for i in range(at, end) if queue[i]["started"]]
            if not victims:
                break
            self.preempt(queue[victims[-1]])
            lost, end = lost + 1, victims[-1]
        # What waits holds nothing from one step to the next.
        for r in queue:
            if not r["started"] and r not in chosen:
                self.release(r)
        return chosen, lost

    def compose(self, chosen):
        budget, chunked = self.limits["max_num_tokens"], self.limits["chunked"]
        contexts, generating, waiting = [], [], []
        for r in chosen:
            if self.generates(r):
                if budget == 0:
                    break
                generating.append(r)
                budget -= 1
            elif chunked:
                waiting.append(r)
            elif r["context"] - r["computed"] <= budget:
                contexts.append((r, r["context"] - r["computed"]))
                budget -= r["context"] - r["computed"]
            else:
                break
        size = self.limits["tokens_per_block"]
        for r in waiting:
            whole = r["context"] - r["computed"]
            piece = whole if whole <= budget else budget // size * size
            if piece:
                contexts.append((r, piece))
                budget -= piece
        return contexts, generating

    def vllm(self):
        budget, contexts, generating, lost = self.limits["max_num_tokens"], [], [], 0
        running = [r for r in self.inside if r["started"]]
        at = 0
        while at < len(running) and budget:
            r = running[at]
            tokens = 1 if self.generates(r) else min(r["context"] - r["computed"], budget)
            held = r["prompt"] + r["made"] - 1 if self.generates(r) else r["computed"]
            while not self.give(r, self.blocks(held + tokens)):
                lost += 1
                victim = running.pop()
                self.preempt(victim)
                if victim is r:
                    break
            if at >= len(running):
                break
            budget -= tokens
            generating.append(r) if self.generates(r) else contexts.append((r, tokens))
            at += 1
        if not lost:
            for place, r in enumerate(self.inside):
                if r["started"]:
                    continue
                tokens = min(r["context"], budget)
                if self.blocks(r["context"]) > len(self.pool):
                    break
                if place >= self.limits["max_batch_size"] or not tokens or not self.give(r, self.blocks(tokens)):
                    break
                budget -= tokens
                contexts.append((r, tokens))
        return contexts, generating, lost

    def step(self):
        policy = self.limits["policy"]
        if policy == "vllm":
            return self.vllm()
        chosen, lost = self.max_utilization() if policy == "max_utilization" else self.no_evict(policy == "static_batch")
        contexts, generating = self.compose(chosen)
        for r in chosen:
            # Without tokens in this step it is not in the batch, and waits for the next one.
            if not r["started"] and not any(other is r for other, _ in contexts):
                self.release(r)
        return contexts, generating, lost


def run(limits, load):
    server, queue, now, steps = Server(limits), sorted(load), 0, []
    queue = [dict(arrival=a, prompt=p, answer=o, context=p, computed=0, made=0, started=False, blocks=[]) for a, p, o in queue]
    outside, backlog, seen = list(queue), [], 0
    while True:
        while outside and outside[0]["arrival"] <= now:
            backlog.append(outside.pop(0))
        room = limits["max_batch_size"] - len(server.inside)
        if limits["policy"] == "vllm" and server.inside:
            # What came during the last step waits for the next one.
            room = min(room, seen)
        while backlog and room > 0:
            server.inside.append(backlog.pop(0))
            room -= 1
        seen = len(backlog)
        if not server.inside:
            if not outside:
                return steps
            now = outside[0]["arrival"]
            continue
        contexts, generating, lost = server.step()
        now += step_ns(contexts, generating)
        steps.append([now, sum(tokens for _, tokens in contexts), len(generating), lost])
        for r, tokens in contexts:
            r["started"] = True
            r["computed"] += tokens
            r["made"] += server.generates(r)
        for r in generating:
            r["made"] += 1
        for r in [r for r in server.inside if r["made"] >= r["answer"]]:
            server.release(r)
            server.inside.remove(r)
        held = sorted(block for r in server.inside for block in r["blocks"]) + server.pool
        assert sorted(held) == list(range(limits["blocks"])), "a block is lost or used twice"


def main():
    random = Random(20260601)
    for case in range(48):
        limits = {
            "policy": ["guaranteed_no_evict", "max_utilization", "static_batch", "vllm"][case % 4],
            "chunked": bool(case // 4 % 2),
            "max_batch_size": 1 + random.below(10),
            "max_num_tokens": 150 + random.below(150),
            "tokens_per_block": [8, 16, 32][random.below(3)],
        }
        limits["blocks"] = (170 + random.below(230)) // limits["tokens_per_block"] + 1
        load = []
        for _ in range(4 + random.below(16)):
            short = random.below(2)
            load.append([random.below(120_000_000), 1 + random.below(30 if short else 100), 1 + random.below(110 if short else 40)])
        load.sort()
        print(json.dumps({**limits, "requests": load, "steps": run(limits, load)}, separators=(",", ":")))


main()
