#!/bin/bash
# The highest rate at which TTFT p99 <= 140 ms holds on one scripted M/D/4 queue (server.py): Regatta's `search`, AIPerf's
# search planners, and GuideLLM's `goodput` and `sweep` profiles. Prints a table of probes, time, answer and error.
#
#   tests/bench/search/run.sh REGATTA AIPERF GUIDELLM TOKENIZER [REQUESTS] [LIMIT_S]
#
# REGATTA, AIPERF and GUIDELLM are the programs. TOKENIZER is a Hugging Face tokenizer folder on this machine: AIPerf and
# GuideLLM make their prompts with it. REQUESTS is the number of requests of a probe, 1000 by default. A tool is stopped after
# LIMIT_S seconds, 600 by default. The whole comparison takes about 40 minutes. Results go to target/search.
#
# The server and the clients share the machine, so it has to be quiet: a client that is late adds its lateness to TTFT. The
# table has the p99 of how late the server wrote first tokens; repeat a search where it is more than a few milliseconds.
set -u
if [ $# -lt 4 ]; then
  sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
  exit 2
fi
regatta=$(realpath "$1") aiperf=$(realpath -s "$2") guidellm=$(realpath -s "$3") tokenizer=$(realpath "$4")
requests=${5:-1000} limit_s=${6:-600}
here=$(cd "$(dirname "$0")" && pwd)
results=$PWD/target/search port=9600
rm -rf "$results"
mkdir -p "$results" && cd "$results" || exit 1

python3 "$here/server.py" --port $port &
server=$!
trap 'kill $server' EXIT
sleep 1

# NAME COMMAND…: runs the command, and records its wall time and how late the server wrote first tokens meanwhile.
timed() {
  local name=$1 start
  shift
  curl -s "http://127.0.0.1:$port/lateness" >/dev/null
  start=$(date +%s.%N)
  timeout -k 10 "$limit_s" "$@" >"$name.log" 2>&1
  local code=$?
  {
    echo "{\"exit_code\": $code, \"wall_s\": $(awk "BEGIN { print $(date +%s.%N) - $start }"),"
    echo "\"lateness\": $(curl -s "http://127.0.0.1:$port/lateness")}"
  } >"$name.time.json"
  echo "$name: exit code $code"
}

for seed in 1 1001; do
  timed regatta-$seed "$regatta" run "$here/search.yaml" port=$port requests="$requests" seed=$seed
  # After a failed run `latest` is the output of an earlier one.
  grep -q '"exit_code": 0' regatta-$seed.time.json && cp -L latest/find/search.json regatta-$seed.json
done

# Before each new rate smooth-isotonic warms up for 60 s, with as many users as the rate has requests per second. One second
# keeps the search within the time limit.
for planner in monotonic-sla smooth-isotonic; do
  AIPERF_SEARCH_PLANNER_FIRST_PROBE_WARMUP_FLOOR=1 AIPERF_SEARCH_PLANNER_REPLICATE_WARMUP_FLOOR=1 \
    AIPERF_SEARCH_PLANNER_DEFAULT_WARMUP_SECONDS=1 \
    timed aiperf-$planner "$aiperf" profile -m queue --url http://127.0.0.1:$port --endpoint-type chat --streaming \
    --tokenizer "$tokenizer" --use-server-token-count --isl 16 --osl 4 --arrival-pattern poisson --request-rate 20 \
    --request-count "$requests" --search-space phases.profiling.rate:20,160:int \
    --search-sla time_to_first_token:p99:lt:140 --search-metric request_throughput --search-direction maximize \
    --search-planner $planner --search-max-iterations 30 --ui none --artifact-dir aiperf-$planner
done

# NAME PROFILE
guide() {
  HF_HUB_OFFLINE=1 timed "$1" "$guidellm" run --backend kind=openai_http,target=http://127.0.0.1:$port,model=queue \
    --tokenizer "{\"kind\":\"huggingface_auto\",\"model\":\"$tokenizer\"}" \
    --data kind=synthetic_text,prompt_tokens=16,output_tokens=4 --profile "$2" \
    --metrics '{"kind":"generative","slo":{"ttft_ms":140}}' --constraint kind=max_requests,count="$requests" \
    --disable-console-interactive --output kind=json,path="$1.json"
}
guide guidellm-goodput '{"kind":"goodput","target_attainment":0.99,"initial_streams":1,"max_streams":256}'
sweep='{"kind":"sweep","sweep_size":10,"strategy_type":"poisson"}'
guide guidellm-sweep "$sweep"
# GuideLLM 0.8.1 starts ten worker processes, and each draws the same gaps from the same seed: runs of ten equal gaps, not
# Poisson arrivals. One worker draws them right.
GUIDELLM__MAX_WORKER_PROCESSES=1 guide guidellm-sweep-one-worker "$sweep"

python3 "$here/judge.py" "$results" | tee table.md
