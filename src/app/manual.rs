//! `regatta manual`: the chapters of the manual, which are part of the program; and what `regatta` alone prints.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::cli::{CliExit, Global};
use crate::console::print;
use crate::doctor::gpu_names;
use crate::error::CommandError;
use base::diag::nearest;
use report::{Cell, Styler, Table};

macro_rules! chapters {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("../../tests/manual/", $name, ".md")))),+] };
}

/// File names without `.md`, and their texts. `--help` has what `help.md` has.
const CHAPTERS: [(&str, &str); 29] = chapters![
    "01-first-run",
    "02-manifest-language",
    "03-when-it-fails",
    "04-cache-and-resume",
    "05-triton-on-the-simulator",
    "06-scripting",
    "07-asking-a-server",
    "08-numbers",
    "09-model-repositories",
    "10-load",
    "11-coming-from-genai-perf",
    "12-mlperf",
    "13-coming-from-llmb-run",
    "14-coming-from-the-backends-scripts",
    "15-containers",
    "16-doctor",
    "17-slurm",
    "18-shared-store",
    "19-hosts",
    "20-the-lock-file",
    "21-comparing-runs",
    "22-a-vllm-server",
    "23-sweeps",
    "24-in-a-notebook",
    "25-what-if",
    "26-installing",
    "27-security",
    "28-faults",
    "reference",
];

/// How outputs are written in the chapters: the second paragraph of the page of contents.
const NOTATION: &str = "In an output, `[..]` stands for what differs from run to run within a line, `...` for lines, \
    and `? 2` for the exit code.";

/// Prints a chapter as it is written, or the list of chapters.
pub(super) fn manual(global: &Global, chapter: Option<&str>) -> Result<CliExit, CommandError> {
    print(&match chapter {
        None => contents(global.styler()),
        Some(wanted) => find(wanted)?.1.to_owned(),
    });
    Ok(CliExit::Done)
}

fn contents(styler: Styler) -> String {
    let row = |(name, text): &(&str, &str)| {
        let (number, word) = parts(name);
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        [Cell::quiet(number), Cell::name(word), title.into()]
    };
    let mut out = Table::list([], CHAPTERS.iter().map(row)).terminal(styler, "");
    let _ =
        write!(out, "\nPrint one by its number or name: `regatta manual 8`, `regatta manual sweeps`.\n{NOTATION}\n");
    out
}

/// `08-numbers` → `8` and `numbers`; the reference has no number.
fn parts(name: &str) -> (&str, &str) {
    name.split_once('-')
        .filter(|(number, _)| number.bytes().all(|b| b.is_ascii_digit()))
        .map_or(("", name), |(number, word)| (number.trim_start_matches('0'), word))
}

/// The chapter of this number or name; otherwise the one chapter whose name or title has the text in it.
fn find(wanted: &str) -> Result<&'static (&'static str, &'static str), CommandError> {
    let word = wanted.to_lowercase();
    let short = word.trim_end_matches(".md").trim_start_matches('0');
    let is_it = |(name, _): &&(&str, &str)| {
        let (number, title) = parts(name);
        *name == word.trim_end_matches(".md") || title == short || (!number.is_empty() && number == short)
    };
    if let Some(chapter) = CHAPTERS.iter().find(is_it) {
        return Ok(chapter);
    }
    let title = |text: &str| text.lines().next().unwrap_or_default().to_lowercase();
    let alike: Vec<_> =
        CHAPTERS.iter().filter(|(name, text)| name.contains(short) || title(text).contains(short)).collect();
    let names = |some: &[&(&str, &str)]| some.iter().map(|(name, _)| parts(name).1).collect::<Vec<_>>().join(", ");
    match alike.as_slice() {
        [chapter] => Ok(chapter),
        [] => {
            let titles = CHAPTERS.iter().map(|(name, _)| parts(name).1);
            let hint = nearest(short, titles)
                .map_or_else(|| "`regatta manual` lists them".to_owned(), |name| format!("did you mean `{name}`?"));
            Err(CommandError::hinted(format!("the manual has no chapter `{wanted}`"), hint))
        }
        several => {
            Err(CommandError::Usage(format!("several chapters have `{wanted}` in their names: {}", names(several))))
        }
    }
}

/// Ports on which servers of this machine are usually found, and the line that measures them.
const USUAL_PORTS: [(u16, &str); 2] = [
    (8001, "regatta bench 127.0.0.1:8001 --rate 5 -n 100"),
    (8000, "regatta bench http://127.0.0.1:8000 --rate 5 -n 100"),
];

