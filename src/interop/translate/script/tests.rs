//! Scripts as a whole: what is named of each command, and which server a measurement is of.

use super::*;

fn untranslated(script: &str) -> Vec<String> {
    let translation = read_scripts(&[("job.sh".to_owned(), script.to_owned())]).expect("a script");
    translation.untranslated.into_iter().map(|option| format!("{}: {}", option.argument, option.why)).collect()
}

#[test]
fn locked_clocks_that_no_stage_has_are_named() {
    let left = untranslated("nvidia-smi -lgc 1410,1410\ntritonserver --model-repository=/models\n");
    assert!(left.iter().any(|text| text.contains("`gpu_clocks: { graphics: [1410,1410] }`")), "{left:?}");
    let locked = "nvidia-smi -lgc 1410\nlaunch_triton_server.py --world_size 2 --model_repo /models\n";
    assert_eq!(untranslated(locked), Vec::<String>::new());
}

#[test]
fn options_of_a_command_without_a_meaning_are_named() {
    let left = untranslated("srun -J mine -o out.txt --container-image a#b bash job.sh\nvllm serve m\n").join("\n");
    for argument in ["-J mine", "-o out.txt", "--container-image: `container: { image: \"a/b\" }`"] {
        assert!(left.contains(argument), "{argument}: {left}");
    }
}

#[test]
fn a_measurement_behind_a_server_that_is_kept_up_is_of_its_run() {
    let script = "triton start --backend tensorrtllm\ngenai-perf -m gpt2 --url localhost:8001\n\
        triton start --backend vllm\ngenai-perf -m gpt2\ngenai-perf -m gpt2 --url gpu7:8001\n\
        vllm serve m --port 8000\ngenai-perf -m m --endpoint-type chat --url localhost:8000\n";
    let TranslationKind::Script(script) =
        read_scripts(&[("job.sh".to_owned(), script.to_owned())]).expect("a script").kind
    else {
        panic!("several stages and runs")
    };
    let runs: Vec<Option<usize>> = script.benches.iter().map(|bench| bench.run).collect();
    assert_eq!((runs, script.runs.len()), (vec![Some(0), Some(1), None, None], 2));
    assert_eq!(script.benches[3].server.as_deref(), Some("server"));
}

#[test]
fn a_job_of_one_command_keeps_its_directives() {
    let script = "#!/bin/bash\n#SBATCH -p gpu\n#SBATCH -J mine\nvllm bench serve --model m\n";
    let translation = read_scripts(&[("job.sh".to_owned(), script.to_owned())]).expect("a script");
    assert!(translation.notes[0].contains("--slurm partition=gpu"), "{:?}", translation.notes);
    assert!(translation.untranslated.iter().any(|option| option.argument == "#SBATCH -J mine"));
}

fn files(files: &[(&str, &str)]) -> Translation {
    let files: Vec<(String, String)> = files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    read_scripts(&files).expect("scripts")
}

fn stages(translation: &Translation) -> &Map<String, Value> {
    match &translation.kind {
        TranslationKind::Script(script) => &script.stages,
        TranslationKind::Manifest(manifest) => manifest["stages"].as_object().expect("stages"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_script_that_another_one_starts_is_read_with_its_arguments() {
    let main =
        ("all.sh", "export TP=2\nSIZE=8\nbash ./serve.sh Qwen/Qwen3-8B 9000 &\nsource env.sh\n./bench.sh $NAME\n");
    let serve = ("serve.sh", "vllm serve $1 --port ${2:-8000} -tp $TP --max-num-seqs ${SIZE:-4}\n");
    let bench = ("bench.sh", "#!/bin/sh\nvllm bench serve --model \"$1\" --port 9000 --dataset-name random\n");
    let translation = files(&[main, serve, bench, ("env.sh", "NAME=Qwen/Qwen3-8B\n")]);
    let server = &stages(&translation)["server"]["serve"]["vllm"];
    assert_eq!((&server["model"], &server["port"]), (&json!("Qwen/Qwen3-8B"), &json!(9000)));
    // Only what is exported is there.
    assert_eq!((&server["tensor_parallel_size"], &server["max_num_seqs"]), (&json!(2), &json!(4)));
    let TranslationKind::Script(script) = &translation.kind else { panic!("several stages") };
    assert_eq!(script.benches[0].server.as_deref(), Some("server"));
    assert_eq!(translation.unknown, []);
    // A script that starts itself is read once.
    files(&[("loop.sh", "for i in 1 2 3; do bash loop.sh; done\nvllm serve m\n")]);
}

#[test]
fn the_script_of_a_job_has_its_ranks_and_its_container() {
    let job = "#!/bin/bash\n#SBATCH -p gpu --nodes=1 --ntasks-per-node=8\nsrun --mpi=pmix --container-image img \
        --container-mounts /lustre:/models bash ./ranks.sh\n";
    let ranks = "T=/opt/tritonserver/bin/tritonserver\n${T} --model-repository=/models/repo \
        --backend-config=python,shm-region-prefix-name=prefix${SLURM_PROCID}_\n";
    let translation = files(&[("job.sub", job), ("ranks.sh", ranks)]);
    let stage = &stages(&translation)["triton"];
    let server = &stage["serve"]["triton"];
    assert_eq!((&stage["gpus"], &server["world_size"], &server["launcher"]), (&json!(8), &json!(8), &json!("srun")));
    assert_eq!(server["repository"], "/lustre/repo");
    assert!(server["srun"]["args"].to_string().contains("--container-image=img"), "{server}");
}

#[test]
fn a_file_that_a_stage_reads_is_written_by_a_stage_of_its_own() {
    let script = "TP=4\ncat > extra.yml <<EOF\nmoe: { tp: $TP }\nEOF\ncat > other.txt <<EOF\nx\nEOF\n\
        trtllm-serve m --extra_llm_api_options ./extra.yml\n";
    let translation = files(&[("run.sh", script)]);
    let stages = stages(&translation);
    let text = stages["write_extra_yml"]["shell"].as_str().expect("a shell");
    assert!(text.contains("moe: { tp: 4 }"), "{text}");
    assert_eq!(stages["server"]["inputs"]["extra_llm_api_options"], "{{ stages.write_extra_yml.out }}/extra.yml");
    let left: Vec<&str> = translation.untranslated.iter().map(|option| option.argument.as_str()).collect();
    assert_eq!(left, ["run.sh:5: cat > other.txt"]);
}

#[test]
fn the_commands_of_a_function_are_read_once() {
    let script = "start () {\n  vllm serve m --port 9000 &\n}\nfunction wait_ready { sleep 5; }\nstart\nwait_ready\n\
        vllm bench serve --model m --port 9000\n";
    let translation = files(&[("run.sh", script)]);
    let TranslationKind::Script(script) = &translation.kind else { panic!("several stages") };
    assert_eq!((script.stages.len(), script.benches[0].server.as_deref()), (1, Some("server")));
    assert!(!translation.untranslated.iter().any(|option| option.why.contains("`shell` stage")), "{translation:?}");
}
