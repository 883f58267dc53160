//! What a manifest, an input and a header may not do to the program that reads them: each is an error, at once and in bounded memory.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use pretty_assertions::assert_eq;

use crate::world::{Ended, World};

/// Runs a manifest of one stage in at most 4 GB of memory.
fn bounded(world: &World, stage: &str) -> (i32, String) {
    world.manifest("m", &format!("stages:\n  a: {stage}\n"));
    let program = env!("CARGO_BIN_EXE_regatta");
    let line = format!("ulimit -v 4000000; exec '{program}' run m");
    let ended =
        std::process::Command::new("/bin/sh").args(["-c", &line]).current_dir(world.path("")).output().expect("sh");
    let text = [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (ended.status.code().expect("an exit code"), text)
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
fn an_input_without_an_end_is_an_error_and_not_a_wait() {
    let world = World::new();
    let pipe = std::process::Command::new("mkfifo").arg(world.path("pipe")).status().expect("mkfifo");
    assert!(pipe.success());
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
        ["ulimit -f 1; exec $R run m", "ulimit -f 4; exec $R run large", "ulimit -f 4; exec $R manual reference > text"]
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
    let ended = world.regatta(&["bench", "http://me:hunter2@127.0.0.1:1", "-n", "1"]);
    assert_eq!(ended.code, 2);
    ended.shows("an address holds no user and password");
    world.manifest("m", "stages:\n  a: { git: { url: 'https://me:hunter2@host/x', rev: main } }\n");
    let planned = world.regatta(&["plan", "m"]);
    assert_eq!(planned.code, 2);
    planned.shows("a URL holds a password or a token");
    for text in [ended.stdout, ended.stderr, planned.stdout, planned.stderr] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_secret_that_is_not_set_is_told() {
    let world = World::new();
    world.manifest("m", "stages:\n  a: { secrets: [TOKEN_OF_NO_ONE], shell: 'true' }\n");
    world.good(&["run", "m"]).shows("TOKEN_OF_NO_ONE is not set");
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
    ended.shows("data is a link out of its output, to ../../../set: what is there is no part of the output");
    assert_eq!(ended.stdout.matches("is a link out of").count(), 1, "{}", ended.stdout);
    let again = world.good(&["run", "m"]);
    assert!(!again.stdout.contains("is a link out of"), "{}", again.stdout);
}
