//! What a manifest, an input and a header may not do to the program that reads them: each is an error, at once and in bounded memory.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use regatta::exec::process::processor_time;

use crate::world::{Ended, World, signal, until};

/// Runs a manifest of one stage in at most 4 GB of memory.
fn bounded(world: &World, stage: &str) -> (i32, String) {
    world.manifest("m", &format!("stages:\n  a: {stage}\n"));
    within_bounds(world, "run m")
}

/// Runs a command in at most 4 GB of memory and two minutes.
fn within_bounds(world: &World, command: &str) -> (i32, String) {
    let program = env!("CARGO_BIN_EXE_regatta");
    let line = format!("ulimit -v 4000000; exec timeout 120 '{program}' {command}");
    let ended =
        std::process::Command::new("/bin/sh").args(["-c", &line]).current_dir(world.path("")).output().expect("sh");
    let text = [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (ended.status.code().expect("an exit code"), text)
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
fn an_expression_takes_no_gigabytes_and_does_not_panic() {
    let world = World::new();
    let cases = [
        ("{{ ('x' * 100000) | replace('x', 'y' * 100000) }}", 2, "it would become 10000000000 bytes"),
        ("{{ ('x' * 10000000000) | length }}", 2, "repeated string is too large"),
        ("{{ '%100000000d' | format(3) }}", 2, "it would become 100000000 bytes"),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", 2, "recursion limit exceeded"),
        (
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
            2,
            "this expression takes too long",
        ),
        ("{% for a in range(10000) %}{{ 'x' * 1000000 }}{% endfor %}", 2, "this text becomes too long"),
        ("[ '{{ 5 is divisibleby(0) }}' != yes ]", 0, "1 ran"),
    ];
    for (expression, code, message) in cases {
        let (ended, text) = bounded(&world, &format!("{{ shell: \"{expression}\" }}"));
        assert_eq!(ended, code, "{expression}\n{text}");
        assert!(text.contains(message), "{expression}\n{text}");
    }
}

#[test]
fn a_template_takes_no_gigabytes_and_does_not_overflow() {
    let world = World::new();
    world.manifest("m", "stages:\n  a: { template: { from: files } }\n");
    let chain = format!("a\n{{{{ {}1 }}}}\n", "-".repeat(30_000));
    let cases = [
        (chain.as_str(), "t.j2:2: this expression is too long"),
        ("{{ range(100000) | join('x' * 1000000) | length }}", "it would become"),
    ];
    for (template, message) in cases {
        world.file("files/t.j2", template);
        let (ended, text) = within_bounds(&world, "run m");
        assert_eq!(ended, 1, "{message}\n{text}");
        assert!(text.contains(message), "{message}\n{text}");
    }
    world.file("files/t.j2", "{{ ([1] * 100000000) | list | length }}");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("this template takes more than 2.0 GB of memory").shows("t.j2:1");
    world.file("files/t.j2", "{{ 1 }}\n");
    world.good(&["run", "m"]);
}

#[test]
fn a_text_that_doubles_in_a_loop_is_an_error_that_names_it() {
    let world = World::new();
    let doubled =
        "{% set t = namespace(x='x') %}{% for i in range(60) %}{% set t.x = t.x ~ t.x %}{% endfor %}{{ t.x | length }}";
    world.manifest("m", &format!("stages:\n  a: {{ shell: \"{doubled}\" }}\n"));
    for command in ["plan", "check", "run"] {
        let ended = world.regatta(&[command, "m"]);
        assert_eq!(ended.code, 2, "{}\n{}", ended.stdout, ended.stderr);
        ended.shows("this expression takes more than 1.0 GB of memory").shows("manifests/m.yaml:4:");
    }
}

#[test]
fn a_manifest_and_an_include_that_are_no_files_are_errors_that_say_what_they_are() {
    let world = World::new();
    pipe(&world.path("manifests/pipe.yaml"));
    world.file("manifests/folder.yaml/x", "");
    let pipe = "it is a pipe, a socket or a device, not a file";
    for (name, kind) in [("pipe", pipe), ("folder", "it is a folder"), ("absent", "no such file")] {
        world.manifest("m", &format!("include: [{name}.yaml]\nstages:\n  a: {{ shell: 'true' }}\n"));
        let ended = world.regatta(&["run", "m"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows(kind).shows("manifests/m.yaml:3:");
    }
    world.regatta(&["run", "pipe"]).shows(pipe);
}

#[test]
fn an_input_without_an_end_is_an_error_and_not_a_wait() {
    let world = World::new();
    pipe(&world.path("pipe"));
    world.file("folder/plain", "1");
    for input in ["pipe", "/dev/zero"] {
        let (code, text) = bounded(&world, &format!("{{ inputs: {{ x: {input} }}, shell: 'true' }}"));
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("it is a pipe, a socket or a device, not a file"), "{text}");
    }
    for (link, target, message) in [
        ("nowhere", "/no/such/file", "folder/nowhere is a link to /no/such/file, which does not exist"),
        ("around", "..", "and the input is inside that"),
    ] {
        let path = world.path("folder").join(link);
        symlink(target, &path).expect("a link");
        let (code, text) = bounded(&world, "{ inputs: { x: folder }, shell: 'true' }");
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(message), "{text}");
        std::fs::remove_file(path).expect("a link");
    }
    assert_eq!(bounded(&world, "{ inputs: { x: folder }, shell: 'true' }").0, 0);
}

#[test]
fn a_length_beyond_every_model_is_refused_before_anything_starts() {
    let world = World::new();
    let ended = world.regatta(&["bench", "sim:", "-n", "1", "--input-tokens", "999999999"]);
    assert_eq!(ended.code, 2, "{}\n{}", ended.stdout, ended.stderr);
    ended.shows("must be at most 16777216 tokens");
}

/// Runs a line of shell in the project; `$R` is the program.
fn shell(world: &World, line: &str) -> Ended {
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", line]).current_dir(world.path("")).env("R", env!("CARGO_BIN_EXE_regatta"));
    Ended::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh"))
}

#[test]
fn a_file_that_may_not_grow_is_an_error_that_names_it() {
    let world = World::new();
    world.manifest("m", "stages:\n  a: { shell: 'true' }\n");
    // The compiled plan, which is written before the run begins, is larger than the limit.
    world.manifest(
        "large",
        &format!("stages:\n  a: {{ foreach: {{ n: {:?} }}, shell: 'true' }}\n", (0..300).collect::<Vec<_>>()),
    );
    for line in
        ["ulimit -f 1; exec $R run m", "ulimit -f 4; exec $R run large", "ulimit -f 4; exec $R manual keys > text"]
    {
        let ended = shell(&world, line);
        assert_eq!(ended.code, 1, "{line}: {ended:?}");
        assert!(ended.stderr.contains("File too large"), "{line}: {ended:?}");
    }
    // Of a plan nothing needs to be kept. The limit holds for what a stage starts, and ends that as ever.
    let planned = shell(&world, "ulimit -f 4; exec $R plan large");
    assert_eq!(planned.code, 0, "{planned:?}");
    world.manifest("writes", "stages:\n  a: { shell: 'ulimit -f 4; exec head -c 100000 /dev/zero > out' }\n");
    let ended = shell(&world, "exec $R run writes");
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("ended by signal 25");
}

#[test]
fn a_file_that_a_user_names_is_whole_or_as_it_was() {
    let world = World::new();
    let result = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results/benchmark");
    let export = format!("exec $R export '{}' --as vllm --out out", result.display());
    let limited = format!("ulimit -f 1; {export}");
    let names = || fs::read_dir(world.path("out")).expect("a folder").count();
    let ended = shell(&world, &limited);
    assert_eq!((ended.code, names()), (1, 0), "{ended:?}");
    ended.shows("cannot write out/vllm_bench.json: File too large");
    assert_eq!(shell(&world, &export).code, 0);
    let whole = world.read("out/vllm_bench.json");
    assert_eq!(shell(&world, &limited).code, 1);
    assert_eq!((world.read("out/vllm_bench.json"), names()), (whole, 1));
}

#[test]
fn a_manifest_that_could_not_be_written_whole_is_written_by_the_next_init() {
    let world = World::new();
    let ended = shell(&world, "ulimit -f 1; exec $R init new --example quickstart");
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("cannot write new/manifests/quickstart.yaml: File too large");
    assert_eq!(fs::read_dir(world.path("new/manifests")).expect("a folder").count(), 0);
    world.good(&["init", "new", "--example", "quickstart"]).shows("new/manifests/quickstart.yaml: written");
    fs::remove_file(world.path("new/.gitignore")).expect("a file");
    symlink("absent", world.path("new/.gitignore")).expect("a link");
    world.good(&["init", "new", "--example", "quickstart"]).shows("new/.gitignore: there already, left alone");
    assert!(!world.path("new/absent").exists());
}

#[test]
fn a_page_that_could_not_be_written_whole_is_not_there() {
    let world = World::new();
    world.manifest("m", "stages:\n  a: { shell: 'true' }\n");
    let ended = shell(&world, "ulimit -f 20; exec $R run m");
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("warning: this run has no report: cannot write").shows("File too large");
    let ended = world.regatta(&["report"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("has no report");
}

#[test]
fn without_threads_to_spare_inputs_are_read_by_the_one_that_there_is() {
    let world = World::new();
    world.manifest("m", "stages:\n  a: { inputs: { x: large }, shell: 'true' }\n");
    fs::write(world.path("large"), vec![7; 3 << 20]).expect("a file");
    // Root may always start more of them, so that another user does it, who needs the folder.
    let user = if rustix::process::getuid().is_root() {
        let all = fs::Permissions::from_mode(0o777);
        for path in ["", "manifests"] {
            fs::set_permissions(world.path(path), all.clone()).expect("rights");
        }
        fs::copy(env!("CARGO_BIN_EXE_regatta"), world.path("regatta")).expect("a copy");
        "setpriv --reuid 61234 --clear-groups "
    } else {
        fs::copy(env!("CARGO_BIN_EXE_regatta"), world.path("regatta")).expect("a copy");
        ""
    };
    for threads in [1, 2] {
        let ended = shell(&world, &format!("rm -rf .regatta; exec {user}prlimit --nproc={threads} ./regatta plan m"));
        assert_eq!(ended.code, 0, "{threads}: {ended:?}");
        ended.shows("1 to run");
    }
}

#[test]
fn an_address_with_a_password_is_refused_and_not_shown() {
    let world = World::new();
    for words in [
        &["http://me:hunter2@127.0.0.1:1"][..],
        &["http://127.0.0.1:1/v1/chat/completions?api_key=hunter2"],
        &["http://127.0.0.1:1", "--endpoint", "/v1/completions?token=hunter2"],
    ] {
        let ended = world.regatta(&[&["bench", "-m", "m", "-n", "1"], words].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows("an address holds no user, password or token");
        assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
    }
    for url in ["https://me:hunter2@host/x", "HTTPS://hunter2@host/x", "https://host/x?access_token=hunter2"] {
        world.manifest("m", &format!("stages:\n  a: {{ git: {{ url: '{url}', rev: main }} }}\n"));
        let planned = world.regatta(&["plan", "m"]);
        assert_eq!(planned.code, 2);
        planned.shows("a URL holds a password or a token");
        assert!(!format!("{planned:?}").contains("hunter2"), "{planned:?}");
    }
    let kept =
        walkdir::WalkDir::new(world.path(".regatta")).into_iter().flatten().filter(|item| item.file_type().is_file());
    for file in kept {
        let bytes = fs::read(file.path()).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"), "{}", file.path().display());
    }
}

#[test]
fn a_secret_that_is_not_set_is_reported() {
    let world = World::new();
    world.manifest("m", "stages:\n  a: { secrets: [TOKEN_OF_NO_ONE], shell: 'true' }\n");
    world.good(&["run", "m"]).shows("TOKEN_OF_NO_ONE is not set");
}

#[test]
fn a_secret_that_cannot_be_found_in_a_text_is_refused() {
    let mut world = World::new();
    world.env("TOKEN", OsStr::from_bytes(b"abc\xffdef"));
    world.manifest("m", "stages:\n  a: { secrets: [TOKEN], shell: 'echo $TOKEN' }\n");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the secret TOKEN is not UTF-8");
    assert!(!format!("{ended:?}").contains("def"), "{ended:?}");
}

/// What a link leads to is no part of an output: where no key has it, a change of it goes unnoticed.
#[test]
fn a_link_out_of_an_output_is_named_with_its_target_when_the_output_is_made() {
    let world = World::new();
    world.file("set/x", "1").file("declared/x", "1");
    world.manifest(
        "m",
        "stages:\n  a: { shell: 'ln -s ../../../set data' }\n\
         \x20 b: { inputs: { d: declared }, shell: 'ln -s {{ inputs.d }} data; ln -s {{ stages.a.out }}/data of-a; ln -s data here' }\n",
    );
    let ended = world.good(&["run", "m"]);
    ended.shows("data is a link out of its output, to ../../../set: what is there is not part of the output");
    assert_eq!(ended.stdout.matches("is a link out of").count(), 1, "{}", ended.stdout);
    let again = world.good(&["run", "m"]);
    assert!(!again.stdout.contains("is a link out of"), "{}", again.stdout);
}

#[test]
fn a_plan_starts_no_program_that_the_manifest_names() {
    let world = World::new();
    world.file("evil.sh", "#!/bin/sh\ntouch ran\necho \"sha256:$(printf '%064d' 1) []\"\n");
    fs::set_permissions(world.path("evil.sh"), fs::Permissions::from_mode(0o755)).expect("permissions");
    world.manifest(
        "m",
        "stages:\n  a: { container: { engine: docker, program: ./evil.sh, image: 'x:1' }, shell: 'true' }\n  b: { serve: { command: { words: [x, '{port}'] } }, container: { engine: podman, program: ./evil.sh, image: 'x:1' } }\n  c: { shell: 'echo {{ stages.b }}' }\n",
    );
    for command in ["plan", "check", "show"] {
        world.good(&[command, "m"]);
        assert!(!world.path("ran").exists(), "{command} ran it");
    }
    world.good(&["plan", "m"]).shows("b: only a run sees if x:1 is still the same image");
    // A run starts it: that is what it is for.
    world.regatta(&["run", "m", "--only", "a"]);
    assert!(world.path("ran").exists());
}

#[test]
fn a_plan_sends_nothing_to_a_server() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    server.set_nonblocking(true).expect("a socket");
    let address = server.local_addr().expect("an address");
    let mut world = World::with(&format!(
        "stages:\n  a:\n    cache: true\n    bench: {{ target: 'openai://{address}', model: m, api_key_env: TOKEN, scenario: concurrency, concurrency: 1, stop: {{ requests: 1 }}, input_tokens: {{ fixed: 8 }}, output_tokens: {{ fixed: 8 }} }}\n"
    ));
    world.env("TOKEN", "hunter2");
    for command in ["plan", "check", "show"] {
        world.good(&[command, "m"]);
        let seen = server.accept().expect_err("a connection");
        assert_eq!(seen.kind(), std::io::ErrorKind::WouldBlock, "{command}");
    }
}

#[test]
fn files_without_an_end_do_not_hold_up_a_plan() {
    let world = World::new();
    pipe(&world.path("repository/model/config.pbtxt"));
    fs::create_dir_all(world.path("repository/other")).expect("a folder");
    symlink("/dev/zero", world.path("repository/other/config.pbtxt")).expect("a link");
    fs::create_dir_all(world.path("engine")).expect("a folder");
    symlink("/dev/zero", world.path("engine/config.json")).expect("a link");
    world.manifest(
        "m",
        "stages:\n  s: { serve: { triton: { repository: repository } } }\n  r: { repository: { engine: engine } }\n  t: { serve: { triton: { repository: '{{ stages.r.out }}' } } }\n",
    );
    for command in ["plan m", "plan m --launch"] {
        let (code, text) = within_bounds(&world, command);
        assert!([0, 2].contains(&code), "{command}: {code}\n{text}");
        assert!(text.contains("not a file") || command == "plan m", "{text}");
    }
    let (code, text) = within_bounds(&world, "repository check repository");
    assert!(code != 0 && text.contains("not a file"), "{code}\n{text}");
}

#[test]
fn folders_to_which_links_lead_in_many_ways_are_read_once() {
    let world = World::new();
    for n in 0..25 {
        let folder = world.path(format!("bomb/{n}"));
        fs::create_dir_all(&folder).expect("a folder");
        world.file(&format!("bomb/{n}/file"), "1");
        if n < 24 {
            for link in ["a", "b"] {
                symlink(world.path(format!("bomb/{}", n + 1)), folder.join(link)).expect("a link");
            }
        }
    }
    let stage = "{ inputs: { x: bomb }, shell: 'true' }";
    let (code, text) = bounded(&world, stage);
    assert_eq!(code, 0, "{text}");
    assert_eq!(within_bounds(&world, "plan m").0, 0);
    // A file that is reached by links only is still a part of it.
    world.file("bomb/24/file", "2");
    let (code, text) = within_bounds(&world, "run m");
    assert!(code == 0 && text.contains("1 ran"), "{text}");
}

#[test]
fn a_count_that_would_take_all_memory_is_refused_with_its_place() {
    let load = "scenario: concurrency, concurrency: 1, stop: { requests: 1 }, input_tokens: { fixed: 8 }, output_tokens: { fixed: 8 }";
    let bench = |from: &str, to: &str| format!("bench: {{ target: 'sim:', {} }}", load.replace(from, to));
    let cases = [
        ("gpus: 4000000000, shell: 'true'".to_owned(), "`stages.a.gpus` must be at most 4096"),
        ("repository: { engine: e, triton_num_servers: 100000000 }".to_owned(), "must be at most 4096"),
        ("serve: { vllm: { model: m, servers: 4000000000 } }".to_owned(), "must be at most 4096"),
        ("serve: { triton: { repository: r, world_size: 4000000000 } }".to_owned(), "must be at most 4096"),
        (bench("concurrency: 1", "concurrency: 4000000000"), "`stages.a.bench.concurrency` must be at most 1000000"),
        (
            bench("scenario", "prefixes: { count: 1, tokens: 2000000000 }, scenario"),
            "`stages.a.bench.prefixes.tokens` must be at most 16777216",
        ),
        (
            bench("concurrency: 1", "sweep: { concurrency: [1, 2000000] }"),
            "`stages.a.bench.sweep.concurrency` must be at most 1000000",
        ),
        (bench("scenario", "data: { mooncake: x, block_tokens: 2000000000 }, scenario"), "must be at most 16777216"),
    ];
    for (stage, message) in cases {
        let world = World::with(&format!("stages:\n  a: {{ {stage} }}\n"));
        let (code, text) = within_bounds(&world, "plan m");
        assert_eq!(code, 2, "{stage}\n{text}");
        assert!(text.contains(message) && text.contains("manifests/m.yaml:4:"), "{stage}\n{text}");
    }
    let world = World::new();
    let (code, text) = within_bounds(&world, "plan quickstart tuning.triton_num_servers=100000000");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("must be at most 4096"), "{text}");
}

#[test]
fn a_length_in_a_file_that_no_model_takes_is_refused() {
    let world = World::new();
    for line in [r#"{"input_length": 2000000000}"#, r#"{"input_length": 8, "output_length": 2000000000}"#] {
        world.file("lengths.jsonl", line);
        let (code, text) = within_bounds(&world, "bench sim: -n 1 --data lengths.jsonl");
        assert!(code != 0 && text.contains("2000000000 tokens: the maximum is"), "{code}\n{text}");
    }
}

#[test]
fn a_model_of_a_repository_with_too_many_copies_is_refused() {
    let world = World::new();
    let config = "backend: \"tensorrtllm\"\ninstance_group [ { count: 2000000000 kind: KIND_CPU } ]\n";
    for name in ["one", "two", "three"] {
        world.file(&format!("repository/{name}/config.pbtxt"), config);
    }
    world.manifest(
        "m",
        "stages:\n  s: { serve: { triton: { repository: repository, mode: orchestrator, spawn_processes: false } } }\n",
    );
    let (code, text) = within_bounds(&world, "plan m --launch");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("would have 6000000000 ranks; the maximum is 4096"), "{text}");
}

#[test]
fn a_long_text_many_times_in_another_is_an_error() {
    let world = World::new();
    let long = "x".repeat(1_000_000);
    let many = "{{a}}".repeat(8000);
    world.manifest("m", &format!("vars: {{ a: {long} }}\nstages:\n  a: {{ shell: 'x{many}' }}\n"));
    let (code, text) = within_bounds(&world, "plan m");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("this text becomes too long"), "{text}");
}

#[test]
fn the_values_of_a_manifest_have_a_limit_together() {
    let world = World::new();
    let mut vars = String::new();
    for n in 0..300 {
        writeln!(vars, "  v{n}: \"{{{{ ['x' * 1000000] * 16 }}}}\"").expect("a text");
    }
    world.manifest("m", &format!("vars:\n{vars}stages:\n  a: {{ shell: 'true' }}\n"));
    let (code, text) = within_bounds(&world, "plan m");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("the values of this manifest take more than 1.1 GB") && text.contains("\n1 error"), "{text}");
}

