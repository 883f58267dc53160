# TensorRT-LLM. https://github.com/NVIDIA/TensorRT-LLM/blob/v0.21.0/docs/source/performance/perf-benchmarking.md
python benchmarks/cpp/prepare_dataset.py --stdout --tokenizer meta-llama/Llama-3.1-8B token-norm-dist --input-mean 128 --output-mean 128 --input-stdev 0 --output-stdev 0 --num-requests 3000 > /tmp/synthetic_128_128.txt
trtllm-bench --model meta-llama/Llama-3.1-8B build --dataset /tmp/synthetic_128_128.txt --quantization FP8
trtllm-bench --model meta-llama/Llama-3.1-8B throughput --dataset /tmp/synthetic_128_128.txt --engine_dir /tmp/meta-llama/Llama-3.1-8B/tp_1_pp_1
# The three of them, as a script of that page
python benchmarks/cpp/prepare_dataset.py --stdout --tokenizer meta-llama/Llama-3.1-8B token-norm-dist --input-mean 128 --output-mean 128 --input-stdev 0 --output-stdev 0 --num-requests 3000 > /tmp/synthetic_128_128.txt && trtllm-bench --model meta-llama/Llama-3.1-8B build --dataset /tmp/synthetic_128_128.txt --quantization FP8 && trtllm-bench --model meta-llama/Llama-3.1-8B throughput --dataset /tmp/synthetic_128_128.txt --engine_dir /tmp/meta-llama/Llama-3.1-8B/tp_1_pp_1
# https://github.com/NVIDIA/TensorRT-LLM/blob/main/docs/source/commands/trtllm-serve/trtllm-serve.rst
srun -N 2 -w [NODES] \
    --output=benchmark_2node.log \
    --ntasks 16 --ntasks-per-node=8 \
    --mpi=pmix --gres=gpu:8 \
    --container-image=<CONTAINER_IMG> \
    --container-mounts=/workspace:/workspace \
    --container-workdir /workspace \
    bash -c "trtllm-llmapi-launch trtllm-serve deepseek-ai/DeepSeek-V3 --max_batch_size 161 --max_num_tokens 1160 --tp_size 16 --ep_size 4 --kv_cache_free_gpu_memory_fraction 0.95 --config ./config.yml"
curl -X GET http://localhost:8000/metrics
curl -s -X POST http://127.0.0.1:8000/start_profile \
    -H "Content-Type: application/json" \
    -d '{"output_dir": "/tmp/traces", "num_steps": 30}'
