//! Scripts as a whole: what is named of each command, and which server a measurement is of.

use super::*;
use crate::command_line::TranslatedBench;

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

#[test]
fn a_wait_before_the_first_measurement_is_one_for_its_server() {
    let bench = "vllm bench serve --model m --base-url http://gpu7:8000\n";
    for (wait, expected) in [
        ("sleep 45\n", Some("45s")),
        ("sleep 0.5\n", Some("1s")),
        ("sleep 2m\n", Some("120s")),
        ("until curl -s http://gpu7:8000/health; do sleep 2; done\n", Some("600s")),
        ("while ! nc -z gpu7 8000; do sleep 1; done\n", Some("600s")),
        ("timeout 90 bash -c 'until curl -sf gpu7:8000/health; do sleep 1; done' || exit 1\n", Some("90s")),
        ("ready() { timeout 1200 bash -c 'until curl -s x; do sleep 1; done' && return 0; }\nready\n", Some("1200s")),
        ("wait\n", None),
    ] {
        let translation = read_scripts(&[("job.sh".to_owned(), format!("{wait}{bench}sleep 900\n{bench}"))]);
        let TranslationKind::Script(script) = translation.expect(wait).kind else { panic!("{wait}") };
        let timeouts: Vec<_> = script.benches.iter().map(|one| one.bench.value("--ready-timeout")).collect();
        assert_eq!(timeouts, [expected; 2], "{wait}");
    }
    // A server of the script is waited for anyway.
    let served = read_scripts(&[(
        "job.sh".to_owned(),
        format!("vllm serve m --port 8000\nsleep 45\n{}", bench.replace("gpu7", "localhost")),
    )]);
    let TranslationKind::Script(script) = served.expect("a script").kind else { panic!("a server and a benchmark") };
    assert_eq!(script.benches[0].bench.value("--ready-timeout"), None);
}

