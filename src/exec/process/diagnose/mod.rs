//! Likely causes: what the last lines of a log usually mean.

mod server;
mod shortage;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::command::ExitKind;
use base::event::MemoryKind;
pub use shortage::exhausted_memory;

/// How an end is recognized, its cause and a hint; `causes.toml` says what each key means.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CauseRow {
    texts: Vec<String>,
    memory: Option<MemoryKind>,
    code: Option<i32>,
    signal: Option<i32>,
    cause: String,
    hint: String,
    values: BTreeMap<String, Vec<String>>,
    read: Option<String>,
}

#[derive(Deserialize)]
struct CauseTable {
    row: Vec<CauseRow>,
    server: Vec<CauseRow>,
}

static TABLE: LazyLock<CauseTable> =
    LazyLock::new(|| toml::from_str(include_str!("causes.toml")).expect("a test reads the table"));

impl CauseRow {
    /// The texts that are its signs, lower case.
    fn signs(&self) -> Vec<&str> {
        let memory = match self.memory {
            Some(MemoryKind::Gpu) => shortage::GPU,
            Some(MemoryKind::Host) => shortage::KILLED,
            None => &[],
        };
        self.texts.iter().map(String::as_str).chain(memory.iter().copied()).collect()
    }

    /// A sentence with what the log has for each `<name>`.
    fn filled(&self, sentence: &str, log: &Log<'_>, line: &str) -> String {
        let mut parts = sentence.split('<');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (name, rest) in parts.filter_map(|part| part.split_once('>')) {
            let (name, otherwise) = name.split_once('|').unwrap_or((name, ""));
            text.push_str(&self.value(name, log, line).unwrap_or_else(|| otherwise.to_owned()));
            text.push_str(rest);
        }
        text
    }

    fn value(&self, name: &str, log: &Log<'_>, line: &str) -> Option<String> {
        let behind = self.values.get(name).and_then(|markers| {
            let (first, others) = markers.split_first()?;
            let text = first.strip_prefix("log: ").map_or_else(|| after(line, first), |marker| log.after(marker))?;
            others.iter().try_fold(text, |text, marker| after(text, marker))
        });
        match name {
            "line" | "reason" => Some(short(behind.unwrap_or(line))),
            _ => behind.map(leading_token).filter(|token| !token.is_empty()).map(str::to_owned),
        }
    }
}

/// The likely cause of an end, from how it ended and its last lines. `None` for a success and for unknown causes.
pub fn diagnose(tail: &[String], how: ExitKind) -> Option<Diagnosis> {
    if matches!(how, ExitKind::Code(0) | ExitKind::Stopped) {
        return None;
    }
    let telling: Vec<&str> = tail.iter().map(String::as_str).filter(|line| !is_chatter(line)).collect();
    let text = telling.join("\n").to_lowercase();
    let row = TABLE.row.iter().find(|row| {
        row.signs().into_iter().any(|sign| text.contains(sign))
            || row.code.is_some_and(|code| how == ExitKind::Code(code))
            || row.signal.is_some_and(|signal| how == ExitKind::Signal(signal))
    })?;
    Some(Diagnosis::new(row.cause.as_str()).hint(row.hint.as_str()))
}

/// The likely cause of a server's end, from the last hundreds of lines of its log: it prints the cause, and then
/// tables.
pub fn diagnose_server(lines: &[String]) -> Option<Diagnosis> {
    let log = Log::new(lines);
    TABLE.server.iter().find_map(|row| {
        let line = log.find_line(&row.signs())?;
        let read = row.read.as_deref().and_then(reader);
        let fill = |sentence: &str| row.filled(sentence, &log, line);
        Some(read.map_or_else(|| Diagnosis::new(fill(&row.cause)).hint(fill(&row.hint)), |read| read(&log, line)))
    })
}

/// The function that computes the sentences of a row.
fn reader(name: &str) -> Option<fn(&Log<'_>, &str) -> Diagnosis> {
    Some(match name {
        "no_cache" => server::no_cache,
        "cache_too_small_for_one" => server::cache_too_small,
        "memory_in_use" => server::memory_in_use,
        "cache_too_small" => shortage::cache_too_small,
        "shared_memory" => shortage::shared_memory,
        "gpu" => shortage::gpu,
        "host" => shortage::host,
        "port" => server::port,
        "libpython" => server::libpython,
        "module" => server::module,
        _ => return None,
    })
}

// What a diagnosis gives the user: a likely cause and a hint.

/// What a message in a log usually means, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub cause: String,
    pub hint: String,
}

impl Diagnosis {
    fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: String::new() }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

// The last lines of a server's log, ready to be searched.

/// Lines as they are, and those that can be a reason, lower case.
struct Log<'a> {
    lines: &'a [String],
    telling: Vec<(&'a str, String)>,
}

impl<'a> Log<'a> {
    pub fn new(lines: &'a [String]) -> Self {
        let telling = lines.iter().filter(|line| !is_chatter(line)).map(|line| (line.as_str(), line.to_lowercase()));
        Self { lines, telling: telling.collect() }
    }

    /// The first line that contains one of these (lower case).
    pub fn find_line(&self, signs: &[&str]) -> Option<&'a str> {
        self.telling.iter().find(|(_, lower)| signs.iter().any(|sign| lower.contains(sign))).map(|(line, _)| *line)
    }

    /// What follows a text in any line, the last one first.
    pub fn after(&self, marker: &str) -> Option<&'a str> {
        self.lines.iter().rev().find_map(|line| after(line, marker))
    }
}

/// What glog marks as information or a warning is not why a server gave up: a Triton without a GPU warns of the missing
/// driver each time, and goes on.
fn is_chatter(line: &str) -> bool {
    line.starts_with(['I', 'W']) && line.get(1..5).is_some_and(|day| day.bytes().all(|b| b.is_ascii_digit()))
}

/// What follows a text.
fn after<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    Some(line.split_once(marker)?.1)
}

/// The text up to a space, a comma, a quote or a bracket.
fn leading_token(text: &str) -> &str {
    text.trim_start().split([' ', ',', '\'', '"', ')', '(', '}', ';']).next().unwrap_or_default().trim_end_matches('.')
}

/// A line that fits into a message.
fn short(line: &str) -> String {
    const ROOM: usize = 120;
    let line = line.trim();
    if line.chars().count() <= ROOM { line.to_owned() } else { line.chars().take(ROOM).chain(['…']).collect() }
}

/// The number that a text begins with.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start().trim_start_matches('(');
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').parse().ok()
}

/// A size in GiB, from `2.00 GiB`, `512.00 MiB` or `17179869184 bytes`.
fn gib(text: &str) -> Option<f64> {
    let size = number(text)?;
    let unit = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '(').trim_start();
    Some(match unit {
        _ if unit.starts_with("GiB") || unit.starts_with("GB") => size,
        _ if unit.starts_with("MiB") || unit.starts_with("MB") => size / 1024.0,
        _ if unit.starts_with("KiB") => size / 1024.0 / 1024.0,
        _ => size / 1024.0 / 1024.0 / 1024.0,
    })
}
