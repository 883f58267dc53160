//! What `--help` shows below the options: the examples of `help.txt`, and what the exit codes mean.

use std::collections::HashMap;

use clap::Command;

/// The exit codes of a command that runs stages.
const OF_RUN: &str = "
Exit codes:
  0    success
  1    a stage failed
  2    the manifest or the command line is wrong; nothing was started
  3    a benchmark is INVALID(client): the client was the bottleneck
  4    a benchmark is OVERLOADED: the server did not keep up; or LIMIT MISSED: a limit was exceeded
  5    a benchmark is INVALID(server): requests failed, or answers were inconsistent
  6    with --locked: something differs from the lock file
";
const OF_COMPARE: &str = "  7    `compare --fail-if`: its condition is true, or a result is not VALID\n";
/// Those of other commands.
const USUAL: &str = "
Exit codes:
  0    success
  1    the command failed
  2    the manifest or the command line is wrong
";
const OF_ALL: &str = "  70   a fault in Regatta itself\n  130  interrupted\n";
const CLOSED: &str = "  141  the reader of the output closed it (`| head`)\n";

/// The program with what is below the options of each command.
pub(super) fn explained(program: Command) -> Command {
    let sections: HashMap<&str, &str> =
        include_str!("help.txt").split("\n[").filter_map(|section| section.split_once("]\n")).collect();
    let text = below_options("regatta", sections["regatta"]);
    program.mut_subcommands(|command| explained_command(command, "", &sections, "")).after_long_help(text)
}

/// `above`: the names of the commands that it is below; `usual`: what it has without a section of its own.
fn explained_command(command: Command, above: &str, sections: &HashMap<&str, &str>, usual: &str) -> Command {
    let name = format!("{above}{}", command.get_name());
    let section = sections.get(name.as_str()).map(|section| below_options(&name, section));
    let text = section.unwrap_or_else(|| usual.to_owned());
    let command = command.mut_subcommands(|command| explained_command(command, &format!("{name} "), sections, &text));
    if text.is_empty() { command } else { command.after_long_help(text) }
}

fn below_options(command: &str, section: &str) -> String {
    let has_codes = section.contains("Exit codes:");
    let codes: &[&str] = match command {
        "status" => &[],
        "regatta" => &[OF_RUN, OF_COMPARE, OF_ALL, CLOSED],
        "run" | "serve" | "bulk" | "bench" => &[OF_RUN, OF_ALL],
        _ if has_codes => &[OF_ALL, CLOSED],
        _ => &[USUAL, OF_ALL, CLOSED],
    };
    format!("Examples:\n{}\n{}", section.trim_end().replace("Exit codes:", "\nExit codes:"), codes.concat())
}
