//! `mlperf_log_summary.txt`: for people, and for checkers that look for its lines.

/// The summary as name–value pairs in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadgenSummary {
    pub lines: Vec<(String, String)>,
}

impl LoadgenSummary {
    pub fn parse(text: &str) -> Self {
        let pair = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        Self { lines: text.lines().filter_map(pair).collect() }
    }

    /// The first line of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `VALID` or `INVALID`.
    pub fn result(&self) -> Option<&str> {
        self.get("Result is")
    }
}