# Triton's TensorRT-LLM backend. https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/README.md
curl -X POST localhost:8000/v2/models/tensorrt_llm/generate -d '{"text_input": "The future of AI is", "sampling_param_max_tokens": 50}' | jq
curl -X POST localhost:8000/v2/models/tensorrt_llm/generate -H "triton-request-id: my-req-1" -d '{"text_input": "", "stop": true}'
srun --mpi=pmix --container-image triton_trt_llm --container-workdir /tensorrtllm_backend --output logs/tensorrt_llm_%t.out bash /tensorrtllm_backend/tensorrt_llm_triton.sh
# …/blob/main/docs/llama.md
curl -X POST localhost:8000/v2/models/ensemble/generate -d '{"text_input": "What is machine learning?", "max_tokens": 20, "bad_words": ["intelligence", "model"], "stop_words": ["focuses", "learn"], "pad_id": 2, "end_id": 2}'
python3 tensorrt_llm/triton_backend/tools/inflight_batcher_llm/end_to_end_test.py --dataset tensorrt_llm/triton_backend/ci/L0_backend_trtllm/simple_data.json --max-input-len 500
# …/blob/main/docs/llama_multi_instance.md
CUDA_VISIBLE_DEVICES=0 tritonserver --model-repository `pwd`/llama_ifb &
CUDA_VISIBLE_DEVICES=2,3 python3 tensorrt_llm/triton_backend/scripts/launch_triton_server.py --world_size 2 --model_repo=llama_ifb/ --http_port 8002 --grpc_port 8003 --metrics_port 8005
python3 tensorrt_llm/triton_backend/scripts/launch_triton_server.py --multi-model --model_repo=llama_ifb/ --disable-spawn-processes --world_size=5
python3 tensorrt_llm/triton_backend/tools/inflight_batcher_llm/benchmark_core_model.py --max-input-len 500 --tensorrt-llm-model-name tensorrt_llm --tensorrt-llm-model-name tensorrt_llm_2 dataset --dataset tensorrt_llm/triton_backend/ci/L0_backend_trtllm/simple_data.json --tokenizer-dir $HF_LLAMA_MODEL
# …/blob/main/docs/guided_decoding.md
python3 tensorrt_llm/triton_backend/inflight_batcher_llm/client/end_to_end_grpc_client.py -p "${PROMPT}" -o 30 --exclude-input-in-output --verbose --model-name ensemble --guided-decoding-guide-type json
# …/blob/main/docs/encoder_decoder.md
trtllm-build --checkpoint_dir ${UNIFIED_CKPT_PATH}/decoder --output_dir ${ENGINE_PATH}/decoder --moe_plugin disable --max_batch_size 64 --gemm_plugin float16 --bert_attention_plugin float16 --gpt_attention_plugin float16 --context_fmha disable --max_input_len 1 --max_encoder_input_len 2048
# Triton. https://github.com/triton-inference-server/server/blob/main/README.md
docker run --gpus=1 --rm --net=host -v ${PWD}/model_repository:/models nvcr.io/nvidia/tritonserver:26.07-py3 tritonserver --model-repository=/models --model-control-mode explicit --load-model densenet_onnx
# …/blob/main/docs/getting_started/llm.md
curl -N -X POST localhost:8000/v2/models/tensorrt_llm/generate_stream -d '{"text_input": "Count to three:", "sampling_param_max_tokens": 10, "streaming": true}'
# …/blob/main/docs/protocol/extension_generate.md and extension_model_repository.md
curl -X POST localhost:8000/v2/models/mymodel/generate -d '{"id": "42", "text_input": "client input", "parameters": {"stream": false, "temperature": 0}}'
curl -X POST localhost:8000/v2/repository/models/llama_ifb/load
# Perf Analyzer. https://github.com/triton-inference-server/perf_analyzer/blob/main/docs/
perf_analyzer -m mymodel -b 4 --shape IMAGE:3,224,224
perf_analyzer -m facebook/opt-125m --input-data=input_data.json --service-kind=openai --endpoint=v1/chat/completions --async
perf_analyzer -m my_model --service-kind=triton_c_api --triton-server-directory=/opt/tritonserver --model-repository=/my/model/repository
perf_analyzer -m <model_name> -i grpc --async --streaming --profile-export-file profile.json --periodic-concurrency-range 10:100:30 --request-period 10 --request-parameter max_tokens:256:int
perf_analyzer -m inception_graphdef --concurrency-range 1:4 -f perf.csv
# GenAI-Perf. https://github.com/triton-inference-server/perf_analyzer/blob/main/genai-perf/docs/
genai-perf profile -m HuggingFaceH4/zephyr-7b-beta --endpoint-type chat --streaming --request-count 10 --goodput time_to_first_token:75 inter_token_latency:19.75
genai-perf analyze -m gpt2 --backend vllm --sweep-type num_dataset_entries --sweep-range 100:200:50
genai-perf profile -m adapter1 adapter2 --tokenizer meta-llama/Llama-2-7b-hf --endpoint-type completions --model-selection-strategy round_robin
genai-perf profile -m TinyLlama/TinyLlama-1.1B-Chat-v1.0 --endpoint-type chat --num-sessions 10 --session-concurrency 5 --session-turns-mean 2 --session-turns-stddev 0 --session-turn-delay-mean 1000 --session-turn-delay-stddev 5 --synthetic-input-tokens-mean 50 --output-tokens-mean 50 --num-prefix-prompts 3 --prefix-prompt-length 15
# AIPerf. https://github.com/ai-dynamo/aiperf/blob/main/docs/
aiperf profile -m Qwen/Qwen3-0.6B --endpoint-type chat --streaming --url localhost:8000 --request-count 20 --goodput "time_to_first_token:100 inter_token_latency:3.40"
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --sequence-distribution "64|10,32|8:70;256|40,128|20:20;1024|100,512|50:10"
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --input-file precise_schedule.jsonl --custom-dataset-type mooncake_trace --fixed-schedule-start-offset 2000 --fixed-schedule-end-offset 4000
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --benchmark-duration 30.0 --benchmark-grace-period 15.0 --synthetic-input-tokens-mean 200 --synthetic-input-tokens-stddev 50 --output-tokens-mean 100 --output-tokens-stddev 20 --concurrency 5 --warmup-request-count 3 --random-seed 33333
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --streaming --url localhost:8000 --public-dataset sharegpt --request-count 20 --concurrency 4
curl -s localhost:8000/v1/chat/completions \
    -H "Content-Type: application/json" \
    -d '{"model":"Qwen/Qwen3-0.6B","messages":[{"role":"user","content":"test"}],"max_tokens":1}'
