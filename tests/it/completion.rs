//! The scripts with which shells complete commands and options.

use std::process::Command;

use crate::world::World;

#[test]
fn every_shell_has_a_script_with_the_commands_that_help_lists() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = World::new().good(&["completions", shell]).stdout;
        for name in ["bench", "what-if", "keep-going", "mlperf"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
        assert!(!script.contains("__watchdog"), "{shell}: hidden commands are hidden");
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let world = World::new();
    world.file("regatta.bash", &world.good(&["completions", "bash"]).stdout);
    let complete = |words: &str| {
        let script = format!(
            "source regatta.bash; compopt() {{ :; }}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             COMP_LINE='{words}' COMP_POINT=${{#COMP_LINE}}; _regatta regatta \"${{COMP_WORDS[COMP_CWORD]}}\" \
             \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        let bash = Command::new("bash").args(["-c", &script]).current_dir(world.path("")).output().expect("bash");
        assert!(bash.status.success() && bash.stderr.is_empty(), "{}", String::from_utf8_lossy(&bash.stderr));
        String::from_utf8(bash.stdout).expect("text").trim().to_owned()
    };
    assert_eq!(complete("regatta ru"), "run runs");
    assert_eq!(complete("regatta run --keep"), "--keep-going");
    assert_eq!(complete("regatta sim cali"), "calibrate");
}
