#!/bin/bash
# The same sweep by Regatta, AIPerf and GuideLLM on the same simulated server, over OpenAI's interface: 1 to 32 users, one after
# the other, each with the same file of prompts: 128 tokens in, 64 out. Prints a table of throughput and TTFT at each level, the
# tokens that each tool counted, and the time that it took.
#
#   tests/bench/curves/run.sh REGATTA AIPERF GUIDELLM TOKENIZER [REQUESTS]
#
# REGATTA, AIPERF and GUIDELLM are the programs. TOKENIZER is a Hugging Face tokenizer folder on this machine: AIPerf and GuideLLM
# need one, though the server counts. REQUESTS is the number of requests at each level, 64 by default. Results go to target/curves.
#
# Server and clients share the machine, so it has to be quiet: a client that is late adds its lateness to TTFT.
set -u
if [ $# -lt 4 ]; then
  sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"
  exit 2
fi
regatta=$(realpath "$1") aiperf=$(realpath -s "$2") guidellm=$(realpath -s "$3") tokenizer=$(realpath "$4")
requests=${5:-64} port=9700
here=$(cd "$(dirname "$0")" && pwd)
results=$PWD/target/curves
rm -rf "$results"
mkdir -p "$results" && cd "$results" || exit 1

# Prompts of 512 bytes each, all different: the simulator takes 4 bytes for a token. All three read a text from the field `text`.
python3 - "$requests" >prompts.jsonl <<'END'
import json, sys
for number in range(6 * int(sys.argv[1])):
    words = f"{number:07d} " + "abcdefghijklmno " * 40
    text = words[:512]
    print(json.dumps({"text": text, "output_tokens_count": 64}))
END

# The repository of the quick simulator, served for all of them.
"$regatta" bench sim: -n 2 --isl 128 --osl 64 >first.log 2>&1
"$regatta" sim serve --repository latest/repository/triton_model_repo_0 --http-port $port --grpc-port 9701 --metrics-port 9702 >sim.log 2>&1 &
server=$!
trap 'kill $server' EXIT
until grep -q ^ready sim.log; do kill -0 $server || exit 1; done

# NAME COMMAND…
timed() {
  local name=$1 start
  shift
  start=$(date +%s.%N)
  timeout -k 10 600 "$@" >"$name.log" 2>&1
  local code=$?
  echo "{\"exit_code\": $code, \"wall_s\": $(awk "BEGIN { print $(date +%s.%N) - $start }")}" >"$name.time.json"
  echo "$name: exit code $code"
}

timed regatta "$regatta" bench "openai://127.0.0.1:$port" -m ensemble -c 1..32 -n "$requests" \
  --data prompts.jsonl --osl 64 --ignore-eos --out regatta
timed aiperf "$aiperf" profile -m ensemble --url "http://127.0.0.1:$port" --endpoint-type chat --streaming \
  --tokenizer "$tokenizer" --use-server-token-count --input-file prompts.jsonl --custom-dataset-type single_turn \
  --osl 64 --extra-inputs ignore_eos:true --concurrency 1,2,4,8,16,32 --request-count "$requests" --ui none --artifact-dir aiperf
HF_HUB_OFFLINE=1 timed guidellm "$guidellm" run \
  --backend "kind=openai_http,target=http://127.0.0.1:$port,model=ensemble" \
  --tokenizer "{\"kind\":\"huggingface_auto\",\"model\":\"$tokenizer\"}" \
  --data kind=json_file,path=prompts.jsonl --profile '{"kind":"concurrent","streams":[1,2,4,8,16,32]}' \
  --constraint kind=max_requests,count="$requests" --disable-console-interactive --output kind=json,path=guidellm.json

# As sweeps of the same form, and over each other.
"$regatta" import guidellm.json --out imported/guidellm >imported.log 2>&1
"$regatta" import aiperf --out imported/aiperf >>imported.log 2>&1
"$regatta" compare regatta imported/aiperf imported/guidellm --force --html curves.html >compare.txt 2>&1

python3 "$here/judge.py" "$results" | tee table.md