# vLLM. https://docs.vllm.ai/en/latest/benchmarking/sweeps/
vllm bench sweep serve \
    --serve-cmd 'vllm serve meta-llama/Llama-2-7b-chat-hf' \
    --bench-cmd 'vllm bench serve --model meta-llama/Llama-2-7b-chat-hf --backend vllm --endpoint /v1/completions --dataset-name sharegpt --dataset-path benchmarks/ShareGPT_V3_unfiltered_cleaned_split.json' \
    --serve-params benchmarks/serve_hparams.json \
    --bench-params benchmarks/bench_hparams.json \
    -o benchmarks/results
# https://docs.vllm.ai/en/latest/serving/parallelism_scaling/ and the command line's page
vllm serve meta-llama/Llama-3.2-1B-Instruct --data-parallel-size 4 --tensor-parallel-size 2
curl http://localhost:8000/v1/models
# SGLang. https://docs.sglang.io/docs/developer_guide/benchmark_and_profiling
python3 -m sglang.bench_serving --backend sglang --max-concurrency 16 --num-prompts 80 --random-input-len 256 --random-output-len 32 --dataset-name random
python3 -m sglang.bench_one_batch_server --base-url http://127.0.0.1:30000 --model-path meta-llama/Meta-Llama-3.1-8B-Instruct --batch-size 32 --input-len 256 --output-len 32
python3 -m sglang.bench_offline_throughput --model-path meta-llama/Meta-Llama-3.1-8B-Instruct --num-prompts 10
python -m sglang.bench_one_batch --model-path meta-llama/Meta-Llama-3.1-8B-Instruct --batch 32 --input-len 256 --output-len 32
# GuideLLM. https://github.com/vllm-project/guidellm/blob/main/docs/guides/outputs.md
guidellm benchmark \
  --target "http://localhost:8000" \
  --rate-type sweep \
  --max-seconds 30 \
  --data "prompt_tokens=256,output_tokens=128" \
  --output-extras '{"tag": "my_tag", "metadata": {"key": "value"}}'