#[test]
fn deep_values_and_long_chains_do_not_overflow_the_stack() {
    let world = World::new();
    let (open, close) = ("[".repeat(70), "]".repeat(70));
    let deep = format!(
        "{{% set ns = namespace(x=[]) %}}{{% for i in range(2300) %}}{{% set ns.x = {open}ns.x{close} %}}{{% endfor %}}"
    );
    for used in [
        "x",
        "{{ (ns.x ~ '') | length }}",
        "{{ ns.x | tojson | length }}",
        "{{ ns.x | string | length }}",
        "{% set y = ns.x %}{{ [y] == [[y]] }}",
        "{{ [ns.x, [ns.x]] | sort | length }}",
        "{{ [ns.x, [ns.x]] | unique | length }}",
        "{{ {ns.x: 1} | length }}",
    ] {
        world.manifest("m", &format!("stages:\n  a: {{ shell: \"{deep}{used}\" }}\n"));
        let (code, text) = within_bounds(&world, "plan m");
        assert_eq!(code, 0, "{used}\n{text}");
    }
    world.manifest("m", &format!("stages:\n  a: {{ shell: \"{deep}{{{{ ns.x }}}}\" }}\n"));
    let (code, text) = within_bounds(&world, "plan m");
    assert!(code == 2 && text.contains("this value is nested too deeply"), "{text}");
    for chain in ["a + ", "- ", "not ", "a if a else "] {
        let chain = chain.repeat(200_000);
        let stages = format!("stages:\n  a: {{ foreach: {{ a: [1] }}, shell: 'x {{{{ {chain}a }}}}' }}\n");
        world.manifest("m", &stages);
        let (code, text) = within_bounds(&world, "plan m");
        assert!(code == 2 && text.contains("this expression is too long"), "{code} {}", &text[..text.len().min(500)]);
    }
    let branches = "{% elif a %}x".repeat(10_000);
    world.manifest(
        "m",
        &format!("stages:\n  a: {{ foreach: {{ a: [1] }}, shell: '{{% if a %}}{branches}{{% endif %}}' }}\n"),
    );
    let (code, text) = within_bounds(&world, "plan m");
    assert!(code == 2 && text.contains("it has more than 1000 `elif`"), "{code}");
}

