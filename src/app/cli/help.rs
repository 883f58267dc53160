//! What `--help` shows below the options: examples, and what the exit codes mean.

macro_rules! examples {
    ($($line:literal),+ $(,)?) => { concat!("Examples:\n", $("  ", $line, "\n"),+) };
}

macro_rules! with_run_codes {
    ($text:expr) => {
        with_run_codes!($text, "", "")
    };
    ($text:expr, $seven:literal, $last:literal $(,)?) => {
        concat!(
            $text,
            "\n",
            "Exit codes:\n",
            "  0    success\n",
            "  1    a stage failed\n",
            "  2    the manifest or the command line is wrong; nothing was started\n",
            "  3    a benchmark is INVALID(client): the client was the bottleneck\n",
            "  4    a benchmark is OVERLOADED: the server did not keep up; or LIMIT MISSED: a limit was exceeded\n",
            "  5    a benchmark is INVALID(server): requests failed, or answers were inconsistent\n",
            "  6    with --locked: something differs from the lock file\n",
            $seven,
            "  70   a fault in Regatta itself\n",
            "  130  interrupted\n",
            $last,
        )
    };
}

macro_rules! with_codes {
    ($text:expr) => {
        concat!(
            $text,
            "\n",
            "Exit codes:\n",
            "  0    success\n",
            "  1    the command failed\n",
            "  2    the manifest or the command line is wrong\n",
            "  70   a fault in Regatta itself\n",
            "  130  interrupted\n",
            "  141  the reader of the output closed it (`| head`)\n",
        )
    };
}

pub(super) const TOP: &str = with_run_codes!(
    examples![
        "regatta init my-bench             start a project: a manifest and a .gitignore",
        "regatta plan quickstart           what would run, and why",
        "regatta run quickstart            run it; a second time everything comes from the cache",
        "regatta bench sim:                load-test a server, here a simulated one, without a manifest",
        "regatta report                    where the report of the last run is",
    ],
    "  7    `compare --fail-if`: its condition is true, or a result is not VALID\n",
    "  141  the reader of the output closed it (`| head`)\n",
);

pub(super) const RUN: &str = with_run_codes!(examples![
    "regatta run quickstart",
    "regatta run quickstart system=sim-h100-x1 scenarios=offline,server",
    "regatta run quickstart --until generate_engines    the engine, and what it needs",
    "regatta run quickstart --force run_harness         measure again, keep the rest",
    "regatta run quickstart --force                     all of it again",
    "regatta run quickstart --gpus 0,2                  only GPUs 0 and 2",
    "regatta run quickstart --gpus 2                    any two GPUs",
    "regatta run quickstart --repeat 5                  five runs of each benchmark: means and intervals over them",
    "regatta run quickstart --events jsonl | jq -r .event",
    "regatta run quickstart --store s3://team/regatta   outputs of other machines are reused",
    "regatta run quickstart --locked                    only if it matches regatta.lock",
    "regatta run quickstart --on slurm --slurm partition=gpu --slurm time=2h",
]);

pub(super) const SERVE: &str = with_run_codes!(examples![
    "regatta serve quickstart scenarios=server                 until Ctrl-C; prints the endpoints",
    "regatta serve quickstart triton/server                    one task of the stage `triton`",
    "regatta serve quickstart -- sh -c 'regatta bench $REGATTA_GRPC --model $REGATTA_MODEL'",
    "regatta serve quickstart --json -- ./client.sh             exits with its exit code",
    "regatta serve llama2-70b system=h200-x8 --gpus 0,1,2,3",
    "regatta serve quickstart --on slurm --slurm partition=gpu -- ./client.sh",
]);

pub(super) const BULK: &str = with_run_codes!(examples![
    "regatta bulk nightly.yaml --dry-run                    print the commands only",
    "regatta bulk nightly.yaml                              run them; finished ones are skipped",
    "regatta bulk llmb.yaml --gpu-type gb200                a file of llmb-run",
    "regatta bulk llmb.yaml system=sim-gb200-x1             the same on the simulator",
]);

pub(super) const PLAN: &str = with_codes!(examples![
    "regatta plan quickstart",
    "regatta plan quickstart system=sim-h100-x1 --json",
    "regatta plan quickstart --graph dot | dot -Tsvg > plan.svg",
    "regatta plan quickstart --launch               print every server command; build nothing",
    "regatta plan quickstart --launch --json | jq '.launches[].servers[].command | add'",
]);

