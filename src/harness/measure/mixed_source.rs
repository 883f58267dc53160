//! Who counted the tokens, as one text, where answers of one run were counted by several.

/// Behind each source but the first: `, for 3 of 1000 answers that have no usable one`.
const FOR: &str = ", for ";
/// A source that an answer has, and that contradicts it, does not count.
const NONE: &str = " answers that have no usable one";
/// What results of earlier programs have in its place.
const FORMER_NONE: &str = " answers that have none";

/// `parts`: each source with the number of its answers, the interface's own first; `all`: how many answers there are.
pub(super) fn mixed(parts: Vec<(u64, String)>, all: u64) -> String {
    let each = parts.into_iter().enumerate().map(|(place, (answers, source))| {
        if place == 0 { source } else { format!("{source}{FOR}{answers} of {all}{NONE}") }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Each source in such a text, and the share of the answers that it counted. A text of one source has all of them.
pub fn token_counters(text: &str) -> Vec<(&str, f64)> {
    let part = |part| {
        let share = |counts: &str| {
            let counts = counts.strip_suffix(NONE).or_else(|| counts.strip_suffix(FORMER_NONE))?;
            let (answers, all) = counts.split_once(" of ")?;
            Some(answers.parse::<f64>().ok()? / all.parse::<f64>().ok()?.max(1.0))
        };
        let (source, share) = str::rsplit_once(part, FOR)
            .and_then(|(source, counts)| Some((source, share(counts)?)))
            .unwrap_or((part, 0.0));
        (source, share)
    };
    let mut found: Vec<(&str, f64)> = text.split("; ").map(part).collect();
    let others: f64 = found.iter().skip(1).map(|(_, share)| share).sum();
    found[0].1 = 1.0 - others;
    found
}

/// Whether two such texts mean the same: the same sources, each for about as many of the answers.
pub fn are_counted_alike(one: &str, other: &str) -> bool {
    /// Of the answers.
    const SMALL: f64 = 0.01;
    let (one, other) = (token_counters(one), token_counters(other));
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= SMALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_alike_whatever_the_number_of_answers() {
        let text = |answers, all| {
            mixed(vec![(all - answers, "usage".to_owned()), (answers, "chunks, one, each".to_owned())], all)
        };
        assert_eq!(text(3, 1000), "usage; chunks, one, each, for 3 of 1000 answers that have no usable one");
        assert_eq!(token_counters(&text(250, 1000)), [("usage", 0.75), ("chunks, one, each", 0.25)]);
        let former = "usage; chunks, one, each, for 250 of 1000 answers that have none";
        assert!(are_counted_alike(former, &text(250, 1000)));
        assert_eq!(token_counters("chunks, for instance"), [("chunks, for instance", 1.0)]);
        assert!(are_counted_alike(&text(3, 1000), &text(5, 1001)));
        assert!(!are_counted_alike(&text(3, 1000), &text(500, 1000)));
        assert!(!are_counted_alike(&text(3, 1000), "usage"));
        assert!(are_counted_alike("", ""));
    }
}