/// A server on this machine answers at once, or is not there.
const QUERY_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) fn text() -> String {
    let answers =
        |port: u16| TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), QUERY_TIMEOUT).is_ok();
    let ports: Vec<u16> = USUAL_PORTS.iter().map(|(port, _)| *port).filter(|port| answers(*port)).collect();
    advice(&gpu_names(), &ports, Path::new("manifests").is_dir())
}

/// Lines to try, the most useful first. `ports`: those that something listens on.
fn advice(gpus: &[String], ports: &[u16], has_manifests: bool) -> String {
    let machine = match gpus {
        [] => "no NVIDIA GPU".to_owned(),
        [one] => format!("one {one}"),
        [first, ..] => format!("{} GPUs, {first}", gpus.len()),
    };
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for (port, line) in USUAL_PORTS {
        if ports.contains(&port) {
            lines.push((
                line,
                if port == 8001 {
                    "something listens there: a Triton?"
                } else {
                    "something listens there: Triton or an OpenAI server?"
                },
            ));
        }
    }
    if gpus.is_empty() {
        lines.push(("regatta bench sim:", "measure a simulated server, in seconds"));
        lines.push(("regatta run quickstart", "a whole pipeline, on the simulator"));
    } else {
        lines.push(("regatta bench --serve vllm MODEL --rate 5", "start vLLM here, measure it, stop it"));
        lines.push(("regatta doctor", "what this machine has, and what it lacks"));
        lines.push(("regatta run quickstart", "a whole pipeline, on the simulator"));
    }
    lines.push(if has_manifests {
        ("regatta list", "the manifests of this folder, and those of the program")
    } else {
        ("regatta init", "begin a project here: a manifest and a .gitignore")
    });
    lines.push(("regatta --help", "all commands"));
    let mut out = format!("Regatta runs reproducible LLM-serving benchmarks. This machine: {machine}.\n\nNext:\n");
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    for (line, what) in lines {
        let _ = writeln!(out, "  {line:width$}   {what}");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_chapter_of_the_folder_is_part_of_the_program() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/manual")).unwrap();
        let files = folder.flatten().filter_map(|item| item.file_name().into_string().ok());
        let mut names: BTreeSet<String> = files.filter_map(|name| Some(name.strip_suffix(".md")?.to_owned())).collect();
        assert!(names.remove("README") && names.remove("help"));
        assert_eq!(CHAPTERS.map(|(name, _)| name.to_owned()).into_iter().collect::<BTreeSet<_>>(), names);
    }

    #[test]
    fn a_chapter_is_found_by_number_name_and_part_of_its_title() {
        let chapter = |wanted: &str| match find(wanted) {
            Ok((name, _)) => (*name).to_owned(),
            Err(CommandError::Usage(what)) => what,
            Err(other) => panic!("{:?}", other.exit()),
        };
        assert_eq!(["8", "08", "numbers", "08-numbers.md"].map(chapter), ["08-numbers"; 4]);
        assert_eq!(
            ["sweeps", "slurm", "GenAI-Perf", "reference"].map(chapter),
            ["23-sweeps", "17-slurm", "11-coming-from-genai-perf", "reference"]
        );
        assert_eq!(
            chapter("coming"),
            "several chapters have `coming` in their names: coming-from-genai-perf, coming-from-llmb-run, \
             coming-from-the-backends-scripts"
        );
        assert!(chapter("sweps").contains("did you mean `sweeps`?"));
        assert!(chapter("99").contains("the manual has no chapter `99`"));
    }

    #[test]
    fn a_machine_with_nothing_starts_with_the_simulator() {
        insta::assert_snapshot!(advice(&[], &[], false), @"
        Regatta runs reproducible LLM-serving benchmarks. This machine: no NVIDIA GPU.

        Next:
          regatta bench sim:       measure a simulated server, in seconds
          regatta run quickstart   a whole pipeline, on the simulator
          regatta init             begin a project here: a manifest and a .gitignore
          regatta --help           all commands
        ");
    }

    #[test]
    fn what_is_there_comes_first() {
        insta::assert_snapshot!(advice(&["NVIDIA H100 80GB HBM3".to_owned()], &[8000], true), @"
        Regatta runs reproducible LLM-serving benchmarks. This machine: one NVIDIA H100 80GB HBM3.

        Next:
          regatta bench http://127.0.0.1:8000 --rate 5 -n 100   something listens there: Triton or an OpenAI server?
          regatta bench --serve vllm MODEL --rate 5             start vLLM here, measure it, stop it
          regatta doctor                                        what this machine has, and what it lacks
          regatta run quickstart                                a whole pipeline, on the simulator
          regatta list                                          the manifests of this folder, and those of the program
          regatta --help                                        all commands
        ");
    }
}