pub(super) const BENCH: &str = with_run_codes!(examples![
    "regatta bench sim:                                        try it without a server",
    "regatta bench 127.0.0.1:8001 --rate 20 --duration 30s     a Triton, over gRPC",
    "regatta bench http://host:8000/v1/chat/completions --rate 20",
    "regatta bench http://host:8000/v2/models/ensemble/generate_stream --offline -n 200",
    "regatta bench 127.0.0.1:8001 -c 1..64                     a sweep: a curve over 1, 2, 4, … 64 users",
    "regatta bench 127.0.0.1:8001 --sweep                      a sweep with loads chosen automatically",
    "regatta bench 127.0.0.1:8001 --rate 20 --repeat 5         five runs: means and intervals over them",
    "regatta bench https://host/v1 --api-key-env KEY --cacert ca.pem",
    "regatta bench openai://host:8000 --rate 5 --dry-run > mine.yaml && regatta run mine.yaml",
]);

pub(super) const LOCK: &str = with_codes!(examples![
    "regatta lock show",
    "regatta lock show 'regatta.lock#llama2-70b system=h200-x8'",
    "regatta lock diff theirs/regatta.lock regatta.lock",
]);

pub(super) const LOCK_DIFF: &str = concat!(
    examples![
        "regatta lock diff theirs/regatta.lock regatta.lock",
        "regatta lock diff regatta.lock llama2-70b system=h200-x8     what has changed since that lock",
        "regatta lock diff 'regatta.lock#m system=a' 'regatta.lock#m system=b'",
        "git show HEAD~1:regatta.lock > old.lock && regatta lock diff old.lock regatta.lock --json",
    ],
    "\n",
    "Exit codes:\n",
    "  0    they are the same\n",
    "  1    they differ, or the command failed\n",
    "  2    the manifest or the command line is wrong\n",
    "  70   a fault in Regatta itself\n",
    "  130  interrupted\n",
    "  141  the reader of the output closed it (`| head`)\n",
);

pub(super) const DOCTOR: &str = concat!(
    examples![
        "regatta doctor                           GPUs, containers, tools, disk, limits of this machine",
        "regatta doctor quickstart                what this machine lacks for quickstart",
        "regatta doctor quickstart --json | jq '.findings[] | select(.level == \"missing\")'",
    ],
    "\n",
    "Exit codes:\n",
    "  0    everything that is needed is there\n",
    "  1    something that is needed is missing\n",
    "  2    the manifest or the command line is wrong\n",
    "  70   a fault in Regatta itself\n",
    "  130  interrupted\n",
    "  141  the reader of the output closed it (`| head`)\n",
);

pub(super) const CHECK: &str = with_codes!(examples![
    "regatta check quickstart",
    "regatta check manifests/*.yaml",
    "regatta check manifests/*.yaml --format github    annotations in a workflow; sarif for code scanning"
]);

pub(super) const SHOW: &str =
    with_codes!(examples!["regatta show quickstart", "regatta show quickstart system=sim-h100-x1 --json"]);

pub(super) const LIST: &str = with_codes!(examples!["regatta list", "regatta list --json"]);

pub(super) const SCHEMA: &str =
    with_codes!(examples!["regatta schema > manifest.json", "regatta schema result > result.json"]);

pub(super) const INIT: &str = with_codes!(examples![
    "regatta init my-bench && cd my-bench && regatta run quickstart",
    "regatta init . --example vllm     begin with another shipped manifest",
    "regatta init . --all              all manifests, templates and schemas",
]);

pub(super) const STATUS: &str = concat!(
    examples![
        "regatta status",
        "regatta status --follow   a run in another terminal: its tasks, requests in flight, tokens per second, \
        latencies so far",
        "regatta status --json",
    ],
    "\n",
    "Exit codes: that of the run, and\n",
    "  0    it succeeded, or is still running\n",
    "  2    the command line is wrong, or nothing has run here yet\n",
    "  130  it was interrupted, or its process was killed\n",
);

pub(super) const FOLLOW: &str = concat!(
    examples![
        "regatta top   tasks, requests in flight, tokens per second, latencies so far, every second until the run ends"
    ],
    "\n",
    "Exit codes: those of `regatta status`\n",
);

pub(super) const RUNS: &str = with_codes!(examples![
    "regatta runs                       the last 20 runs",
    "regatta runs quickstart --failed   those of one manifest that failed or were interrupted",
    "regatta runs -n 1000 --json",
]);

pub(super) const HISTORY: &str = with_codes!(examples![
    "regatta history                              throughput and TTFT p99 of every benchmark, run by run",
    "regatta history tpot_mean -m llama2-70b      one metric of one manifest",
    "regatta history ttft_p99 --html trend.html   an HTML page with a chart",
]);