guidellm benchmark --target http://localhost:8000 --rate-type concurrent --rate 1,5,10,25,50,100 --max-seconds 30 --data "prompt_tokens=1024,output_tokens=1024" --output-path results.json
# DGX Cloud Benchmarking. https://github.com/NVIDIA/dgxc-benchmarking/blob/main/cli/llmb-run/README.md
llmb-run submit -w pretrain_llama3.1 -s 405b --dtype fp8 --scale 128,256,512
llmb-run submit -w pretrain_llama3.1 -s 405b --dtype fp8 --scale 256 --env NCCL_DEBUG=INFO --env OTHER_VAR=test
llmb-run exemplar
llmb-run jobs log <job_id>
# NVIDIA's MLPerf code. https://github.com/mlcommons/inference_results_v5.0/blob/main/closed/NVIDIA/README.md
make run RUN_ARGS="--benchmarks=resnet50,bert --scenarios=offline,server"
make run RUN_ARGS="--benchmarks=llama2-70b --scenarios=offline --test_run --config_ver=high_accuracy"
make run_harness RUN_ARGS="--benchmarks=llama2-70b --scenarios=offline --test_mode=AccuracyOnly"
make run_harness_power RUN_ARGS="--benchmarks=llama2-70b --scenarios=offline"
make download_data BENCHMARKS="llama2-70b"
PARTNER_DROP=1 make prebuild
# …/inference_results_v5.1/blob/main/closed/NVIDIA/code/llama3_1-8b/tensorrt/README.md
make run_llm_server RUN_ARGS="--core_type=trtllm_endpoint --benchmarks=llama3.1-8b --scenarios=Offline"
make run_harness RUN_ARGS="--core_type=trtllm_endpoint --benchmarks=llama3.1-8b --scenarios=Server"
make run_llm_server RUN_ARGS="--benchmarks=gpt-oss-120b --scenarios=Server --core_type=trtllm_endpoint --test_mode=PerformanceOnly"
sbatch --nodes=1 -p gb200 ./scaleout/run_scaleout.sh --stage all --atomic-system GB200-NVL72_GB200-186GB_aarch64x1 --gpus-per-node 4 --run-args "--benchmarks=gpt-oss-120b --scenarios=Offline --core_type=trtllm_endpoint"
# Pages of vLLM, GuideLLM, TensorRT-LLM, GenAI-Perf and AIPerf, read last.
vllm bench serve --backend vllm --model meta-llama/Llama-3.1-8B-Instruct --endpoint /v1/completions --dataset-name sharegpt --dataset-path <your data path>/ShareGPT_V3_unfiltered_cleaned_split.json --num-prompts 100 --plot-timeline --timeline-itl-thresholds 2,5 --plot-dataset-stats --save-result
vllm bench serve --model openai/whisper-tiny --backend openai-audio --endpoint /v1/audio/transcriptions --dataset-name custom_audio --dataset-path audio_data.jsonl --no-oversample --custom-output-len 256 --save-result --save-detailed --result-filename whisper_bench.json
vllm bench serve --save-result --save-detailed --backend openai-chat --model Qwen/Qwen2-VL-7B-Instruct --endpoint /v1/chat/completions --dataset-name custom_image --dataset-path <path-to-your-image-data-jsonl> --custom-ensure-client-side-data
vllm bench serve --model meta-llama/Meta-Llama-3-8B-Instruct --dataset-name hf --dataset-path likaixin/InstructCoder --num-prompts 2048
vllm bench serve --model meta-llama/Meta-Llama-3-8B-Instruct --dataset-name spec_bench --dataset-path "<YOUR_DOWNLOADED_PATH>/data/spec_bench/question.jsonl" --num-prompts -1 --spec-bench-category "summarization"
vllm serve meta-llama/Meta-Llama-3-8B-Instruct --speculative-config $'{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 5, "prompt_lookup_min": 2}'
vllm bench sweep serve_sla --serve-cmd 'vllm serve meta-llama/Llama-2-7b-chat-hf' --bench-cmd 'vllm bench serve --model meta-llama/Llama-2-7b-chat-hf --backend vllm --endpoint /v1/completions --dataset-name sharegpt --dataset-path benchmarks/ShareGPT_V3_unfiltered_cleaned_split.json' --serve-params benchmarks/serve_hparams.json --bench-params benchmarks/bench_hparams.json --sla-params benchmarks/sla_hparams.json --sla-variable max_concurrency -o benchmarks/results
vllm bench sweep plot benchmarks/results/<timestamp> --var-x max_concurrency --row-by random_input_len --col-by random_output_len --curve-by api_server_count,max_num_batched_tokens --filter-by 'max_concurrency<=1024'
podman run --rm -it -v "./results:/results:rw" -e GUIDELLM_TARGET=http://localhost:8000 -e GUIDELLM_PROFILE=sweep -e GUIDELLM_MAX_SECONDS=30 -e GUIDELLM_DATA="prompt_tokens=256,output_tokens=128" ghcr.io/vllm-project/guidellm:latest
guidellm benchmark --target http://localhost:8000 --request-type chat_completions --data path/to/data.json
guidellm benchmark run-embeddings --target http://localhost:8000 --model text-embedding-3-small --data "prompt_tokens=256" --max-requests 100
trtllm-bench --tp $tp_size --pp $pp_size --model $model_name throughput --dataset $dataset_file --backend pytorch --extra_llm_api_options $llm_options
python benchmarks/cpp/prepare_dataset.py --tokenizer=$model_name --stdout token-norm-dist --num-requests=$num_requests --input-mean=$isl --output-mean=$osl --input-stdev=0 --output-stdev=0 > $dataset_file
genai-perf profile -m gpt2 --service-kind triton --backend tensorrtllm --synthetic-input-tokens-mean 200 --synthetic-input-tokens-stddev 0 --output-tokens-mean 100 --output-tokens-stddev 0 --output-tokens-mean-deterministic --streaming --request-count 50 --warmup-request-count 10
docker run -it --net=host --gpus=all vllm/vllm-openai:latest --model HuggingFaceH4/zephyr-7b-beta --dtype float16
docker run --gpus all -p 8000:8000 vllm/vllm-openai:latest --model Qwen/Qwen3-0.6B --host 0.0.0.0 --port 8000 &
aiperf profile --config kserve-grpc.yaml
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --conversation-num 15 --conversation-turn-mean 4 --conversation-turn-stddev 1 --conversation-turn-delay-mean 2000 --conversation-turn-delay-stddev 500 --synthetic-input-tokens-mean 180 --output-tokens-mean 120 --concurrency 3 --random-seed 42
aiperf profile --model Qwen/Qwen3-0.6B --endpoint-type chat --endpoint /v1/chat/completions --streaming --url localhost:8000 --conversation-num 30 --conversation-turn-mean 4 --request-rate 5 --request-rate-mode poisson --synthetic-input-tokens-mean 200 --output-tokens-mean 150 --random-seed 42
INFERENCE_URL=http://gpu-server:8000/v1/chat/completions MODEL_NAME=nvidia/Llama-3.1-Nemotron-70B-Instruct NUM_RUNS=5 DURATION=300 aiperf --config sweep_ci.yaml
