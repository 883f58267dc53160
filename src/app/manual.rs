//! `regatta manual`: the pages of the manual, which are part of the program, and a search in them.

use crate::cli::{CliExit, Global, ManualArgs};
use crate::console::print;
use crate::error::CommandError;
use base::diag::nearest;
use report::{Cell, Styler, Table, cut};

macro_rules! pages {
    ($($part:ident: $($name:literal)+;)+) => {
        &[$($((
            concat!(stringify!($part), "/", $name),
            include_str!(concat!("../../tests/manual/", stringify!($part), "/", $name, ".md")),
        )),+),+]
    };
}

/// The pages, part by part in reading order: path below `tests/manual` without `.md`, and text. The page with the help
/// of the commands is not part of the program: `--help` prints it.
const PAGES: &[(&str, &str)] = pages! {
    start: "install" "first-benchmark" "own-server" "first-manifest" "results";
    guides: "load" "highest-rate" "sweeps" "compare" "what-if" "simulator" "vllm" "query-triton"
        "model-repositories" "mlperf" "genai-perf" "llmb-run" "backend-scripts" "containers" "doctor" "slurm"
        "hosts" "shared-store" "lock-file" "scripting" "notebook";
    concepts: "glossary" "manifests" "cache" "failures" "numbers" "statistics" "simulation";
    reference: "keys" "exit-codes" "verdicts" "protocols" "prompts" "files";
    appendix: "security" "faults";
};

/// How outputs are written in the pages; the page of contents says the same.
const NOTATION: &str = "In an output, `[..]` stands for what differs from run to run within a line, `...` for lines, \
    and `? 2` for the exit code.";

/// Widest line that a search shows of a section.
const FOUND_WIDTH: usize = 80;

/// Prints a page as it is written, the sections that have the words of a search, or the list of pages.
pub(super) fn manual(global: &Global, args: &ManualArgs) -> Result<CliExit, CommandError> {
    let styler = global.styler();
    print(&match &args.page {
        Some(wanted) => find(wanted)?.to_owned(),
        None if args.search.is_empty() => contents(styler),
        None => search(styler, &args.search)?,
    });
    Ok(CliExit::Done)
}

fn contents(styler: Styler) -> String {
    let mut last = "";
    let mut rows = Vec::new();
    for &(path, text) in PAGES {
        let (part, name) = split(path);
        let shown = if part == last { String::new() } else { part[..1].to_uppercase() + &part[1..] };
        rows.push([Cell::quiet(shown), Cell::name(name), title(text).into()]);
        last = part;
    }
    let list = Table::list([], rows).terminal(styler, "");
    format!("{list}\nPrint one: `regatta manual sweeps`. Search: `regatta manual --search api key`.\n{NOTATION}\n")
}

/// `guides/sweeps` → `guides` and `sweeps`.
fn split(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or(("", path))
}

fn title(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches("# ")
}

/// The page of this name; otherwise the one page whose path or title has the text in it.
fn find(wanted: &str) -> Result<&'static str, CommandError> {
    let word = wanted.to_lowercase();
    let short = word.trim_end_matches(".md");
    if let Some((_, text)) = PAGES.iter().find(|(path, _)| *path == short || split(path).1 == short) {
        return Ok(text);
    }
    let is_alike = |(path, text): &&(&str, &str)| path.contains(short) || title(text).to_lowercase().contains(short);
    let alike: Vec<_> = PAGES.iter().filter(is_alike).collect();
    match alike.as_slice() {
        [(_, text)] => Ok(text),
        [] => {
            let hint = nearest(short, PAGES.iter().map(|(path, _)| split(path).1)).map_or_else(
                || format!("`regatta manual` lists the pages; `regatta manual --search {wanted}` searches them"),
                |name| format!("did you mean `{name}`?"),
            );
            Err(CommandError::hinted(format!("the manual has no page `{wanted}`"), hint))
        }
        several => {
            let names = several.iter().map(|(path, _)| split(path).1).collect::<Vec<_>>().join(", ");
            Err(CommandError::Usage(format!("several pages have `{wanted}` in their names: {names}")))
        }
    }
}

/// The sections that have all these words, those with all of them in the heading first: page, heading, a line.
fn search(styler: Styler, words: &[String]) -> Result<String, CommandError> {
    let words: Vec<String> = words.iter().flat_map(|text| text.split_whitespace()).map(str::to_lowercase).collect();
    let count = |text: &str| words.iter().filter(|word| text.to_lowercase().contains(*word)).count();
    let mut matches = Vec::new();
    for (path, page) in PAGES {
        for section in page.split("\n## ").filter(|section| count(section) == words.len()) {
            let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
            let line = body.lines().rev().max_by_key(|line| count(line)).unwrap_or_default();
            let cells = [Cell::name(split(path).1), title(heading).into(), Cell::quiet(cut(line.trim(), FOUND_WIDTH))];
            matches.push((words.len() - count(heading), cells));
        }
    }
    if matches.is_empty() {
        let text = format!("no section of the manual has all of: {}", words.join(", "));
        return Err(CommandError::hinted(text, "try fewer words, or `regatta explain KEY` for a key or a metric"));
    }
    matches.sort_by_key(|(missing, _)| *missing);
    Ok(Table::list([], matches.into_iter().map(|(_, cells)| cells)).terminal(styler, ""))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_of_the_folders_is_part_of_the_program() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/manual");
        let mut paths = BTreeSet::new();
        for part in ["start", "guides", "concepts", "reference", "appendix"] {
            let files = std::fs::read_dir(format!("{root}/{part}")).unwrap().flatten();
            let names = files.filter_map(|item| item.file_name().into_string().ok());
            paths.extend(names.filter_map(|name| Some(format!("{part}/{}", name.strip_suffix(".md")?))));
        }
        assert!(paths.remove("reference/help"));
        assert_eq!(PAGES.iter().map(|(path, _)| (*path).to_owned()).collect::<BTreeSet<_>>(), paths);
    }

    #[test]
    fn the_page_of_contents_lists_every_page() {
        let page = include_str!("../../tests/manual/README.md");
        for (path, text) in PAGES {
            assert!(page.contains(&format!("[{}]({path}.md)", title(text))), "{path}: {}", title(text));
        }
    }

    #[test]
    fn the_pages_of_the_start_are_short() {
        for (path, text) in PAGES.iter().filter(|(path, _)| path.starts_with("start/")) {
            assert!(text.lines().count() <= 80, "{path} has {} lines", text.lines().count());
        }
    }

    #[test]
    fn a_page_is_found_by_its_name_and_by_part_of_its_title() {
        let page = |wanted: &str| match find(wanted) {
            Ok(text) => title(text).to_owned(),
            Err(CommandError::Usage(text)) => text,
            Err(other) => panic!("{:?}", other.exit()),
        };
        assert_eq!(["sweeps", "guides/sweeps", "Sweeps.md", "swee"].map(page), ["Sweeps"; 4].map(str::to_owned));
        assert!(page("first").contains("several pages have `first` in their names: "), "{}", page("first"));
        assert!(page("sweps").contains("did you mean `sweeps`?"));
        assert!(page("99").contains("the manual has no page `99`"));
    }

    #[test]
    fn a_search_prints_the_sections_that_have_all_words() {
        let search = |words: &[&str]| {
            search(
                Styler::chosen(anstream::ColorChoice::Never),
                &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(),
            )
        };
        let printed = search(&["signed outputs"]).unwrap_or_default();
        assert!(printed.starts_with("shared-store ") && printed.contains("\nsecurity "), "{printed}");
        assert!(search(&["signed", "zeppelin"]).is_err());
    }
}
