#!/bin/sh
# The page of the backend, from an engine that is there to a measurement.
ENGINE_DIR=engines/gpt
TOKENIZER_DIR=models/gpt2
export MODEL_FOLDER=triton_model_repo
MAX_BATCH_SIZE=4
FILL=tensorrtllm_backend/tools/fill_template.py

mkdir ${MODEL_FOLDER}
cp -r tensorrtllm_backend/all_models/inflight_batcher_llm/* ${MODEL_FOLDER}/
python3 ${FILL} -i ${MODEL_FOLDER}/ensemble/config.pbtxt triton_max_batch_size:${MAX_BATCH_SIZE}
python3 ${FILL} -i ${MODEL_FOLDER}/preprocessing/config.pbtxt tokenizer_dir:${TOKENIZER_DIR},triton_max_batch_size:${MAX_BATCH_SIZE},preprocessing_instance_count:1
python3 ${FILL} -i ${MODEL_FOLDER}/tensorrt_llm/config.pbtxt triton_backend:tensorrtllm,triton_max_batch_size:${MAX_BATCH_SIZE},decoupled_mode:true,engine_dir:${ENGINE_DIR},max_queue_delay_microseconds:10000,batching_strategy:inflight_fused_batching,max_queue_size:0
python3 ${FILL} -i ${MODEL_FOLDER}/postprocessing/config.pbtxt tokenizer_dir:${TOKENIZER_DIR},triton_max_batch_size:${MAX_BATCH_SIZE},postprocessing_instance_count:1
python3 ${FILL} -i ${MODEL_FOLDER}/tensorrt_llm_bls/config.pbtxt triton_max_batch_size:${MAX_BATCH_SIZE},decoupled_mode:true,bls_instance_count:1
python3 tensorrtllm_backend/scripts/launch_triton_server.py --world_size=4 --model_repo=${MODEL_FOLDER} &
sleep 60
genai-perf profile -m ensemble --backend tensorrtllm --streaming \
    --isl 200 --osl 100 --request-count 50
pkill tritonserver