#[test]
fn a_command_behind_a_pipe_runs_with_the_one_in_front_of_it() {
    let script = |test: &str| format!("[ {test} ] && vllm serve a | vllm serve b\nvllm serve c\n");
    for (test, expected) in [("2 -gt 1", &["a", "b", "c"][..]), ("1 -gt 2", &["c"]), ("-f log", &["a", "b", "c"])] {
        let translation = files(&[("run.sh", &script(test))]);
        let models: Vec<&str> =
            stages(&translation).values().filter_map(|stage| stage["serve"]["vllm"]["model"].as_str()).collect();
        assert_eq!(models, expected, "{test}");
    }
    let left = untranslated("[ -f log ] && cat log | grep x\nvllm serve c\n");
    assert!(left[0].starts_with("job.sh:1: [ -f log ]: loops and conditions are not followed"), "{left:?}");
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
fn of_a_library_only_the_functions_that_are_called_are_read() {
    let library = "one() { vllm bench serve --model m --max-concurrency 1; }\ntwo() { vllm bench serve --model n; }\n";
    let translation = files(&[("run.sh", "source lib.sh\none\n"), ("lib.sh", library)]);
    let TranslationKind::Bench(only) = &translation.kind else { panic!("{:?}", translation.kind) };
    assert_eq!((only.value("--concurrency"), translation.notes.len()), (Some("1"), 1), "{:?}", translation.notes);
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
fn a_function_is_read_where_it_is_called_with_its_arguments() {
    let script = "bench() {\n  local c=$1\n  vllm bench serve --model m --port 9000 --max-concurrency $c $2\n}\n\
        start () {\n  vllm serve m --port 9000 &\n}\nfunction wait_ready { sleep 5; }\nstart\nwait_ready\n\
        bench 4 \"--seed 3\"\nbench 8\nagain() { again; }\nagain\n\
        unused() { tritonserver --model-repository=/m; }\n";
    let translation = files(&[("run.sh", script)]);
    let TranslationKind::Script(script) = &translation.kind else { panic!("several stages") };
    let bench = |at: usize| (script.benches[at].server.as_deref(), script.benches[at].bench.args.join(" "));
    assert_eq!((script.benches.len(), script.stages.len()), (2, 2));
    assert!(bench(0).1.contains("--concurrency 4") && bench(0).1.contains("--seed 3"), "{:?}", bench(0));
    assert!(bench(1).1.contains("--concurrency 8") && bench(1).0 == Some("server"), "{:?}", bench(1));
    // A function that calls itself is read once.
    let mut unknown = translation.untranslated.iter().filter(|option| option.why.contains("`shell` stage"));
    assert!(unknown.all(|option| option.argument.contains("again")), "{translation:?}");
    assert!(translation.notes.iter().any(|note| note.contains("no command calls the function `unused`")));
}

#[test]
fn what_a_condition_sets_to_several_values_is_named() {
    for (script, expected) in [
        ("if [ $M = a ]; then TP=8; else TP=4; fi\nvllm serve m -tp $TP\n", Some("TP=4: a condition")),
        ("X=\nif [[ $M = a ]]; then\n  X='-q fp8'\nfi\nvllm serve m $X\n", Some("one of ``, `-q fp8`")),
        ("case $M in a) TP=8;; *) TP=4;; esac\nvllm serve m -tp $TP\n", Some("one of `4`, `8`")),
        ("if [ $M = a ]; then TP=4; fi\nvllm serve m -tp $TP\n", None),
        ("if [ $M = a ]; then echo; fi\nTP=4; TP=8\nvllm serve m -tp $TP\n", None),
    ] {
        let left = untranslated(script).join("\n");
        assert_eq!(expected.is_some(), left.contains("a condition, which is not followed"), "{script}: {left}");
        assert!(expected.is_none_or(|text| left.contains(text)), "{script}: {left}");
    }
}

#[test]
fn loops_in_one_line_and_counted_ones_are_written_out() {
    let bench = "vllm bench serve --model m --max-concurrency $c --num-prompts $n";
    for (script, count) in [
        (format!("for n in 1 2; do for c in 4 8; do {bench}; done; done\n"), 4),
        (format!("for ((c=1; c<=8; c*=2)); do\n  {bench}\n  ((n++))\ndone\n"), 4),
    ] {
        let translation = files(&[("run.sh", &script)]);
        let TranslationKind::Script(read) = &translation.kind else { panic!("several stages") };
        assert_eq!(read.benches.len(), count, "{script}");
        assert!(translation.untranslated.is_empty(), "{script}: {:?}", translation.untranslated);
    }
}

#[test]
fn a_command_in_a_container_that_is_there_is_read_as_the_command() {
    let compose = ["docker compose -f c.yaml exec -T bench", "docker-compose run --rm bench"];
    let others = ["docker exec -it bench", "podman exec -e A=1 bench", "kubectl exec -n ns deploy/v -c main --"];
    for front in compose.into_iter().chain(others) {
        let translation = files(&[("run.sh", &format!("{front} vllm bench serve --model m --num-prompts 7\n"))]);
        let TranslationKind::Bench(bench) = &translation.kind else { panic!("{front}: {:?}", translation.kind) };
        assert!(bench.args.join(" ").contains("--requests 7"), "{front}: {bench:?}");
        let reasons: Vec<&str> = translation.untranslated.iter().map(|option| option.why.as_str()).collect();
        assert!(reasons.len() == 1 && reasons[0].contains("it runs in a"), "{front}: {reasons:?}");
    }
}

#[test]
fn dashes_and_quotes_of_a_word_processor_are_read_as_typed() {
    let translation = files(&[("x.sh", "vllm bench serve —model m –-num-prompts 7 --dataset-name “random”\n")]);
    let TranslationKind::Bench(bench) = &translation.kind else { panic!("{translation:?}") };
    assert!(bench.args.join(" ").contains("--requests 7"), "{bench:?}");
    assert!(translation.notes.iter().any(|note| note.starts_with("typographic")), "{:?}", translation.notes);
}

#[test]
fn an_option_of_slurm_that_is_not_known_is_one_error() {
    let error = |line: &str| {
        read_scripts(&[("x.sh".to_owned(), format!("{line} vllm serve m --port 8000\n"))]).map(|read| read.untranslated)
    };
    let problems = error("srun --no-such 1").expect_err("an unknown option").problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    for line in ["srun --no-such=1", "srun --het-group=0", "srun --mem-per-gpu 10G -m block"] {
        let left = error(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(!left.is_empty(), "{line}");
    }
}

#[test]
fn a_command_in_an_allocation_of_its_own_is_read() {
    let translation = files(&[("x.sh", "salloc -N 1 -p gpu srun vllm serve m --port 8000\n")]);
    assert!(stages(&translation).contains_key("server"), "{translation:?}");
    assert!(translation.notes.iter().any(|note| note.contains("--slurm partition=gpu")), "{:?}", translation.notes);
}

#[test]
fn a_certificate_is_not_verified_only_where_there_is_one() {
    for (target, is_kept) in [("http://h:1", false), ("https://h:1", true)] {
        let line = format!("vllm bench serve --model m --base-url {target} --insecure\n");
        let translation = files(&[("x.sh", &line)]);
        let TranslationKind::Bench(bench) = &translation.kind else { panic!("{translation:?}") };
        assert_eq!(bench.args.contains(&"--insecure".to_owned()), is_kept, "{target}: {bench:?}");
    }
}

/// The arguments of each measurement in a script.
fn bench_lines(script: &str) -> Vec<String> {
    match files(&[("job.sh", script)]).kind {
        TranslationKind::Script(script) => script.benches.iter().map(|it| it.bench.args.join(" ")).collect(),
        TranslationKind::Bench(bench) => vec![bench.args.join(" ")],
        other => panic!("{other:?}"),
    }
}

#[test]
fn elements_of_an_array_with_names_are_those_of_their_keys() {
    let line = "vllm bench serve --model m --dataset-name random --random-output-len 8";
    let script = format!(
        "declare -A LEN=([short]=128 [long]=8192)\n\
        for k in short long; do\n{line} --random-input-len ${{LEN[$k]}}\ndone\n\
        for k in \"${{!LEN[@]}}\"; do\n{line} --random-input-len ${{LEN[$k]}} --seed 1\ndone\n\
        for k in a b; do\n{line} --random-input-len ${{OTHER[$k]}}\ndone\n"
    );
    let lines = bench_lines(&script);
    let lengths: Vec<&str> =
        lines.iter().filter_map(|line| line.split("--input-tokens ").nth(1)?.split(' ').next()).collect();
    assert_eq!(lengths, ["128", "8192", "128", "8192", "{{other_a:int}}", "{{other_b:int}}"], "{lines:?}");
}

#[test]
fn what_stands_in_front_of_a_known_line_does_not_hide_it() {
    let line = "vllm bench serve --model m --max-concurrency 3";
    for written in [
        format!("{line} \"$@\"\n"),
        format!("{line} ${{@:2}}\n"),
        format!("$PROFILER {line}\n"),
        format!("ionice -c2 -n0 {line}\n"),
        format!("CMD=\"{line}\"\neval $CMD\n"),
        format!("eval \"{line}\"\n"),
    ] {
        let lines = bench_lines(&written);
        assert!(lines.len() == 1 && lines[0].contains("--concurrency 3"), "{written}: {lines:?}");
    }
    let notes = files(&[("job.sh", &format!("$PROFILER {line} $@\n"))]).notes.join("\n");
    for part in ["`${PROFILER}` in front of `vllm`", "`$@`"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
}

#[test]
fn what_a_loop_leaves_is_named_once() {
    let left = untranslated(
        "for c in 1 2 4; do\necho $c\nvllm bench serve --model m --max-concurrency $c --save-result\ndone\n",
    );
    for part in ["job.sh:2:", "--save-result"] {
        assert_eq!(left.iter().filter(|text| text.contains(part)).count(), 1, "{part}: {left:?}");
    }
    let left = untranslated("read -r N\nvllm bench serve --model m --max-concurrency $N\n").join("\n");
    assert!(left.contains("write `NAME=VALUE` in its place"), "{left}");
}

/// A benchmark that a script composes, as its command.
fn composed(script: &str) -> String {
    match files(&[("job.sh", script)]).kind {
        TranslationKind::Bench(bench) => bench.args.join(" "),
        TranslationKind::Script(script) => script.benches.iter().map(|it| it.bench.args.join(" ")).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_of_an_array_may_have_blanks() {
    let script = "A=(\n  --target http://h:8000\n  --backend-kwargs '{\"validate_backend\": false}'\n)\n\
        guidellm benchmark run \"${A[@]}\" --profile synchronous --data \"prompt_tokens=5\" --max-requests 3\n";
    assert!(composed(script).starts_with("http://h:8000 "), "{}", composed(script));
}

#[test]
fn a_line_that_is_only_a_variable_is_read_as_nothing() {
    let translation = files(&[("job.sh", "bash -c \"\n  $PROLOGUE\n  vllm serve m\n\"\n")]);
    assert!(stages(&translation).contains_key("server"));
    assert!(translation.notes.iter().any(|note| note.contains("only a variable")), "{:?}", translation.notes);
}

#[test]
fn a_measurement_whose_output_a_variable_keeps_is_read() {
    let line = "vllm bench serve --model m --dataset-name random";
    for kept in [
        format!("R=$({line} --max-concurrency $c 2>&1 | tail -3)"),
        format!("local R=\"$({line} \\\n --max-concurrency $c)\""),
    ] {
        let lines =
            bench_lines(&format!("{line} --num-prompts 3\nfor c in 1 4; do\n{kept}\necho \"$R\" | grep TPOT\ndone\n"));
        assert_eq!(lines.len(), 3, "{kept}: {lines:?}");
        assert!(lines[2].contains("--concurrency 4"), "{lines:?}");
    }
    // What another command prints is a value.
    let other = bench_lines("IP=$(hostname -I)\nvllm bench serve --model m --host $IP\n");
    assert!(other.len() == 1 && other[0].contains("{{ip}}"), "{other:?}");
}

#[test]
fn what_a_test_over_known_values_guards_is_read_as_the_shell_runs_it() {
    let loops = |guard: &str| {
        let script = format!(
            "for c in 1 600; do\nN=$((c * 4)); {guard}\n\
            vllm bench serve --model m --max-concurrency $c --num-prompts $N\ndone\n"
        );
        let count =
            |line: &String| line.split("--requests ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
        bench_lines(&script).iter().filter_map(count).collect::<Vec<_>>().join(" ")
    };
    for (guard, counts) in [
        ("[ \"$N\" -gt 1024 ] && N=1024", "4 1024"),
        ("[[ $N -le 1024 ]] || N=1024", "4 1024"),
        ("test $c = 1 && N=7 || N=8", "7 8"),
        ("[ -z \"$c\" ] && N=1", "4 2400"),
    ] {
        assert_eq!(loops(guard), counts, "{guard}");
    }
    let unknown = untranslated("N=4\n[ -f big ] && N=8\nvllm bench serve --model m --num-prompts $N\n").join("\n");
    assert!(unknown.contains("sets it to one of `4`, `8`"), "{unknown}");
}

#[test]
fn a_function_in_a_loop_does_not_end_it() {
    let script =
        "for c in 1 8; do\n  log() { echo \"$1\"; }\n  vllm bench serve --model m --max-concurrency $c\ndone\n";
    let TranslationKind::Script(script) = files(&[("run.sh", script)]).kind else { panic!("two benchmarks") };
    let levels: Vec<String> = script.benches.iter().map(|written| written.bench.args.join(" ")).collect();
    assert!(levels.len() == 2 && levels[0].contains("--concurrency 1"), "{levels:?}");
}

#[test]
fn a_command_in_an_array_of_a_function_is_read() {
    let script = "run() {\n  local args=(\n    vllm bench serve\n    --model m\n    --max-concurrency \"$1\"\n  )\n  \
        \"${args[@]}\"\n}\nrun 7\n";
    assert!(composed(script).contains("--concurrency 7"), "{}", composed(script));
}

#[test]
fn a_file_that_echo_writes_is_written_by_a_stage_where_one_reads_it() {
    let script = "echo -e \"a: 1\\nb: 2\" > /tmp/x.yml\necho 'c: 3' >> /tmp/x.yml\n\
        cat >> /tmp/x.yml << EOF\nd: 4\nEOF\necho 'e: 5' >> /tmp/x.yml 2>&1\necho done >> log.txt\n\
        trtllm-serve m --extra_llm_api_options /tmp/x.yml\n";
    let translation = files(&[("run.sh", script)]);
    let text = stages(&translation)["write_x_yml"]["shell"].as_str().expect("a shell");
    assert!(text.contains("\na: 1\nb: 2\nc: 3\nd: 4\ne: 5\n"), "{text}");
    assert!(translation.untranslated.is_empty(), "{:?}", translation.untranslated);
}

#[test]
fn what_is_printed_beside_a_line_without_a_place_is_no_reason() {
    let line = "guidellm benchmark --target http://h:1 --data org/set --rate-type synchronous";
    let text = |line: &str| match crate::read_line(&[line.to_owned()]).expect("a sentence").kind {
        TranslationKind::Nothing(text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(text(&format!("{line} || true")), text(line));
    assert!(text("true").contains("`true`"), "{}", text("true"));
}

#[test]
fn a_variable_that_a_client_reads_has_a_place() {
    let left =
        untranslated("export OPENAI_API_BASE=http://h:1/v1\nexport OTHER=1\npython token_benchmark_ray.py --model m\n");
    assert!(left.iter().all(|text| !text.contains("OPENAI_API_BASE")), "{left:?}");
    assert!(left.iter().any(|text| text.starts_with("OTHER=…")), "{left:?}");
}

#[test]
fn the_command_of_nvidias_container_is_the_line() {
    let run = |line: &str| match crate::read_line(&[line.to_owned()]).expect("a run").kind {
        TranslationKind::Run(run) => run,
        other => panic!("{other:?}"),
    };
    let inner = "make run_harness RUN_ARGS=\"--benchmarks=llama2-70b --scenarios=Server\"";
    assert_eq!(run(&format!("make launch_docker DOCKER_COMMAND='{inner}'")), run(inner));
}

#[test]
fn a_downloader_of_mlcommons_is_a_stage_that_later_paths_read() {
    const URI: &str = "https://inference.mlcommons-storage.org/metadata/llama3-1-8b-cnn-eval.uri";
    for front in [
        "bash <(curl -s https://raw.githubusercontent.com/mlcommons/r2-downloader/main/mlc-r2-downloader.sh)",
        "bash /tmp/mlc-r2-downloader.sh",
        "./mlc-r2-downloader.sh",
    ] {
        let translation = files(&[("x.sh", &format!("{front} {URI} -d data -s\nvllm serve ./data/model\n"))]);
        let stages = stages(&translation);
        let stage = &stages["download_llama3_1_8b_cnn_eval"];
        assert!(stage["shell"].as_str().is_some_and(|text| text.contains(&format!("-s -d . {URI}"))), "{stage}");
        assert_eq!(stage["secrets"][0], "CF_ACCESS_CLIENT_ID", "{front}");
        assert_eq!(stages["server"]["serve"]["vllm"]["model"], "{{ stages.download_llama3_1_8b_cnn_eval.out }}/model");
    }
    let error = crate::read_line(&["./mlc-r2-downloader.sh -d data".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("needs one address"), "{error}");
}

#[test]
fn a_reference_implementation_is_named_with_the_run_of_its_workload() {
    let sentence = |line: &str| match crate::read_line(&[line.to_owned()]).expect("a sentence").kind {
        TranslationKind::Nothing(text) => text,
        other => panic!("{line}: {other:?}"),
    };
    for (line, run) in [
        ("python -u main.py --scenario Offline --user-conf user.conf --total-sample-count 13368 --vllm", "llama3.1-8b"),
        ("python main.py --scenario Server --user-conf u --total-sample-count 8313 2>&1 | tee log", "llama3.1-405b"),
        ("torchrun --nproc_per_node=8 run_mlperf_mpi.py --mode offline --input-file x.pkl", "deepseek-r1"),
        ("python3 run_mlperf.py --scenario offline --input-file x.parquet --accuracy", "gpt-oss-120b"),
    ] {
        let text = sentence(line);
        assert!(text.contains(&format!("`regatta run {run}")) && !text.contains("tee"), "{line}: {text}");
    }
}

#[test]
fn the_tasks_of_an_array_and_the_lines_of_a_document_are_benchmarks_of_their_own() {
    let bench = "vllm bench serve --model m --base-url http://gpu7:8000 --num-prompts 9";
    let array =
        format!("#SBATCH --array=0-2%1\nRATES=(1 2 4)\n{bench} --request-rate ${{RATES[$SLURM_ARRAY_TASK_ID]}}\n");
    let lines =
        format!("while read -r rate n; do\n{bench} --seed $n --request-rate $rate\ndone <<EOF\n1 5\n2 6\n4 7\nEOF\n");
    for text in [array, lines] {
        let translation = read_scripts(&[("job.sh".to_owned(), text)]).expect("a script");
        assert_eq!(translation.untranslated, [], "{:?}", translation.notes);
        assert!(translation.notes.iter().any(|note| note.contains("3 times")), "{:?}", translation.notes);
        let TranslationKind::Script(script) = translation.kind else { panic!("three benchmarks") };
        let rates = script.benches.iter().map(|one| one.bench.value("--rate").unwrap_or_default().to_owned());
        assert_eq!(rates.collect::<Vec<_>>(), ["1", "2", "4"]);
    }
}

/// The users and the requests of each benchmark of a script, and whether it sends another load than the script.
fn loads(script: &str) -> (String, bool) {
    let bench = "vllm bench serve --model m --base-url http://h:8000";
    let text = script.replace("BENCH", bench).replace("-c ", "--max-concurrency ").replace("-n ", "--num-prompts ");
    let translation = read_scripts(&[("job.sh".to_owned(), text)]).unwrap_or_else(|error| panic!("{script}: {error}"));
    let is_other = translation.untranslated.iter().any(|option| option.is_workload);
    let benches = match translation.kind {
        TranslationKind::Bench(bench) => vec![bench],
        TranslationKind::Script(script) => script.benches.into_iter().map(|one| one.bench).collect(),
        other => panic!("{script}: {other:?}"),
    };
    let load = |bench: &TranslatedBench| {
        let value = |option: &str| bench.value(option).unwrap_or("-").to_owned();
        format!("{} {}", value("--concurrency"), value("--requests"))
    };
    (benches.iter().map(load).collect::<Vec<_>>().join(", "), is_other)
}

#[test]
fn what_a_shell_computes_from_known_values_is_computed() {
    for (script, expected) in [
        (
            "for c in 1 8; do if [ $c -gt 4 ]; then N=80; else N=10; fi; BENCH -c $c --num-prompts $N; done",
            "1 10, 8 80",
        ),
        (
            "M=b\nif [[ $M == a ]]; then\nBENCH -c 1\nelif [[ $M == b ]]\nthen\nBENCH -c 2\nelse\nBENCH -c 3\nfi\n",
            "2 1000",
        ),
        ("for c in 1 2 4; do [ $c = 2 ] && continue\nBENCH -c $c --num-prompts 9; done", "1 9, 4 9"),
        ("for c in 1 2 4; do if [ $c = 2 ]; then break; fi\nBENCH -c $c --num-prompts 9; done", "1 9"),
        ("c=1; while [ $c -le 4 ]; do BENCH -c $c --num-prompts 9; c=$((c*2)); done", "1 9, 2 9, 4 9"),
        ("BENCH -c 1\n[ 2 = 3 ] || exit 0\nBENCH -c 2\n", "1 1000"),
        ("for l in '1 9' '2 8'; do read -r c n <<< \"$l\"; BENCH -c $c -n $n; done", "1 9, 2 8"),
        ("for l in 1/9 2/8; do IFS=/ read -r c n <<< $l; BENCH -c $c -n $n; done", "1 9, 2 8"),
        ("for l in '1 9' '2 8'; do set -- $l; BENCH -c $1 --num-prompts $2; done", "1 9, 2 8"),
        (
            "for l in 1:9 2:8; do BENCH -c $(echo $l | cut -d: -f1) --num-prompts $(cut -d: -f2 <<< $l); done",
            "1 9, 2 8",
        ),
        ("c=3; ((n=c*2)); ((n++)); let c+=1\nBENCH -c $c -n $n\n", "4 7"),
        ("for c in 1 8; do BENCH -c $c --num-prompts $((c > 4 ? c * 10 : 20)); done", "1 20, 8 80"),
        ("b() { BENCH -c $1 \"${@:2}\"; }\nb 8 --num-prompts 20\n", "8 20"),
        ("A=(-c 3 --num-prompts 5); C=\"BENCH ${A[*]}\"; $C\n", "3 5"),
        ("screen -dmS b BENCH -c 3 --num-prompts 5\n", "3 5"),
        ("run() { BENCH -c $1; return $?; }\nfor c in 1 2; do run $c; done", "1 1000, 2 1000"),
        ("#SBATCH --array=0-2\nC=${C:-$SLURM_ARRAY_TASK_ID}4\nBENCH -c $C\nexit 0\n", "04 1000, 14 1000, 24 1000"),
        ("continue\nBENCH -c 2\n", "2 1000"),
        ("c=3\n((c == 4)) && BENCH -c 1\n((c == 3)) && BENCH -c $c\n", "3 1000"),
        ("for ((i=0; i<3; i++)); do (( i == 1 )) && continue; BENCH -c $((i + 1)); done", "1 1000, 3 1000"),
        ("i=1; while [ $i -le 2 ]; do BENCH -c $i; ((++i)); done", "1 1000, 2 1000"),
        ("c=6; [ $c -gt 1 ] && [ $c -lt 4 ] && BENCH -c $c\nBENCH -c 9\n", "9 1000"),
        ("for a in 1 2; do for b in 3 4; do BENCH -c $a$b; break 2; done; done", "13 1000"),
        ("c=4\n[ $c -gt 8 ] && { BENCH -c 100; }\nBENCH -c $c\n", "4 1000"),
        ("c=4\n[ $c -gt 8 ] && for i in 1 2; do BENCH -c 7; done\nBENCH -c $c\n", "4 1000"),
        ("c=4\n[ $c -gt 8 ] && if [ -f x ]; then BENCH -c 7; fi\nBENCH -c $c\n", "4 1000"),
        ("cd x || { echo no; exit 1; }\nBENCH -c 4\n", "4 1000"),
        ("cd x || (echo no; exit 1)\nBENCH -c 4\n", "4 1000"),
        ("{ cd x; C=4; }\nBENCH -c $C\nexit 0\nBENCH -c 5\n", "4 1000"),
        ("f() { ls x || { echo no; return 1; }; C=4; }\nf\nBENCH -c $C\n", "4 1000"),
        ("c=2\nif [ $c = 1 ]; then n=3; else if [ $c = 2 ]; then n=4; fi; fi\nBENCH -c $n\n", "4 1000"),
        ("f() { shift; BENCH -c $1; }\nf 'a b' 7\n", "7 1000"),
        ("f() { BENCH \"$@\"; }\nf -c 4\nf\n", "4 1000, - 1000"),
        (
            "f() { while [[ $# -gt 0 ]]; do case \"$1\" in\n--conc|--c*) c=$2; shift 2;;\n--q) ;;\n\
            *)\n c=9; shift;;\nesac; done; BENCH -c $c; }\nf --x --conc 4\n",
            "4 1000",
        ),
        ("M=b\ncase $M in a|b) BENCH -c 4;; *) BENCH -c 5;; esac\n", "4 1000"),
        ("case $1 in\n  --a|--b | -d) X=1;;\n  *) X=2;;\nesac\nBENCH -c 4\n", "4 1000"),
        ("C=${C:-'{\"a\":4}'}\npython3 - <<E\nx\nE\ncurl -LsSf https://a.sh | X=$C sh\nBENCH -c 4\n", "4 1000"),
        ("A=()\nBENCH -c 4 \"${A[@]}\" \"${A[@]:1}\"\n", "4 1000"),
    ] {
        assert_eq!(loads(script), (expected.to_owned(), false), "{script}");
    }
}

#[test]
fn what_only_a_shell_knows_is_a_parameter_or_another_load() {
    let counted = "for c in 1 8; do BENCH -c $c --num-prompts $(expr $c \\* 9); done";
    assert_eq!(
        loads(counted),
        ("1 {{num_prompts}}, 8 {{num_prompts_2}}".to_owned(), false),
        "two values are two parameters"
    );
    let given = "BENCH -c ${1}; shift\nBENCH -c $1\n";
    assert_eq!(loads(given).0, "{{argument_1}} 1000, {{argument_2}} 1000");
    let options = "C=8; while getopts c: o; do case $o in c) C=$OPTARG;; esac; done\nBENCH -c $C\n";
    assert_eq!(loads(options), ("8 1000".to_owned(), false));
    let required =
        "C=\nwhile getopts c: o; do case $o in c) C=$OPTARG;; esac; done\n[ -z \"$C\" ] && exit 1\nBENCH -c $C\n";
    assert_eq!(loads(required).0, "{{c}} 1000");
    let failing = "X=1\nif [ $X = 1 ]; then echo usage; exit 1; fi\nBENCH -c 2\n";
    assert_eq!(loads(failing).0, "2 1000", "a script that fails is not what is meant");
    for script in [
        "if [ -f ready ]; then\nBENCH -c 2\nfi\n",
        "while pgrep x; do BENCH -c 2; done\n",
        "N=1\nif [ -f ready ]; then N=2; fi\nBENCH -c $N\n",
        "[ -f ready ] && BENCH -c 2\n",
        "if [ -f a ]; then if [ -f b ]; then :; fi; BENCH -c 2; fi\n",
        "set -- 1\nif [ -f x ]; then set -- 9; fi\nBENCH -c 2\n",
        "X=2; ((X<<=1))\nBENCH -c $X\n",
    ] {
        assert_eq!(loads(script), ("2 1000".to_owned(), true), "{script}");
    }
}

#[test]
fn what_a_loop_of_unknown_values_sets_is_unknown_behind_an_earlier_one() {
    let loops = "for c in 1 2; do BENCH -c $c; done\nfor c in $LIST; do BENCH -c $c; done\n";
    assert_eq!(loads(loops).0, "1 1000, 2 1000, {{c}} 1000");
    let more = "i=1; while [ $i -le 100 ]; do BENCH -c $i; i=$((i+1)); done\n";
    assert!(loads(more).1, "64 of 100 turns are another load");
    let shifted = "shift 18446744073709551615; shift 5\nBENCH -c $1\n";
    assert!(loads(shifted).0.starts_with("{{argument_"), "{}", loads(shifted).0);
    let choice = "C=5; case $1 in a) C=$2;; esac\nBENCH -c $C\n";
    assert!(loads(choice).1, "one of two values");
}
