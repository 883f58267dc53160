# Lines that were tried as a new user types them, from the documentation named above each.
# vLLM. https://docs.vllm.ai/en/latest/benchmarking/cli.html
vllm bench serve --backend openai-chat --model Qwen/Qwen2.5-VL-7B-Instruct --endpoint /v1/chat/completions --dataset-name hf --dataset-path lmarena-ai/VisionArena-Chat --hf-split train --num-prompts 1000
vllm bench serve --backend openai-chat --endpoint-type openai-chat --model Qwen/QwQ-32B --endpoint /v1/chat/completions --dataset-name hf --dataset-path Aeala/ShareGPT_Vicuna_unfiltered --num-prompts 10 --seed 42
vllm bench serve --model Qwen/QwQ-32B --dataset-name hf --dataset-path likaixin/InstructCoder --num-prompts 10 --top-k 10 --top-p 0.9 --temperature 0.5
vllm bench serve --save-result --save-detailed --backend vllm --model meta-llama/Llama-3.1-8B-Instruct --endpoint /v1/completions --dataset-name custom --dataset-path data.jsonl --custom-skip-chat-template --num-prompts 80 --max-concurrency 1 --temperature=0.3 --top-p=0.75 --result-dir "./log/"
vllm bench serve --model meta-llama/Llama-2-7b-chat-hf --dataset-name prefix_repetition --num-prompts 100 --prefix-repetition-prefix-len 512 --prefix-repetition-suffix-len 128 --prefix-repetition-num-prefixes 5 --prefix-repetition-output-len 128
vllm bench serve --backend vllm --model Qwen/Qwen3-8B --dataset-name random --random-input-len 8192 --random-output-len 256 --random-prefix-len 1024 --random-range-ratio 0.2 --num-prompts 500 --request-rate 5 --burstiness 0.5 --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,99
vllm bench serve --backend vllm --model Qwen/Qwen3-8B --dataset-name burstgpt --dataset-path BurstGPT_without_fails_2.csv --num-prompts 1000
vllm bench serve --model meta-llama/Llama-3.1-8B-Instruct --dataset-name sonnet --dataset-path vllm/benchmarks/sonnet.txt --sonnet-input-len 550 --sonnet-output-len 150 --sonnet-prefix-len 200 --num-prompts 10
vllm bench serve --host localhost --port 8000 --model openai/gpt-oss-20b --dataset-name random --random-input-len 1000 --random-output-len 1000 --num-prompts 320 --max-concurrency 64 --ignore-eos --goodput ttft:3000 tpot:50 --metadata version=0.11 tp=1
vllm bench serve --backend openai-embeddings --model jinaai/jina-embeddings-v3 --endpoint /v1/embeddings --dataset-name random --num-prompts 100
vllm bench latency --model meta-llama/Llama-3.1-8B-Instruct --input-len 1024 --output-len 128 --batch-size 4 --num-iters 10 --tensor-parallel-size 2
vllm bench throughput --model Qwen/Qwen3-8B --dataset-name random --input-len 1000 --output-len 100 --num-prompts 1000 --async-engine --max-model-len 4096 --gpu-memory-utilization 0.95
vllm serve openai/gpt-oss-120b --tensor-parallel-size 4 --async-scheduling --max-num-batched-tokens 8192 --max-cudagraph-capture-size 2048 --port 8010
vllm serve deepseek-ai/DeepSeek-R1 --data-parallel-size 8 --enable-expert-parallel --quantization fp8 --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
VLLM_USE_V1=1 VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4 --kv-cache-dtype fp8 --max-model-len 8192 --enable-chunked-prefill --served-model-name llama70b --disable-log-requests
docker run --runtime nvidia --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface --env "HF_TOKEN=$HF_TOKEN" -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-0.6B --enforce-eager
# SGLang. https://docs.sglang.ai/developer_guide/bench_serving.html
python3 -m sglang.bench_serving --backend sglang --host 127.0.0.1 --port 30000 --num-prompts 1000 --model meta-llama/Llama-3.1-8B-Instruct --request-rate 100 --max-concurrency 512 --output-file sglang_random.jsonl --output-details
python3 -m sglang.bench_serving --backend vllm --base-url http://127.0.0.1:8000 --model meta-llama/Llama-3.1-8B-Instruct --dataset-name random --random-input-len 1024 --random-output-len 1024 --random-range-ratio 0.5 --num-prompts 1000
python3 -m sglang.bench_serving --backend sglang-oai-chat --dataset-name image --image-count 3 --image-resolution 720p --random-input-len 512 --random-output-len 512 --num-prompts 500
python3 -m sglang.bench_serving --backend sglang --dataset-name generated-shared-prefix --gsp-num-groups 64 --gsp-prompts-per-group 16 --gsp-system-prompt-len 2048 --gsp-question-len 128 --gsp-output-len 256 --num-prompts 1024 --flush-cache --warmup-requests 10
python3 -m sglang.bench_serving --backend sglang --dataset-name random-ids --random-input 4096 --random-output 256 --random-range-ratio 1.0 --num-prompt 256 --tokenize-prompt --disable-ignore-eos --profile
python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --trust-remote-code --enable-dp-attention --dp 8 --mem-fraction-static 0.85 --chunked-prefill-size 4096
python3 -m sglang.bench_one_batch --model-path meta-llama/Meta-Llama-3.1-8B-Instruct --batch 32 --input-len 256 --output-len 32
# TensorRT-LLM. https://nvidia.github.io/TensorRT-LLM/performance/perf-benchmarking.html
trtllm-bench --model meta-llama/Llama-3.1-8B throughput --dataset /tmp/synthetic_128_128.txt --backend pytorch --max_batch_size 1024 --max_num_tokens 4096 --concurrency 256 --streaming --report_json out.json
trtllm-bench -m nvidia/Llama-3.1-405B-Instruct-FP4 --model_path /models/405b throughput --backend pytorch --tp 8 --pp 1 --ep 1 --num_requests 1000 --dataset dataset.txt --kv_cache_free_gpu_mem_fraction 0.9 --extra_llm_api_options extra.yml --warmup 5
trtllm-bench --model meta-llama/Llama-2-7b-hf build --dataset /tmp/d.txt --quantization FP8 --tp_size 2
trtllm-bench --model meta-llama/Llama-2-70b-hf latency --dataset /tmp/d.txt --engine_dir /tmp/engine --num_requests 10 --concurrency 1 --sampler_options options.yml
trtllm-serve nvidia/Llama-3.3-70B-Instruct-FP8 --backend pytorch --tp_size 2 --max_batch_size 512 --max_num_tokens 8192 --max_seq_len 4096 --host 0.0.0.0 --port 8001 --kv_cache_free_gpu_memory_fraction 0.9 --config llm-api.yml
python -m tensorrt_llm.serve.scripts.benchmark_serving --model meta-llama/Llama-3.1-8B-Instruct --backend openai --dataset-name random --random-input-len 1024 --random-output-len 1024 --random-ids --num-prompts 100 --max-concurrency 32 --trust-remote-code --ignore-eos --no-test-input --percentile-metrics ttft,tpot,itl,e2el
python benchmarks/cpp/prepare_dataset.py --stdout --tokenizer meta-llama/Llama-2-7b-hf token-norm-dist --input-mean 128 --output-mean 128 --input-stdev 0 --output-stdev 0 --num-requests 3000 > /tmp/synthetic_128_128.txt
# Triton. https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide
docker run --rm -it --net host --shm-size=2g --ulimit memlock=-1 --gpus all -v $(pwd)/model_repository:/models nvcr.io/nvidia/tritonserver:25.01-trtllm-python-py3 tritonserver --model-repository=/models --http-port 8010 --model-control-mode=explicit --load-model=ensemble
perf_analyzer -m gpt2 --percentile=95 --concurrency-range 1:8:2 -i grpc -u localhost:8001 --measurement-interval 10000 --shared-memory none
perf_analyzer -m ensemble -i grpc --streaming --async --input-data prompts.json --request-rate-range 1:5 --request-distribution poisson --stability-percentage 999
# GenAI-Perf. https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/perf_analyzer/genai-perf/README.html
genai-perf profile -m "meta/llama3-8b-instruct" --endpoint-type chat --synthetic-input-tokens-mean 200 --synthetic-input-tokens-stddev 0 --output-tokens-mean 100 --output-tokens-stddev 10 --extra-inputs min_tokens:100 --extra-inputs ignore_eos:true --streaming --url localhost:8080 --concurrency 50 --request-count 500 --warmup-request-count 20 --tokenizer meta-llama/Meta-Llama-3-8B-Instruct -- -v --max-threads=256
genai-perf profile -m google/flan-t5-xxl --service-kind openai --endpoint-type embeddings --batch-size-text 2
genai-perf profile -m m --endpoint-type chat --num-sessions 10 --session-concurrency 5 --session-turns-mean 3 --session-turns-stddev 1 --session-turn-delay-mean 500 --streaming
genai-perf profile -m m --endpoint-type chat --request-rate 5 --goodput time_to_first_token:150 request_latency:2000 --measurement-interval 60000 --generate-plots --artifact-dir out --random-seed 7 -H "Authorization: Bearer abc"
genai-perf analyze -m m --service-kind openai --endpoint-type chat --sweep-type concurrency --sweep-range 1:32 --streaming -u http://localhost:8000
# AIPerf. https://github.com/ai-dynamo/aiperf
aiperf profile --model Qwen/Qwen3-0.6B --url http://localhost:8000 --endpoint-type chat --streaming --concurrency 100 --request-rate 20 --arrival-pattern gamma --arrival-smoothness 2.0 --request-count 1000
aiperf profile -m Qwen/Qwen3-0.6B --endpoint-type chat --concurrency 10 --benchmark-duration 60 --benchmark-grace-period 30 --isl 512 --osl 128 --gpu-telemetry http://localhost:9400/metrics --goodput "request_latency:250 time_to_first_token:100"
aiperf profile --model m --endpoint-type completions --concurrency 8 --public-dataset sharegpt --num-prompts 100 --warmup-request-count 10 --ui none
aiperf profile --model m --endpoint-type chat --conversation-num 20 --conversation-turn-mean 4 --conversation-turn-stddev 1 --conversation-turn-delay-mean 1000 --concurrency 5 --isl 100 --osl 50
aiperf profile --model m --endpoint-type chat --concurrency 4 --isl 128 --osl 64 --concurrency-ramp-duration 30
aiperf profile --model m --endpoint-type rankings --url localhost:8080 --request-count 100
# GuideLLM. https://github.com/vllm-project/guidellm
guidellm benchmark --target "http://localhost:8000" --rate-type sweep --max-seconds 30 --data "prompt_tokens=256,output_tokens=128" --output-path report.json
guidellm benchmark --target http://localhost:8000 --rate-type concurrent --rate 1,8,64 --max-requests 500 --data '{"prompt_tokens":128,"prompt_tokens_stdev":16,"output_tokens":64,"samples":1000}' --processor meta-llama/Llama-3.1-8B-Instruct
guidellm benchmark --target http://localhost:8000 --rate-type poisson --rate 5 --max-seconds 60 --data openai/gsm8k --data-args '{"prompt_column":"question","name":"main","split":"test"}'
guidellm benchmark --scenario chat --target http://localhost:8000
# llmperf. https://github.com/ray-project/llmperf
OPENAI_API_BASE="http://localhost:8000/v1" python token_benchmark_ray.py --model "meta-llama/Llama-2-7b-chat-hf" --mean-input-tokens 550 --stddev-input-tokens 150 --mean-output-tokens 150 --stddev-output-tokens 10 --max-num-completed-requests 2 --timeout 600 --num-concurrent-requests 1 --results-dir "result_outputs" --llm-api openai --additional-sampling-params '{}'
# MLPerf Inference, NVIDIA's READMEs of v4.1 to v5.1
make run_harness RUN_ARGS="--benchmarks=llama2-70b --scenarios=Server --harness_type=triton --test_mode=AccuracyOnly"
make run_harness RUN_ARGS="--benchmarks=llama3.1-405b --scenarios=Offline --config_ver=high_accuracy --core_type=trtllm_endpoint --trtllm_server_urls=0.0.0.0:30000,0.0.0.0:30001"
make generate_engines RUN_ARGS="--benchmarks=mixtral-8x7b --scenarios=Offline --config_ver=high_accuracy"
make run_audit_harness RUN_ARGS="--benchmarks=llama2-70b --scenarios=offline --config_ver=default"
make run_llm_server RUN_ARGS="--benchmarks=llama2-70b-interactive --scenarios=Interactive --core_type=trtllm_endpoint"
make preprocess_data BENCHMARKS="llama2-70b" && make download_model BENCHMARKS="llama2-70b"
# DGX Cloud Benchmarking. https://github.com/NVIDIA/dgxc-benchmarking
llmb-run single -w pretrain_llama3.1 -s 405b --dtype fp8 --scale 256
USE_CASES="chat reasoning" CONCURRENCY="1 64" llmb-run submit -w inference_deepseek-r1 -s 671b --dtype fp4 --scale 8
# Slurm, loops and prefixes
sbatch -N 1 --gpus-per-node=8 -t 02:00:00 -A proj -p batch --wrap "vllm serve Qwen/Qwen3-8B -tp 8"
srun -N 1 -n 1 --gres=gpu:4 --container-image=nvcr.io/nvidia/tensorrt-llm/release:1.0.0 --container-mounts=/data:/data --no-container-mount-home trtllm-serve /data/model --tp_size 4
srun --mpi=pmix -N 2 --ntasks-per-node=8 --container-image=trtllm.sqsh trtllm-llmapi-launch trtllm-serve deepseek-ai/DeepSeek-R1 --tp_size 16 --backend pytorch
for c in 1 4 16; do vllm bench serve --model Qwen/Qwen3-8B --dataset-name random --max-concurrency $c --num-prompts $((c * 10)) --save-result --result-filename c$c.json; done
timeout 3600 python3 -m sglang.bench_serving --backend sglang --num-prompts 100 | tee log.txt
numactl --cpunodebind=0 --membind=0 vllm bench serve --model m --dataset-name random
CUDA_VISIBLE_DEVICES=0,1 python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2 --dtype bfloat16 &
# inference-perf. https://github.com/kubernetes-sigs/inference-perf
inference-perf --server.base_url http://localhost:8000 --server.model_name m --api.type chat --api.streaming true --data.type random --data.input_distribution.mean 64 --data.input_distribution.max 128 --data.output_distribution.type fixed --data.output_distribution.mean 32 --load.type constant --load.stages '[{"rate": 1, "duration": 30}, {"rate": 2, "duration": 30}]'
inference-perf --server.base_url http://localhost:8000 --server.model_name m --data.type shared_prefix --data.shared_prefix.num_groups 4 --data.shared_prefix.system_prompt_len 64 --load.type concurrent --load.stages '[{"concurrency_level": 4, "num_requests": 20}]'
# Kubernetes, Ray and load tools for HTTP
kubectl port-forward svc/vllm 8000:8000
ray start --head
locust -f llama.py --host http://localhost:8000
ab -n 100 -c 10 http://localhost:8000/v1/models
# Lines of repositories and of issues of these tools, tried in the same way.
vllm bench serve --backend vllm --model /models/Qwen3-4B --endpoint /v1/completions --dataset-name sharegpt --dataset-path /models/ShareGPT_V3_unfiltered_cleaned_split.json --num-prompts 10
/path/to/vllm/.venv/bin/lm_eval --model local-completions --model_args 'model=deepseek-ai/DeepSeek-V4-Flash,base_url=http://127.0.0.1:8000/v1/completions,num_concurrent=2,max_retries=10,tokenized_requests=False,tokenizer_backend=none,max_gen_toks=2048,timeout=300' --tasks gsm8k --num_fewshot 5 --batch_size auto --limit 200 --output_path /tmp/gsm8k_raw
vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --tokenizer-mode auto --gpu-memory-utilization 0.8 --speculative-config '{"method": "qwen3_next_mtp", "num_speculative_tokens": 2}' --tensor-parallel-size 4 --no-enable-chunked-prefill
HF_HOME=/opt/huggingface /opt/vllm-rocm/bin/vllm bench serve --backend vllm --base-url http://127.0.0.1:8000 --model Qwen/Qwen3.8-27B-FP8 --dataset-name random --num-prompts 32 --random-input-len 512 --random-output-len 128 --ignore-eos --request-rate inf --max-concurrency 8 --seed 42
python3 ../../python/sglang/bench_serving.py --backend trt --dataset-name random --num-prompt 2500 --random-input 1024 --random-output 1024 --random-range-ratio 0.5 --model meta-llama/Meta-Llama-3-8B-Instruct > trtllm/log11
python3 -m sglang.bench_serving --backend sglang --base-url http://127.0.0.1:8000 --dataset-name random --num-prompts 128 --random-input 1024 --random-output 1024
genai-perf --model tensorrt_llm_bls --tokenizer meta-llama/Meta-Llama-3-8B-Instruct --service-kind openai --endpoint-type chat --synthetic-input-tokens-mean 256 --synthetic-input-tokens-stddev 0 --output-tokens-mean 256 --output-tokens-stddev 0 --streaming
genai-perf profile -m TinyLlama-1.1B-Chat-v1.0 --tokenizer TinyLlama/TinyLlama-1.1B-Chat-v1.0 --endpoint-type chat --random-seed 123 --synthetic-input-tokens-mean 128 --synthetic-input-tokens-stddev 0 --output-tokens-mean 128 --output-tokens-stddev 0 --request-count 100 --request-rate 10 --profile-export-file my_profile_export.json --url localhost:8000 --streaming
aiperf profile --model-names ${MODEL} -u localhost:8080 --concurrency 100 --request-count 300
guidellm benchmark --target "http://localhost:8000" --data "prompt_tokens=256,output_tokens=128" --max-seconds 60
guidellm benchmark run --target http://localhost:8000 --model /models/Qwen3-4B --processor /models/Qwen3-4B --profile concurrent --rate 1 --max-seconds 60 --warmup 5 --random-seed 20260416 --data 'prompt_tokens=512,prompt_tokens_stdev=1,prompt_tokens_min=512,prompt_tokens_max=512,output_tokens=128,output_tokens_stdev=1,output_tokens_min=128,output_tokens_max=128' --output-dir out --backend openai_http --backend-kwargs '{"validate_backend": "/v1/models", "request_format": "/v1/completions"}' --disable-console-interactive --outputs json --outputs csv --outputs html
evalscope perf --url 'http://127.0.0.1:8000/v1/chat/completions' --parallel 2 --model 'qwen2.5' --log-every-n-query 10 --number 20 --api openai --temperature 0.9 --max-tokens 1024 --prompt '写一个科幻小说,请开始你的表演'
aiperf profile -m Qwen/Qwen3-8B --url http://localhost:8000 --streaming --input-file ./benchmarks/prompts.json --concurrency 4 --artifact-dir ./results/x-c4
trtllm-bench --model nvidia/DeepSeek-V3.1-NVFP4 latency --dataset ./dataset.jsonl --tp 8 --config config.yaml --report_json ./bench_bs_1.json --backend pytorch
docker run --rm --gpus '"device=0,1"' --shm-size=8g --ipc=host --ulimit memlock=-1 --ulimit stack=67108864 -e PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True -v /models:/models -v /out:/out nvcr.io/nvidia/tensorrt-llm/release:1.1.0 trtllm-bench --model meta/x --model_path /models/x throughput --dataset /out/d.txt --backend pytorch --tp 2 --kv_cache_free_gpu_mem_fraction 0.9 --extra_llm_api_options /out/x.yml --report_json /out/r.json
genai-bench benchmark --api-backend sglang --api-base "http://127.0.0.1:30000" --api-key "dummy" --api-model-name "Qwen/Qwen3-8B" --model-tokenizer "Qwen/Qwen3-8B" --task text-to-text --traffic-scenario "D(256,32)" --num-concurrency 16 --max-time-per-run 5 --max-requests-per-run 200 --server-engine "SGLang" --server-gpu-type "local" --server-version "custom" --server-gpu-count 1
genai-bench excel --experiment-folder ./experiments/your_experiment --excel-name results --metric-percentile mean
PYTHONUNBUFFERED=1 stdbuf -oL -eL uvx llama-benchy --base-url http://localhost:8000/v1 --model qwen3.6-35b-a3b-fp8 --runs 3 --latency-mode generation --format md --pp 8192 --tg 512 --depth 0 --concurrency 5 10 20
llama-benchy --base-url http://localhost:8000/v1 --model deepseek-ai/DeepSeek-V4-Flash --tokenizer /home/x/DeepSeek-V4-Flash --pp 2048 --tg 128 --depth 0 4096 --runs 3 --latency-mode generation --format md --save-result /tmp/x.md
python3 /tensorrtllm_backend/scripts/launch_triton_server.py --world_size=1 --model_repo=/opt/tritonserver/inflight_batcher_llm
python3 /workspace/tensorrtllm_backend/scripts/launch_triton_server.py --world_size=4 --grpc_port 8101 --http_port 8100 --metrics_port 8102 --model_repo=/workspace/models/triton_model_repo/
python3 /app/scripts/launch_triton_server.py --model_repo=/opt/tritonserver/llmapi_repo/
python3 scripts/launch_triton_server.py --world_size 1 --model_repo=multimodal_ifb/ --tensorrt_llm_model_name tensorrt_llm,multimodal_encoders --multimodal_gpu0_cuda_mem_pool_bytes 300000000
python3 tools/fill_template.py -i llama_ifb/tensorrt_llm/config.pbtxt triton_max_batch_size:64,decoupled_mode:False,max_beam_width:1,engine_dir:${ENGINE_PATH},max_tokens_in_paged_kv_cache:2560,max_attention_window_size:2560,kv_cache_free_gpu_mem_fraction:0.5,exclude_input_in_output:True,enable_kv_cache_reuse:False,batching_strategy:inflight_fused_batching,max_queue_delay_microseconds:0
genai-perf profile -m phi3 --service-kind openai --endpoint-type chat --synthetic-input-tokens-mean 512 --output-tokens-mean 256 --concurrency 32 --goodput time_to_first_token:500 inter_token_latency:50
genai-perf profile -m llava-hf/llava-1.5-7b-hf --tokenizer llava-hf/llava-1.5-7b-hf --service-kind openai --endpoint-type vision --image-width-mean 640 --image-height-mean 424 --image-width-stddev 0 --image-height-stddev 0 --endpoint v1/chat/completions --url 127.0.0.1:8333 --streaming --concurrency 16 --num-dataset-entries 64 --warmup-request-count 32 --request-count 32 --synthetic-input-tokens-mean 3000
llmb-run single -w pretrain_nemotron4 -s 340b --dtype fp8 --scale 256
python3 -u main.py --scenario Server --model-path /workspace/llama-model-info/ --api-server http://llama.svc.cluster.local:8080 --additional-servers http://l2:8080 --api-model-name Llama-2-70b-chat-hf --mlperf-conf mlperf.conf --vllm --user-conf user.conf --total-sample-count 24576 --dataset-path /workspace/processed-data.pkl --output-log-dir logs --dtype float32 --device cpu
cm run script --tags=run-mlperf,inference,_find-performance,_all-scenarios --model=llama2-70b-99 --implementation=reference --device=cuda --backend=pytorch --category=datacenter --division=open --precision=bfloat16 --quiet
srun -p Gveval-T --gres=gpu:8 --cpus-per-task=1 -n1 --ntasks-per-node=1 --quotatype=reserved --job-name=pyvision vllm serve /mnt/petrelfs/x/Qwen2.5-72B-Instruct --port 18901 --gpu-memory-utilization 0.8 --max-model-len 32768 --tensor-parallel-size 8 --served-model-name "judge" --trust-remote-code --disable-log-requests
vllm bench serve --model m --dataset-name random --request-rate 100 --num-prompts 3000 --max-concurrency 10
vllm bench serve --model m --dataset-name random --random-input-len 100 --random-output-len 100 --random-range-ratio 1.0 --num-prompts 10
vllm bench serve --model m --num-prompts 10 --goodput ttft:0.5 --request-rate 4
vllm bench serve --model m --dataset-name random --input-len 500 --output-len 50 --num-prompts 20 --num-warmups 3
python3 -m sglang.bench_serving --backend sglang --dataset-name random --random-input-len 1000 --random-output-len 100 --num-prompts 50
python3 -m sglang.bench_serving --backend sglang-oai-chat --dataset-name random --num-prompts 50 --request-rate inf --max-concurrency 8 --extra-request-body '{"temperature":0.6}'
guidellm benchmark --target http://localhost:8000 --scenario chat
trtllm-serve m --tp_size 2 --kv_cache_dtype fp8 --host 0.0.0.0 --port 9000 --log_level info
trtllm-serve serve m --tp_size 2 --trust_remote_code
aiperf plot --paths artifacts
# Further lines of these tools' documentation and of scripts around them.
python3 -m sglang.bench_serving --backend sglang-oai --host localhost --port 30000 --model Qwen/Qwen3.8-Flash-Next --dataset-name random --random-input-len 1024 --random-output-len 1024 --random-range-ratio 1 --num-prompts 128 --max-concurrency 64 --request-rate inf --flush-cache
evalscope perf --url http://127.0.0.1:8000/v1/chat/completions --parallel 10 --model qwen2.5 --number 100 --warmup-num 0.1 --api openai --dataset random --tokenizer-path Qwen/Q --min-prompt-length 100 --max-prompt-length 100 --max-tokens 10 --stream
aiperf profile --model m --url http://localhost:8000 --endpoint-type chat --streaming --concurrency 400 --benchmark-duration 3600 --adaptive-scale --adaptive-scale-control concurrency:1,400:int --adaptive-scale-assessment-period 60 --adaptive-sustain-duration 1800 --adaptive-scale-sla request_latency:p95:le:30000
trtllm-bench --model meta-llama/Llama-3.1-8B --config extra_config.yaml throughput --dataset d.txt
mpirun --allow-run-as-root --oversubscribe -n 1 trtllm-bench --model /m --model_path /m throughput --backend pytorch --max_batch_size 128 --max_num_tokens 8192 --dataset d.txt --tp 8 --ep 8 --kv_cache_free_gpu_mem_fraction 0.9 --extra_llm_api_options extra.yml --concurrency 128 --num_requests $(( 128 * 5 )) --warmup 0 --streaming
vllm serve --config vllm.yaml
vllm bench serve --model [model_name] --port 8000 --dataset-name random --num-prompts 4 --result-dir [result]
lmdeploy serve api_server /models/Qwen2.5-7B-Instruct --server-port 8000 --tp 1
python3 -m dynamo.vllm --model Qwen/Qwen3-0.6B --enforce-eager
llmdbenchmark --workspace r run --endpoint-url http://x:80 --model openai/gpt-oss-120b --harness inference-perf --workload w.yaml
text-generation-benchmark --tokenizer-name bigscience/bloom
[ 1 -gt 2 ] && vllm bench serve --model a | tee log; vllm bench serve --model m --dataset-name random --num-prompts 4