pub(super) const TAG: &str = with_codes!(examples![
    "regatta tag before-upgrade                   names the last run",
    "regatta compare before-upgrade after         finds runs by their tags",
    "regatta tag before-upgrade --remove",
]);

pub(super) const LOGS: &str = with_codes!(examples![
    "regatta logs                       which logs there are",
    "regatta logs prebuild              what `prebuild` printed",
    "regatta logs triton/offline -f     follow it, like tail -f",
]);

pub(super) const CLEAN: &str =
    with_codes!(examples!["regatta clean             what would be removed", "regatta clean --yes       remove it",]);

pub(super) const GC: &str = with_codes!(examples![
    "regatta gc                what would be removed",
    "regatta gc --keep 3 --yes keep the newest three outputs of each task, remove the rest",
]);

pub(super) const STORE: &str = concat!(
    examples![
        "export REGATTA_STORE=s3://team/regatta               or `--store /mnt/share`, for each command",
        "regatta run quickstart                               outputs of other machines are reused",
        "regatta store status quickstart                      each output: local, in the store, or missing",
        "regatta store pull quickstart                        fetch its outputs; run nothing",
        "regatta store push quickstart --verify               upload again what is damaged in the store",
        "regatta store push quickstart --sign-key key.pem     sign what is there, for readers with --trusted-keys \
         key.pub",
        "regatta store gc --older-than 30d --keep 500GiB      what would be removed; `--yes` removes it",
    ],
    "\n",
    "Exit codes:\n",
    "  0    success\n",
    "  1    the store cannot be used, or something in it is damaged\n",
    "  2    the manifest or the command line is wrong\n",
    "  70   a fault in Regatta itself\n",
    "  130  interrupted\n",
    "  141  the reader of the output closed it (`| head`)\n",
);

pub(super) const WHAT_IF: &str = with_codes!(examples![
    "regatta what-if quickstart system=sim-h100-x1,sim-h200-x1 --goal 'ttft_p99<450ms tpot_p99<40ms'",
    "regatta what-if quickstart scenarios=server tuning.max_batch_size=8,16,32,64 --html what-if.html",
    "regatta what-if vllm system=sim-h200-x1 scenarios=offline --input-tokens 1000,500 --output-tokens 200",
    "regatta what-if vllm system=sim-h200-x1 scenarios=server --day 40..200 --replicas 16 --balancer \
     round-robin,least-load",
]);

pub(super) const CALIBRATE: &str = with_codes!(examples![
    "regatta sim calibrate steps.jsonl --model llama3.1-8b --system h200-sxm-141gb -o h200-vllm.yaml",
    "regatta sim calibrate a.jsonl b.jsonl --model models/mine.yaml --system gpus/mine.yaml --precision fp8",
]);

pub(super) const SIM: &str = with_codes!(examples![
    "regatta sim serve --repository .regatta/by-manifest/quickstart/generate_triton_config/server/triton_model_repo_0",
    "regatta sim serve --repository DIR --grpc-port 8001 --speed 10",
]);

pub(super) const REPOSITORY: &str = with_codes!(examples![
    "regatta repository check triton_model_repo_0",
    "regatta repository check repos --engine /engines/llama2-70b --json",
    "regatta repository fill all_models/inflight_batcher_llm --out repo --values values.yaml",
    "regatta repository fill all_models/inflight_batcher_llm --out repo --allow-unfilled \\",
    "    triton_max_batch_size=64 --model tensorrt_llm engine_dir=/engines/llama2-70b",
    "regatta repository parameters",
]);

pub(super) const TRITON: &str = with_codes!(examples![
    "regatta triton status localhost:8001",
    "regatta triton models localhost:8001 tensorrt_llm",
    "regatta triton infer localhost:8001 ensemble --text \"Once upon a time\" --max-tokens 20 --stream",
    "regatta triton infer localhost:8001 tensorrt_llm --input-ids 1,2,3 --output-len 16 --stream",
    "regatta triton infer http://localhost:8000 ensemble --text hello --max-tokens 5",
    "regatta triton metrics localhost:8002 --grep kv_cache --watch",
    "regatta triton load localhost:8001 tensorrt_llm",
    "regatta triton log localhost:8001 log_verbose_level=1",
]);

pub(super) const TRITON_STATUS: &str = with_codes!(examples![
    "regatta triton status localhost:8001",
    "regatta triton status http://localhost:8000 tensorrt_llm && echo ready",
]);

pub(super) const MLPERF: &str = with_codes!(examples![
    "regatta mlperf status llama2-70b package=true",
    "regatta mlperf check latest/package",
    "regatta mlperf check ../inference_results_v6.0 --round v6.0 --json",
    "regatta mlperf diff ../inference_results_v6.0 latest/package",
    "regatta mlperf assemble --out submission h200/latest/package b200/latest/package",
    "regatta mlperf search llama2-70b loadgen=true scenarios=server --cost",
]);

