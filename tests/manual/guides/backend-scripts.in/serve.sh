MODELS=triton_model_repo
python3 tools/fill_template.py -i $MODELS/tensorrt_llm/config.pbtxt triton_max_batch_size:64,decoupled_mode:True,engine_dir:engines/gpt
python3 scripts/launch_triton_server.py --world_size=4 --model_repo=$MODELS &
sleep 60
python3 benchmark_core_model.py -i grpc --request_rate 10 --max_input_len 300 --decoupled token_norm_dist --input_mean 128 --input_stdev 5 --output_mean 20 --output_stdev 2 --num_requests 500
pkill tritonserver