#[test]
fn a_ctrl_c_ends_the_making_of_a_large_plan_at_once() {
    let world = World::new();
    world.manifest(
        "m",
        "vars: { n: '{{ range(300) | list }}' }\nstages:\n  a: { foreach: { x: '{{ n }}', y: '{{ n }}' }, shell: 'echo {{ x | upper }} {{ y | upper }}' }\n",
    );
    for command in ["plan", "check", "run"] {
        let mut child =
            world.command(&[command, "m"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // It is in the middle of it.
        until("it computes", || processor_time(child.id().cast_signed()) > 20);
        signal(&child, "INT");
        // One that did not hear it would end by itself, and well.
        let ended = child.wait().expect("an end");
        assert!(ended.signal() == Some(2) || ended.code() == Some(130), "{command}: {ended:?}");
    }
}

/// Of each it is said at once what is wrong, and with which file. Some of them took minutes, gigabytes, or never ended.
#[test]
fn hostile_files_are_refused_by_name_at_once() {
    let world = World::new();
    world.file("deep.yaml", &format!("a: {}", "[".repeat(200_000)));
    world.file("deep.json", &"{\"a\":".repeat(100_000));
    world.file("t/m/config.pbtxt", "name: \"${a}\"\n");
    world.file("large/m/config.pbtxt", &"name: \"${a}\"\n".repeat(50_000));
    world.file("many/m/config.pbtxt", &"input { name: \"a\" }\n".repeat(100_000));
    world.file("unknown/m/config.pbtxt", &"bogus: 1\n".repeat(100_000));
    world.file("line\nbreak/m/config.pbtxt", "bogus: 1");
    let run = "llama2-70b-99/Offline/performance/run_1";
    world.file("wide/closed/X/systems/S.json", &format!("[{}0]", "0,".repeat(10_000_000)));
    fs::create_dir_all(world.path("wide/closed/X/results/S").join(run)).expect("a folder");
    pipe(&world.path("piped/closed/X/results/S").join(run).join("mlperf_log_detail.txt"));
    pipe(&world.path(".regatta/lock"));
    world.manifest("fd", "stages:\n  a: { git: { url: \"fd::17\", rev: main } }\n");
    let large = format!("repository fill large a={} --out o", "x".repeat(5000));
    for (command, name, reason) in [
        ("lock show deep.yaml", "deep.yaml", "is not a lock file"),
        ("lock show deep.json", "deep.json", "is not a lock file"),
        ("import deep.yaml", "deep.yaml", "is not in a known result format"),
        ("bulk deep.yaml", "deep.yaml", "nested too deeply"),
        ("repository fill t --values deep.yaml --out o", "deep.yaml", "nested too deeply"),
        (large.as_str(), "large/m/config.pbtxt", "becomes larger than 16"),
        ("repository check many", "many/m/config.pbtxt", "no backend is named"),
        ("repository check unknown", "unknown/m/config.pbtxt", "no field `bogus`"),
        ("repository check 'line\nbreak'", r"line\nbreak/m/config.pbtxt:1:1", "no field `bogus`"),
        ("mlperf check wide --round v5.1", "systems/S.json", "more than 262144 values"),
        ("mlperf check piped", "piped", "its round is unknown"),
        ("runs", ".regatta/lock", "it is a pipe"),
        ("--home other run fd", "fd", "transport 'fd' not allowed"),
    ] {
        let begun = std::time::Instant::now();
        let (code, text) = within_bounds(&world, command);
        let shown = format!("{command:.60}: {code} after {:?}\n{text:.3000}", begun.elapsed());
        assert!(code != 0 && text.contains(name) && text.contains(reason), "{shown}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{shown}");
    }
}

/// Before the first request. The values of 15 MB took 870 MB.
#[test]
fn a_list_of_models_without_end_is_not_parsed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let body = format!("{{\"data\":[{}0]}}", "0,".repeat(5_000_000));
            let _ = std::io::Read::read(&mut socket, &mut [0; 4096]);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = std::io::Write::write_all(&mut socket, answer.as_bytes());
        }
    });
    let world = World::new();
    let (code, text) = within_bounds(&world, &format!("bench http://{address} -n 1"));
    assert!(code == 1 && text.contains("has more than 262144 values"), "{code}\n{text}");
}

/// `.` in `PATH` is the project's folder: a program that lies there is not one of this machine.
#[test]
fn a_program_in_the_project_is_not_started_for_one_of_the_machine() {
    let mut world = World::with("stages:\n  a: { shell: \"true\" }\n");
    for program in ["git", "docker", "podman", "nvidia-smi", "python3", "mpirun", "srun", "sbatch", "squeue"] {
        world.file(program, "#!/bin/sh\necho $0 >> started\n");
        fs::set_permissions(world.path(program), fs::Permissions::from_mode(0o755)).expect("a program");
    }
    let path = std::env::var("PATH").expect("PATH");
    world.env("PATH", format!(".::{path}"));
    for words in [&["doctor"][..], &["doctor", "m"], &["run", "m"], &["run", "m", "--on", "slurm"]] {
        world.regatta(words);
        assert!(!world.path("started").exists(), "{words:?}: {}", world.read("started"));
    }
}
