//! The help page of the manual is what `--help` prints, each section once. `UPDATE=1` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use regatta::cli;

const COMMANDS: [&str; 51] = [
    "",
    "run",
    "serve",
    "bulk",
    "bench",
    "plan",
    "what-if",
    "lock show",
    "lock diff",
    "doctor",
    "check",
    "show",
    "list",
    "schema",
    "init",
    "status",
    "runs",
    "history",
    "tag",
    "logs",
    "report",
    "compare",
    "export",
    "import",
    "explain",
    "gc",
    "store status",
    "store push",
    "store pull",
    "store gc",
    "clean",
    "sim serve",
    "sim calibrate",
    "triton status",
    "triton models",
    "triton infer",
    "triton metrics",
    "triton config",
    "triton load",
    "triton unload",
    "mlperf status",
    "mlperf diff",
    "mlperf check",
    "mlperf search",
    "repository check",
    "repository fill",
    "repository parameters",
    "selftest",
    "manual",
    "completions",
];

const OPENING: &str = "\
# Help

The help of every command. Left out: `--help` itself, and options, arguments, exit codes and examples that an earlier command
has in the same words.
";

fn help(command: &str) -> String {
    let words = ["regatta"].into_iter().chain(command.split_whitespace()).chain(["--help"]);
    cli::parse(words).expect_err("help is printed, nothing is done").to_string()
}

/// A help text without `--help` and without paragraphs that were printed before. Below a heading, a line at the left
/// edge that ends with `:`, each paragraph is an option, an argument or a list.
fn new_parts(help: &str, printed: &mut BTreeSet<String>) -> String {
    let (mut parts, mut heading) = (Vec::new(), None);
    for paragraph in help.split("\n\n").map(str::trim_end) {
        let is_heading = |line: &str| !line.starts_with(' ') && line.ends_with(':');
        let (head, text) = match paragraph.split_once('\n') {
            Some((head, text)) if is_heading(head) => (Some(head), text),
            _ => (None, paragraph),
        };
        heading = head.or(heading);
        let is_help = text.trim_start().starts_with("-h, --help");
        if heading.is_none() {
            parts.push(text.to_owned());
        } else if !is_help && printed.insert(text.to_owned()) {
            let is_first = parts.iter().all(|part| part.lines().next() != heading);
            parts.push(match heading {
                Some(heading) if is_first => format!("{heading}\n{text}"),
                _ => text.to_owned(),
            });
        }
    }
    parts.join("\n\n")
}

#[test]
fn the_manual_has_the_help_of_every_command() {
    let mut page = OPENING.to_owned();
    let mut printed = BTreeSet::new();
    for command in COMMANDS {
        let line = ["regatta", command, "--help"].join(" ").replace("  ", " ");
        let parts = new_parts(&help(command), &mut printed);
        let _ = write!(page, "\n```console\n$ {line}\n{parts}\n```\n");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual/reference/help.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).expect("the page is there");
    assert_eq!(written, page, "run `UPDATE=1 cargo test --test it cli` and read what changed");
}

#[test]
fn no_command_is_missing_from_the_manual_and_from_the_groups() {
    let top = help("");
    for command in cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let has_page = COMMANDS.iter().any(|known| known.split(' ').next() == Some(name));
        let is_listed = top.lines().any(|line| line.starts_with(&format!("  {name} ")));
        assert!(has_page && is_listed, "`{name}` has no page or no group");
    }
}
