//! The help page of the manual has the options that `--help` prints, each once. `UPDATE=1` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use regatta::cli;

const COMMANDS: [&str; 49] = [
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
    "repository check",
    "repository fill",
    "repository parameters",
    "selftest",
    "manual",
    "completions",
];

const OPENING: &str = "\
# Help

The arguments and options of every command. An option is described once, under the first command that has it. Every command
also has `-h`, `--help`, which prints examples and exit codes ([all exit codes](exit-codes.md)).
";

fn help(command: &str) -> String {
    let words = ["regatta"].into_iter().chain(command.split_whitespace()).chain(["--help"]);
    cli::parse(words).expect_err("help is printed, nothing is done").to_string()
}

/// A heading of a help text: a line at the left edge that ends with `:`.
fn heading(paragraph: &str) -> Option<&str> {
    let line = paragraph.lines().next()?;
    if line.starts_with(' ') { None } else { line.strip_suffix(':') }
}

/// An option or argument with its text, as one item of a list.
fn item(paragraph: &str) -> String {
    let lines = paragraph.lines().skip(usize::from(heading(paragraph).is_some())).map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && *line != "Possible values:");
    let name = lines.next().unwrap_or_default();
    let text =
        lines.map(|line| line.strip_prefix("- ").map_or_else(|| line.to_owned(), |value| format!("<br>{value}")));
    let text = text.collect::<Vec<_>>().join(" ").replace("[possible values: ", "[");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("- `{name}`: {text}").trim_end_matches(": ").to_owned() + "\n"
}

/// The section of a command: its usage, what it does, and the options that no earlier command has.
fn section(command: &str, printed: &mut BTreeSet<String>) -> String {
    // Text of an option that follows an empty line.
    let help = help(command).replace("\n\n          ", "\n          ");
    let paragraphs: Vec<&str> = help.split("\n\n").map(str::trim_end).collect();
    let usage = paragraphs.iter().find_map(|text| text.strip_prefix("Usage: ")).expect("a usage");
    let usage = usage.split_whitespace().filter(|word| *word != "[OPTIONS]").collect::<Vec<_>>().join(" ");
    let about = paragraphs[0].split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = format!("\n### `{usage}`\n\n{about}.\n\n");
    let mut group = None;
    let mut titled = None;
    for paragraph in paragraphs[1..].iter().take_while(|text| !text.starts_with("Examples:")) {
        group = heading(paragraph).or(group);
        if group.is_none() || paragraph.contains("-h, --help") || !printed.insert(item(paragraph)) {
            continue;
        }
        if command == "bench" && group != titled && group != Some("Arguments") {
            let _ = write!(text, "\n{}:\n\n", group.unwrap_or_default());
            titled = group;
        }
        text.push_str(&item(paragraph));
    }
    text.trim_end().to_owned() + "\n"
}

#[test]
fn the_manual_has_the_help_of_every_command() {
    let top = help("");
    let (commands, options) = top.split_once("\nOptions:\n").expect("options");
    let mut page = format!("{OPENING}\n## Options of every command\n\n");
    let mut printed = BTreeSet::new();
    for paragraph in options.split("\n\n").take_while(|text| text.starts_with(' ')) {
        if paragraph.contains("-h, --help") {
            continue;
        }
        page.push_str(&item(paragraph));
        printed.insert(item(paragraph));
    }
    let groups = commands.split("\n\n").filter_map(|text| Some((heading(text)?, text)));
    for (title, group) in groups {
        let _ = write!(page, "\n## {title}\n");
        let names = group.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
        for command in names.flat_map(|name| COMMANDS.iter().filter(move |it| it.split(' ').next() == Some(name))) {
            page.push_str(&section(command, &mut printed));
        }
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
