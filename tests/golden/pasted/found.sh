# Lines of today's documentation and repositories that a reader chose who did not know this program (November 2026): vLLM,
# SGLang, TensorRT-LLM, AIPerf, GuideLLM, GenAI-Perf, perf_analyzer, llmb-run and the harness of v5.0.
vllm bench serve --backend vllm --model NousResearch/Hermes-3-Llama-3.1-8B --endpoint /v1/completions --dataset-name sharegpt --dataset-path <your data path>/ShareGPT_V3_unfiltered_cleaned_split.json --top-k 10 --top-p 0.9 --temperature 0.5 --num-prompts 10
vllm bench serve --model Qwen/Qwen2.5-VL-3B-Instruct --backend openai-chat --endpoint /v1/chat/completions --dataset-name random-mm --random-mm-bucket-config '{(2048, 2048, 1): 1.0}' --request-rate 4 --probe-request-rate 20
vllm bench throughput --model meta-llama/Llama-2-7b-hf --backend vllm --dataset_path <your data path>/ShareGPT_V3_unfiltered_cleaned_split.json --dataset_name sharegpt --num-prompts 10 --max-loras 2 --max-lora-rank 8 --enable-lora --lora-path yard1/llama-2-7b-sql-lora-test
python3 benchmarks/benchmark_serving_structured_output.py --backend vllm --model NousResearch/Hermes-3-Llama-3.1-8B --dataset json --structured-output-ratio 1.0 --request-rate 10 --num-prompts 1000
vllm bench serve --backend openai-chat --model Qwen/Qwen2.5-VL-7B-Instruct --dataset-name sharegpt --dataset-path /path/to/ShareGPT4V/sharegpt4v_instruct_gpt4-vision_cap100k.json --num-prompts 100 --save-result --result-dir ~/vllm_benchmark_results --save-detailed --endpoint /v1/chat/completions
python3 -m sglang.bench_serving --backend vllm --base-url http://127.0.0.1:8000 --model meta-llama/Llama-3.1-8B-Instruct --dataset-name sharegpt --num-prompts 1000 --sharegpt-output-len 256
python3 -m sglang.bench_serving --backend sglang --host 127.0.0.1 --port 30000 --model meta-llama/Llama-3.1-8B-Instruct --dataset-name random --tokenize-prompt --random-input-len 2048 --random-output-len 256 --random-range-ratio 0.2
python3 -m sglang.bench_serving --backend sglang --host 127.0.0.1 --port 30000 --model meta-llama/Llama-3.1-8B-Instruct --profile --flush-cache
python3 -m sglang.launch_server --model-path $MODEL --host 0.0.0.0 --port $PORT --trust-remote-code --tensor-parallel-size=$TP --data-parallel-size=1 --disable-radix-cache --decode-log-interval 1 --cuda-graph-bs 4 8 16 32 64 128 256 --cuda-graph-max-bs 256 --max-running-requests 512
python3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3.1-405B-Instruct --tp 16 --dist-init-addr 172.16.4.52:20000 --nnodes 2 --node-rank 0
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8080 --synthetic-input-tokens-mean 100 --synthetic-input-tokens-stddev 0 --output-tokens-mean 200 --output-tokens-stddev 0 --extra-inputs min_tokens:200 --extra-inputs ignore_eos:true --concurrency 4 --request-count 64 --warmup-request-count 1 --conversation-num 8 --random-seed 100
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --request-cancellation-rate 10 --request-cancellation-delay 0.5 --synthetic-input-tokens-mean 800 --synthetic-input-tokens-stddev 80 --output-tokens-mean 400 --output-tokens-stddev 40 --concurrency 8 --request-count 50 --warmup-request-count 5
guidellm run --backend '{"kind":"openai_http","target":"http://localhost:8000/v1","model":"meta-llama/Meta-Llama-3.1-8B-Instruct","api_key":"sk-...","extras":{"body":{"temperature":0.8,"top_p":0.9}}}' --data kind=synthetic_text,prompt_tokens=256,output_tokens=128
guidellm run --backend kind=openai_http,target=http://localhost:8000/v1,model=openai/gpt-oss-20b,extras.body.ignore_eos=false --data kind=synthetic_text,prompt_tokens=256,output_tokens=128
guidellm run --backend kind=openai_http,target=http://localhost:8000 --profile kind=throughput --constraint kind=max_requests,count=1000 --data '{"kind":"synthetic_text","prompt_tokens":256,"output_tokens":128}'
guidellm run --backend kind=openai_http,target=http://localhost:8000 --profile kind=replay --data "kind=trace_synthetic,path=replay.jsonl,timestamp_column=ts,prompt_tokens_column=input_tokens,output_tokens_column=generated_tokens"
guidellm run --backend kind=openai_http,target=http://localhost:8000 --profile kind=concurrent,streams=16 --data kind=synthetic_text,prompt_tokens=256,output_tokens=128 --constraint kind=max_duration,seconds=300 --constraint kind=over_saturation,mode=enforce,min_seconds=30,max_window_seconds=120 --output kind=json,path=benchmark.json --output kind=html,path=benchmark.html
guidellm run --backend kind=openai_http,target=http://localhost:8000/,model=tweet-summary-0 --tokenizer kind=huggingface_auto,model=${local_path}/Qwen2.5-1.5B-Instruct --profile kind=sweep --constraint kind=max_duration,seconds=10 --constraint kind=max_requests,count=10 --data kind=synthetic_text,prompt_tokens=128,output_tokens=56
genai-perf analyze -m <model> --sweep-type concurrency --sweep-range 1:256
genai-perf analyze -m <model> --sweep-type request_rate --sweep-range 100:500:50
genai-perf profile -m TinyLlama/TinyLlama-1.1B-Chat-v1.0 --endpoint-type chat --input-file payload:inputs.jsonl --session-concurrency 2 --session-delay-ratio 0.5
docker run -it --net=host --rm --gpus=all -v ~/.cache/huggingface:/root/.cache/huggingface vllm/vllm-openai:latest --model meta-llama/Llama-2-7b-hf --dtype float16 --max-model-len 1024 --lora-modules adapter1=/root/.cache/huggingface/hub/models--monsterapi--llama2-code-generation/snapshots/${SNAPSHOT_ID}/ adapter2=/root/.cache/huggingface/hub/models--yard1-llama-2-7b-sql-lora-test/snapshots/${SNAPSHOT_ID}/ --enable-lora
docker run --gpus 1 -ti --shm-size 1g --ipc=host --rm -p 8080:80 -e MODEL_ID=meta-llama/Meta-Llama-3.1-8B-Instruct -e NUM_SHARD=1 -e MAX_INPUT_TOKENS=4096 -e MAX_TOTAL_TOKENS=6000 -e HF_TOKEN=$(cat ~/.cache/huggingface/token) ghcr.io/huggingface/text-generation-inference:2.2.0
USE_CASES="reasoning:1000/1000" llmb-run single -w inference_deepseek-r1-sglang -s 671b --dtype nvfp4 --scale 4
STREAMING=false llmb-run submit -w inference_gpt-oss-dynamo -s 120b --dtype mxfp4 --scale 4
sbatch -A ${SBATCH_ACCOUNT} -p ${SBATCH_PARTITION} GPU_TYPE=gb200 ./launch.sh
DOCKER_ARGS="-v <from>:<to> -v <from>:<to>" make prebuild
make run_harness RUN_ARGS="--benchmarks=llama3.1-405b --scenarios=interactive --test_run"
perf_analyzer -m resnet50_libtorch --collect-metrics -f output.csv --verbose-csv
vllm serve $MODEL --host 0.0.0.0 --port $PORT --trust-remote-code --quantization modelopt --gpu-memory-utilization 0.9 --pipeline-parallel-size 1 --tensor-parallel-size $TP --max-num-seqs $CONC --max-num-batched-tokens 8192 --max-model-len $MAX_MODEL_LEN --enable-chunked-prefill --async-scheduling --no-enable-prefix-caching --compilation-config '{"pass_config": {"enable_fi_allreduce_fusion": true}, "custom_ops": ["+rms_norm"], "level": 3}'
aiperf profile --model your-model --url localhost:8000 --endpoint-type chat --streaming --request-rate 20 --benchmark-duration 120 --request-count 1000
vllm serve meta-llama/Llama-3.2-1B-Instruct --data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-address 10.99.48.128 --data-parallel-rpc-port 13345
vllm serve meta-llama/Llama-3.2-1B-Instruct --headless --data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-start-rank 2 --data-parallel-address 10.99.48.128 --data-parallel-rpc-port 13345
vllm serve meta-llama/Llama-2-7b-hf --uds /tmp/vllm.sock
vllm serve meta-llama/Llama-3.2-1B-Instruct --max-model-len 16k --trust-remote-code
python3 multi-round-qa.py --num-users 10 --num-rounds 5 --qps 0.5 --shared-system-prompt 1000 --user-history-prompt 2000 --answer-len 100 --model meta-llama/Llama-3.1-8B-Instruct --base-url http://localhost:30080/v1
python -m sglang.bench_serving --backend sglang --dataset-name sharegpt --dataset-path ./ShareGPT_V3_unfiltered_cleaned_split.json --num-prompts 1000 --request-rate 10
python3 -m sglang.bench_serving --backend sglang --host http://localhost:30000 --dataset-name sharegpt --num-prompts 1000 --request-rate 10 --max-concurrency 50
docker run --rm --ipc host -p 8000:8000 --gpus all -it nvcr.io/nvidia/tensorrt-llm/release
docker run --rm --publish 8000:8000 ghcr.io/llm-d/llm-d-inference-sim:v0.4.0 --port 8000 --model "Qwen/Qwen2.5-1.5B-Instruct" --lora-modules '{"name":"tweet-summary-0"}' '{"name":"tweet-summary-1"}'
VLLM_WORKER_MULTIPROC_METHOD=spawn vllm bench throughput --dataset-name=hf --dataset-path=likaixin/InstructCoder --model=meta-llama/Meta-Llama-3-8B-Instruct --input-len=1000 --output-len=100 --num-prompts=2048 --async-engine
guidellm run --backend '{"kind":"openai_http","target":"http://localhost:8000/v1","model":"openai/gpt-oss-20b","extras":{"body":{"ignore_eos":false}}}' --data kind=synthetic_text,prompt_tokens=256,output_tokens=128
llmb-run bulk jobs.txt -d
llmb-run list -w inference_llama3.3
NVIDIA_VISIBLE_DEVICES=0,2,4 make prebuild
export MLPERF_SCRATCH_PATH=/path/to/scratch/space; make run RUN_ARGS="--benchmarks=llama2-70b-interactive --scenarios=offline,server --config_ver=high_accuracy"
genai-perf profile -m gpt2 --backend tensorrtllm --streaming
genai-perf config -f genai_perf_config.yaml --override-config --warmup-request-count 100 --concurrency 32
genai-perf analyze -m gpt2 --sweep-type input_sequence_length --sweep-list 100,150,200,400
llama-server -hf ggml-org/gpt-oss-20b-GGUF --alias gpt-oss-20b --ctx-size 0 --jinja -ub 2048 -b 2048
