"""Step log with KV tokens for vLLM 0.24: patches EngineCore when it is imported. One JSON array per step to $STEP_LOG.<pid>."""
import importlib.abc, importlib.util, os, sys

LOG = os.environ.get("STEP_LOG")

def patch(core):
    import json, time
    from contextlib import contextmanager
    state = {"n": 0, "file": None, "last": 0.0}
    def details(out):
        cached = out.scheduled_cached_reqs
        kv = {r.req_id: r.num_computed_tokens for r in out.scheduled_new_reqs}
        new = set(kv)
        done = dict(zip(cached.req_ids, cached.num_output_tokens))
        kv.update(zip(cached.req_ids, cached.num_computed_tokens))
        p = [0, 0, 0]; d = [0, 0, 0]
        for req, tokens in out.num_scheduled_tokens.items():
            one = p if req in new or done.get(req) == 0 else d
            one[0] += 1; one[1] += tokens; one[2] += kv.get(req, 0)
        return p, d
    @contextmanager
    def log_iteration_details(self, out):
        if not out or out.total_num_scheduled_tokens == 0:
            yield; return
        before = time.monotonic()
        yield
        after = time.monotonic()
        if state["file"] is None:
            state["file"] = open(f"{LOG}.{os.getpid()}", "a", buffering=1 << 16)
        p, d = details(out)
        state["file"].write(json.dumps([state["n"], round(after, 6), p, d, round((after - before) * 1000, 3), round((after - state["last"]) * 1000, 3)]) + "\n")
        state["n"] += 1
        state["last"] = after
        if state["n"] % 50 == 0: state["file"].flush()
    core.EngineCore.log_iteration_details = log_iteration_details

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "vllm.v1.engine.core": return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            try: patch(module)
            except Exception as error: print("step hook:", error, file=sys.stderr)
        spec.loader.exec_module = exec_module
        return spec

if LOG: sys.meta_path.insert(0, Finder())
