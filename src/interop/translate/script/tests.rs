//! Scripts as a whole: what is named of each command, and which server a measurement is of.

use super::*;

fn untranslated(script: &str) -> Vec<String> {
    let translation = read_script("job.sh", script).expect("a script");
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
    let TranslationKind::Script(script) = read_script("job.sh", script).expect("a script").kind else {
        panic!("several stages and runs")
    };
    let runs: Vec<Option<usize>> = script.benches.iter().map(|bench| bench.run).collect();
    assert_eq!((runs, script.runs.len()), (vec![Some(0), Some(1), None, None], 2));
    assert_eq!(script.benches[3].server.as_deref(), Some("server"));
}

#[test]
fn a_job_of_one_command_keeps_its_directives() {
    let script = "#!/bin/bash\n#SBATCH -p gpu\n#SBATCH -J mine\nvllm bench serve --model m\n";
    let translation = read_script("job.sh", script).expect("a script");
    assert!(translation.notes[0].contains("--slurm partition=gpu"), "{:?}", translation.notes);
    assert!(translation.untranslated.iter().any(|option| option.argument == "#SBATCH -J mine"));
}
