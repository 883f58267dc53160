# In the form of round v5.1, with values of the table of published settings.
import os

import code.common.constants as C
import code.fields.harness as harness_fields
import code.fields.loadgen as loadgen_fields
import code.fields.models as model_fields
import code.fields.triton as triton_fields
import code.llmlib.fields as llm_fields

os.environ['FORCE_NCCL_ALL_REDUCE_STRATEGY'] = '1'

base = {
    model_fields.gpu_batch_size: {'llama2-70b': 2048},
    model_fields.precision: 'fp8',
    llm_fields.llm_gen_config_path: 'code/llama2-70b/tensorrt/generation_config.json',
    harness_fields.tensor_path: 'build/preprocessed_data/llama2-70b',
    loadgen_fields.min_duration: 600000 * 4,
    llm_fields.tensor_parallelism: 1,
    llm_fields.pipeline_parallelism: 1,
    llm_fields.trtllm_checkpoint_flags: {'kv_cache_dtype': 'fp8'},
    llm_fields.trtllm_build_flags: {
        'max_num_tokens': 1536,
        'max_input_len': 1024,
        'max_seq_len': 2048,
        'gemm_swiglu_plugin': 'fp8',
        'tokens_per_block': 32,
    },
    llm_fields.trtllm_runtime_flags: {
        'batch_scheduler_policy': 'max_util',
        'kvcache_free_gpu_mem_frac': 0.9,
        'enable_chunked_context': True,
        'max_concurrency': -1,
    },
    harness_fields.vboost_slider: 1,
}

if os.environ.get('QUICK'):
    base[loadgen_fields.min_duration] = 60000

EXPORTS = {
    C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.99), C.PowerSetting.MaxP): {
        **base,
        loadgen_fields.server_target_qps: 14.28 * 8,
    },
    C.WorkloadSetting(C.HarnessType.Triton, C.AccuracyTarget(0.999), C.PowerSetting.MaxP): {
        **base,
        loadgen_fields.server_target_qps: 110,
        triton_fields.triton_num_clients_per_frontend: 2,
        triton_fields.triton_num_frontends_per_model: 4,
        triton_fields.triton_num_servers: 8,
        triton_fields.triton_num_severs: 8,
    },
}
