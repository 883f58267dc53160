# Lines as people write them in issues and in scripts of their own: prefixes, loops, containers and waiting around the tools.
N=4; vllm bench serve --model m --dataset-name random --num-prompts $((N*10))
for c in 1 2 4; do genai-perf profile -m gpt2 --service-kind openai --endpoint-type completions --concurrency $c --url localhost:8000 --request-count $((c*10)); done
CONC="1 8 64"; for c in $CONC; do python -m sglang.bench_serving --backend vllm --dataset-name random --random-input 1024 --random-output 128 --max-concurrency $c --num-prompts $((c * 8)); done
python3 /app/scripts/launch_triton_server.py --world_size=2 --model_repo=/models --grpc_port 9001; timeout 300 bash -c 'until curl -s localhost:8000/v2/health/ready; do sleep 1; done'; perf_analyzer -m ensemble -u localhost:9001 -i grpc --streaming --concurrency-range 8 --request-count 100; pkill tritonserver
VLLM_USE_V1=1 python -m vllm.entrypoints.openai.api_server --model m --port 8000 & while [[ "$(curl -s -o /dev/null -w '%{http_code}' localhost:8000/health)" != "200" ]]; do sleep 5; done; vllm bench serve --model m --port 8000 --dataset-name random --num-prompts 10 | tee out.log; kill %1
mkdir -p out && sleep 3
sudo docker run -d --name vllm --gpus all -p 9000:8000 vllm/vllm-openai:latest --model facebook/opt-125m && sleep 60 && vllm bench serve --base-url http://localhost:9000 --model facebook/opt-125m --dataset-name random --random-input-len 10 --num-prompts 10; docker stop vllm
docker run --gpus '"device=0,1"' --rm -it --net host --shm-size=2g -v ~/.cache/huggingface:/root/.cache/huggingface -e HF_TOKEN=hf_xxx nvcr.io/nvidia/tritonserver:25.06-trtllm-python-py3 bash -c "python3 /app/scripts/launch_triton_server.py --world_size=2 --model_repo=/models && sleep infinity"
srun -A myacct -p batch -N 2 --ntasks-per-node=8 --gres=gpu:8 --mpi=pmix --container-image=nvcr.io#nvidia/tritonserver:25.06-trtllm-python-py3 --container-mounts=/lustre/models:/models --pty trtllm-llmapi-launch trtllm-serve /models/llama-405b --tp_size 16 --port 8000
nsys profile -o trace --trace=cuda,nvtx vllm bench latency --model m --input-len 32 --output-len 8 --batch-size 4 --num-iters-warmup 2 --num-iters 5
numactl -N 0 -m 0 trtllm-serve m --tp_size 2
genai-perf profile -m gpt2 --service-kind openai --endpoint-type completions --concurrency $CONC --request-count $N --url localhost:8000
nsys profile -o launch python3 /app/scripts/launch_triton_server.py --world_size=1 --model_repo=/models
export RUN_ARGS="--benchmarks=llama2 --scenarios=Offline"; make generate_engines && make run_harness
perf_analyzer -m tensorrt_llm -i grpc --shape input_ids:128 --shape input_lengths:1 --input-data random --measurement-mode count_windows --measurement-request-count 20 -p 4000 --streaming
