//! The last lines of a server's log, ready to be searched.

/// Lines as they are, and those that can be a reason, lower case.
pub struct Log<'a> {
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
pub fn is_chatter(line: &str) -> bool {
    line.starts_with(['I', 'W']) && line.get(1..5).is_some_and(|day| day.bytes().all(|b| b.is_ascii_digit()))
}

/// What follows a text.
pub fn after<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    Some(line.split_once(marker)?.1)
}

/// The text up to a space, a comma, a quote or a bracket.
pub fn leading_token(text: &str) -> &str {
    text.trim_start().split([' ', ',', '\'', '"', ')', '(', '}', ';']).next().unwrap_or_default().trim_end_matches('.')
}

/// The number that a text begins with.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim_start().trim_start_matches('(');
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').parse().ok()
}

/// A size in GiB, from `2.00 GiB`, `512.00 MiB` or `17179869184 bytes`.
pub fn gib(text: &str) -> Option<f64> {
    let size = number(text)?;
    let unit = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '(').trim_start();
    Some(match unit {
        _ if unit.starts_with("GiB") || unit.starts_with("GB") => size,
        _ if unit.starts_with("MiB") || unit.starts_with("MB") => size / 1024.0,
        _ if unit.starts_with("KiB") => size / 1024.0 / 1024.0,
        _ => size / 1024.0 / 1024.0 / 1024.0,
    })
}