pub(super) const MLPERF_ASSEMBLE: &str = with_codes!(examples![
    "regatta mlperf assemble --out submission --documentation texts h200/latest/package b200/latest/package",
    "regatta mlperf assemble --out submission --also-99 --csv results.csv h200 b200",
    "regatta mlperf assemble --out submission --archive mlperf_submission_Example.tar.gz h200 b200",
    "regatta mlperf assemble --out submission --archive mlperf_submission_Example.tar.gz --encrypt file:password h200",
    "regatta mlperf assemble --out submission h200 --logs b200.json:llama2-70b-99.9:Offline=logs/offline",
]);

pub(super) const SELFTEST: &str = concat!(
    examples![
        "regatta selftest                          20 seconds, on an otherwise idle machine",
        "regatta selftest --rates 100,2000 --json",
    ],
    "\n",
    "Exit codes:\n",
    "  0    measured\n",
    "  1    the command failed\n",
    "  2    the command line is wrong\n",
    "  3    INVALID(client): this machine was too slow or too busy for the load; the reasons are printed\n",
    "  70   a fault in Regatta itself\n",
    "  130  interrupted\n",
    "  141  the reader of the output closed it (`| head`)\n",
);

pub(super) const REPORT: &str = with_codes!(examples![
    "regatta report",
    "xdg-open \"$(regatta report 20261120-224301-4711)\"",
    "regatta report run_harness/server --compat vllm --compat genai-perf",
]);

pub(super) const COMPARE: &str = concat!(
    examples![
        "regatta compare baseline/ run_harness/server",
        "regatta compare before/ after/ --fail-if 'ttft_p99 > +5%' --fail-if 'output_tokens < -2%'",
        "regatta compare a1,a2,a3 b1,b2,b3 --smallest-effect 2             three runs of each",
        "regatta compare run_harness/server artifacts/ --as genai-perf     with a result of GenAI-Perf",
        "regatta compare a/ b/ c/ --html compared.html                     an HTML page",
    ],
    "\n",
    "Exit codes:\n",
    "  0    compared\n",
    "  1    the command failed\n",
    "  2    the results are not comparable, or the command line is wrong\n",
    "  7    with --fail-if: its condition is true, or a result is not VALID\n",
    "  70   a fault in Regatta itself\n",
    "  130  interrupted\n",
    "  141  the reader of the output closed it (`| head`)\n",
);

pub(super) const EXPORT: &str = with_codes!(examples![
    "regatta export run_harness/server --as genai-perf --out artifacts",
    "regatta export 20261120-224301-4711 --as vllm --as perf-analyzer",
    "regatta export run_harness/server --as parquet",
]);

pub(super) const IMPORT: &str = with_codes!(examples![
    "regatta import artifacts/ --out genai                       results of GenAI-Perf",
    "regatta import profile_export_aiperf.json profile_export.jsonl --out aiperf",
    "regatta import benchmarks.json --out guidellm               several runs are a sweep: sweep.json, table, page",
    "regatta import -- genai-perf profile -m gpt2 --streaming > manifests/gpt2.yaml",
    "regatta import serve.sh > manifests/mine.yaml               a shell script or a Slurm batch script",
    "regatta import 'vllm serve gpt2 && vllm bench serve --model gpt2'   a line in quotes; `-` reads standard input",
    "regatta import -- make run_harness RUN_ARGS='--benchmarks=llama2-70b --scenarios=Server'",
    "regatta import configs/H200-SXM-141GBx8/Server/llama2-70b.py > manifests/mine.yaml",
]);

pub(super) const EXPLAIN: &str = with_codes!(examples![
    "regatta explain",
    "regatta explain ttft                    a metric",
    "regatta explain stages.bench            the keys of an action, with an example manifest",
    "regatta explain stages.bench.target     one key of it",
    "regatta explain itl_token --json | jq .elsewhere"
]);

pub(super) const MANUAL: &str = with_codes!(examples![
    "regatta manual                     the pages: Start, Guides, Concepts, Reference",
    "regatta manual sweeps | less       one page",
    "regatta manual --search api key    the sections that have both words",
]);

pub(super) const COMPLETIONS: &str = with_codes!(examples![
    "source <(regatta completions bash)      in ~/.bashrc",
    "source <(regatta completions zsh)       in ~/.zshrc, behind compinit",
    "regatta completions fish | source       in ~/.config/fish/config.fish",
]);
