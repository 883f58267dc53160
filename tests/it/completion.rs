//! What a shell offers: commands, manifests, their parameters with values, stages, runs.

use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;

use crate::world::World;

const MANIFEST: &str = r"
params:
  system: { choice: [h200-x8, h100-x8], default: h200-x8, about: Which machine }
  scenarios: { list: [offline, server, interactive], default: [offline] }
  requests: { int: {}, default: 8 }
  must: { text: {} }
stages:
  build: { shell: 'echo {{ system }} {{ scenarios }} {{ requests }} {{ must }} > out' }
  use: { shell: 'cat {{ stages.build.out }}/out' }
";

/// The offers for the last word, as fish asks: the name, and what it is.
fn offered(world: &World, line: &[&str]) -> Vec<String> {
    let mut command = world.command(&[&["--", "regatta"], line].concat());
    let output = command.env("REGATTA_COMPLETE", "fish").output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn names_of_the_project_are_offered_where_they_belong() {
    let world = World::with(MANIFEST);
    let at = |line: &str| offered(&world, &line.split(' ').collect::<Vec<_>>());
    assert_eq!(at("ru"), ["run", "runs"]);
    assert!(at("run ").contains(&"m".to_owned()) && at("run ").contains(&"quickstart".to_owned()));
    assert_eq!(at("plan llama2"), ["llama2-70b"]);
    // A parameter that has no value does not keep the others back.
    assert_eq!(at("run m s"), ["system=", "scenarios="]);
    assert_eq!(at("run m system=h2"), ["system=h200-x8"]);
    assert_eq!(at("run m system=h200-x8 s"), ["scenarios="]);
    assert_eq!(at("run m scenarios=server,"), ["scenarios=server,offline", "scenarios=server,interactive"]);
    assert_eq!(at("run m must=x --until b"), ["build"]);
    assert_eq!(at("logs u"), Vec::<String>::new());
    world.good(&["run", "m", "must=x"]);
    assert_eq!(at("logs u"), ["use"]);
    world.good(&["tag", "before"]);
    assert!(at("tag other ").contains(&"before".to_owned()));
    // The values of a shipped manifest's catalog are its files.
    assert!(at("run llama2-70b system=sim-").contains(&"system=sim-h200-x8".to_owned()));
    assert!(!at("").iter().any(|command| command.starts_with("__")), "hidden commands are hidden");
}

#[test]
fn bash_completes_behind_an_equals_sign_at_which_it_breaks_words() {
    let world = World::with(MANIFEST);
    let program = Path::new(env!("CARGO_BIN_EXE_regatta")).parent().expect("its folder").display();
    let complete = |words: &str, line: &str| {
        let script = format!(
            "source <(regatta completions bash)\ncompopt() {{ :; }}\nCOMP_WORDS=({words}) COMP_LINE='{line}'\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_POINT=${{#COMP_LINE}}\n_regatta\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let path = format!("{program}:{}", std::env::var("PATH").expect("PATH"));
        let bash = Command::new("bash").args(["-c", &script]).env("PATH", path).current_dir(world.path("")).output();
        let bash = bash.expect("bash");
        assert!(bash.status.success() && bash.stderr.is_empty(), "{}", String::from_utf8_lossy(&bash.stderr));
        String::from_utf8(bash.stdout).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("regatta run m sys", "regatta run m sys"), ["system="]);
    // Bash replaces what stands behind the sign.
    assert_eq!(complete("regatta run m system =", "regatta run m system="), ["h200-x8", "h100-x8"]);
    assert_eq!(complete("regatta run m system = h2", "regatta run m system=h2"), ["h200-x8"]);
    assert_eq!(complete("regatta run m system = h200-x8 re", "regatta run m system=h200-x8 re"), ["requests="]);
    let next = complete("regatta run m system = ''", "regatta run m system= ");
    assert!(next.contains(&"scenarios=".to_owned()) && !next.iter().any(|offer| offer.contains("x8")), "{next:?}");
}

#[test]
fn every_shell_has_a_script_that_asks_the_program() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        World::new().good(&["completions", shell]).shows("REGATTA_COMPLETE");
    }
}
