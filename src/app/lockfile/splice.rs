//! Replaces some stages in the text of a lock file without reading the others. Of 10,000 stages, reading and writing
//! them all takes 0.8 s and 100 MB; a run in which one of them changed takes a quarter of that
//! (`cargo bench --bench graph`).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::{LockFile, LockSection, read, write};

/// The text with these stages of the run `name` as they are now. Only for a text that [`write()`] wrote: other forms of
/// the same YAML are not understood. `now`: the changed stages, and what the run itself has; what it says of the
/// machine and of tools must be in the text already. `None` where that is not so, or a stage is new: then the whole has
/// to be read and written.
pub fn splice(text: &str, name: &str, now: &LockSection) -> Option<String> {
    let runs = BTreeMap::from([(name.to_owned(), now.clone())]);
    let new = write(&LockFile { runs, ..LockFile::default() }).ok()?;
    let key = new.split_once(RUNS)?.1.lines().next()?;
    let (old_head, old_stages) = section_head(text, key)?;
    let head = read(&format!("lock: 1{RUNS}{key}\n{}", &text[old_head])).ok()?.runs.remove(name)?;
    let is_recorded = |known: &BTreeMap<String, String>, now: &BTreeMap<String, String>| {
        now.iter().all(|(name, value)| known.get(name) == Some(value))
    };
    let is_same_head = head.regatta == now.regatta
        && head.params == now.params
        && is_recorded(&head.machine, &now.machine)
        && is_recorded(&head.tools, &now.tools);
    if !is_same_head {
        return None;
    }
    let mut replaced: HashMap<&str, &str> = HashMap::new();
    for (key, block) in blocks(&new[section_head(&new, key)?.1..]) {
        // A long name is written in another form.
        if !key.ends_with(":\n") {
            return None;
        }
        replaced.insert(key, block);
    }
    let mut out = text[..old_stages].to_owned();
    out.reserve(text.len());
    let mut end = old_stages;
    for (key, block) in blocks(&text[old_stages..]) {
        out.push_str(replaced.remove(key).unwrap_or(block));
        end += block.len();
    }
    out.push_str(&text[end..]);
    replaced.is_empty().then_some(out)
}

const RUNS: &str = "\nruns:\n";

/// Whether a line is indented by this many spaces and no more. The byte after them first: it decides about most lines.
fn is_name(line: &str, indent: usize) -> bool {
    let bytes = line.as_bytes();
    bytes.get(indent).is_some_and(|byte| *byte != b' ') && bytes[..indent].iter().all(|byte| *byte == b' ')
}

/// Whether a line is below the name of a run. Empty lines are in block scalars.
fn is_below_run(line: &str) -> bool {
    line == "\n" || line.starts_with("   ")
}

/// Where the section that begins with the line `key` has its head, and where its stages begin.
fn section_head(text: &str, key: &str) -> Option<(Range<usize>, usize)> {
    let begin = text.find(&format!("\n{key}\n"))? + key.len() + 2;
    let mut at = begin;
    for line in text[begin..].split_inclusive('\n').take_while(|line| is_below_run(line)) {
        let head = begin..at;
        at += line.len();
        if line == "    stages:\n" {
            return Some((head, at));
        }
    }
    None
}

/// Each stage of the run whose stages `text` begins with: the line with its name, and all of its text.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut lines = rest.split_inclusive('\n');
        let key = lines.next().filter(|line| is_below_run(line))?;
        let more = lines.take_while(|line| is_below_run(line) && !is_name(line, 6));
        let (block, after) = rest.split_at(key.len() + more.map(str::len).sum::<usize>());
        rest = after;
        Some((key, block))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::LockedTask;
    use super::*;
    use plan::ActionKind;

    fn stage(action: &str, output: &str) -> LockedTask {
        LockedTask {
            kind: ActionKind::Shell,
            requested: BTreeMap::from([("action".to_owned(), json!({ "shell": action }))]),
            resolved: BTreeMap::from([("output".to_owned(), Value::from(output))]),
        }
    }

    /// Values that are written in several lines, in quotes, and as what they are not.
    const NASTY: [&str; 6] = ["echo", "a\n\n      s1:\n  m:\nb\n", "    stages:\n", "x: y", "'\"\\", "\n"];

    fn section_with(stages: &[(&str, LockedTask)]) -> LockSection {
        LockSection {
            regatta: "1".to_owned(),
            params: BTreeMap::from([("p".to_owned(), "two\nlines".to_owned())]),
            tools: BTreeMap::from([("sh".to_owned(), "1".to_owned()), ("git".to_owned(), "2".to_owned())]),
            stages: stages.iter().map(|(name, stage)| ((*name).to_owned(), stage.clone())).collect(),
            ..LockSection::default()
        }
    }

    fn file(name: &str, changed: &str, stage_output: &str) -> LockFile {
        let section = |output: &str| {
            let names = ["1", "s1", "s10", "s2/a", "s2/b", "true"];
            let stages: Vec<_> = names.iter().zip(NASTY).map(|(name, text)| (*name, stage(text, output))).collect();
            section_with(&stages)
        };
        let mut runs = BTreeMap::from([
            ("a".to_owned(), section("x")),
            ("m x=1".to_owned(), section("x")),
            ("z".to_owned(), section("x")),
        ]);
        if let Some(entry) = runs.get_mut(name).and_then(|section| section.stages.get_mut(changed)) {
            *entry = stage(&format!("{stage_output}\nnew\n"), stage_output);
        }
        LockFile { runs, ..LockFile::default() }
    }

    #[test]
    fn a_spliced_text_is_the_text_that_is_written_anew() {
        let before = write(&file("", "", "")).unwrap();
        for name in ["a", "m x=1", "z"] {
            for changed in ["1", "s1", "s10", "s2/a", "s2/b", "true"] {
                for output in NASTY {
                    let whole = file(name, changed, output);
                    let entry = whole.runs[name].stages[changed].clone();
                    let mut now = section_with(&[(changed, entry)]);
                    now.tools.remove("git");
                    assert_eq!(splice(&before, name, &now), Some(write(&whole).unwrap()), "{name} {changed}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_there_has_to_be_read_and_written_anew() {
        let before = write(&file("", "", "")).unwrap();
        let now = section_with(&[("s1", stage("a", "b"))]);
        assert!(splice(&before, "a", &now).is_some());
        assert_eq!(splice(&before, "b", &now), None, "no such run");
        assert_eq!(splice(&before, "a", &section_with(&[("new", stage("a", "b"))])), None, "a new stage");
        assert_eq!(splice(&before, "a", &LockSection { regatta: "2".to_owned(), ..now.clone() }), None);
        let tools = BTreeMap::from([("sh".to_owned(), "2".to_owned())]);
        assert_eq!(splice(&before, "a", &LockSection { tools, ..now }), None, "another tool");
        assert_eq!(splice("lock: 1\nruns: {a: {}}\n", "a", &section_with(&[])), None, "not our form");
    }
}
