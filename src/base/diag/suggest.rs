//! "Did you mean": the known name nearest to one that is not known.

use std::cell::Cell;

thread_local! {
    /// Names that this thread may still compare: a file with thousands of unknown names, each among thousands of known
    /// ones, takes no minutes.
    static COMPARISONS: Cell<usize> = const { Cell::new(200_000) };
}

/// Whether this thread may still suggest names. To be asked before thousands of names are collected for a suggestion.
pub fn may_suggest() -> bool {
    COMPARISONS.get() > 0
}

/// The nearest known name, if one is near enough to be a typing error. Never the word itself.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let length = word.chars().count();
    let allowed = (length / 3).max(1);
    let mut best: Option<((usize, usize), &str)> = None;
    for name in known.into_iter().filter(|name| *name != word) {
        let remaining = COMPARISONS.get().checked_sub(1)?;
        COMPARISONS.set(remaining);
        // A long name cut short ("tensor_parallel") is as good as one letter missed, but worse than a real typing
        // error.
        let short = length >= 3 && (name.starts_with(&*lower) || lower.starts_with(name) && name.len() >= 3);
        let missing = name.chars().count().abs_diff(length);
        if missing > allowed && !short {
            // At least this many edits: a long text is not compared letter by letter with each name.
            continue;
        }
        let edits = if short { missing } else { strsim::damerau_levenshtein(&lower, &name.to_lowercase()) };
        let distance = if short { edits.min(allowed) } else { edits };
        if distance <= allowed && distance < length && best.is_none_or(|(least, _)| (distance, edits) < least) {
            best = Some(((distance, edits), name));
        }
    }
    best.map(|(_, name)| name)
}

/// `did you mean `x`?`, or a list of all names, or nothing where the list is empty or no comparison is left. A letter
/// of another alphabet is named, because it can look the same.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> Option<String> {
    if !may_suggest() {
        return None;
    }
    let candidates = known.into_iter();
    if let Some(name) = nearest(word, candidates.clone()) {
        let foreign = word.chars().find(|letter| !letter.is_ascii() && !name.contains(*letter));
        let letter = foreign.map(|letter| format!(" The `{letter}` is U+{:04X}", u32::from(letter)));
        return Some(format!("did you mean `{name}`?{}", letter.unwrap_or_default()));
    }
    let names = list_of(candidates);
    (!names.is_empty()).then(|| format!("there is: {names}"))
}

/// `` `a`, `b`, `c` ``, shortened when there are very many.
pub fn list_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 24;
    let mut names = names.into_iter();
    let mut shown: Vec<String> = names.by_ref().take(MOST).map(|name| format!("`{name}`")).collect();
    let more = names.count();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_wins_and_the_far_is_silent() {
        let names = ["max_batch_size", "max_num_tokens", "when"];
        assert_eq!(nearest("max_bach_size", names), Some("max_batch_size"));
        assert_eq!(nearest("wehn", names), Some("when"));
        assert_eq!(nearest("color", names), None);
        assert_eq!(nearest("when", names), None);
        // The first letter is Cyrillic.
        assert_eq!(did_you_mean("аll", ["all"]), Some("did you mean `all`? The `а` is U+0430".to_owned()));
        assert_eq!(did_you_mean("when", ["when"]), Some("there is: `when`".to_owned()));
    }

    #[test]
    fn a_very_long_text_is_near_to_nothing_and_not_compared() {
        let long = "ab_".repeat(1 << 20);
        assert_eq!(nearest(&long, ["ab_c", "max_batch_size"]), None);
        assert_eq!(nearest("max_batch_size_", ["max_batch_size"]), Some("max_batch_size"));
    }

    #[test]
    fn thousands_of_unknown_names_take_no_minutes() {
        let names: Vec<String> = (0..10_000).map(|n| format!("stage_number_{n}")).collect();
        assert!(nearest("stage_numbr_1", names.iter().map(String::as_str)).is_some());
        let begun = std::time::Instant::now();
        for n in 0..10_000 {
            let _ = nearest(&format!("stage_numbr_{n}"), names.iter().map(String::as_str));
        }
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
        assert_eq!(nearest("wehn", ["when"]), None, "no comparison is left");
        assert!(!may_suggest());
        assert_eq!(did_you_mean("wehn", ["when"]), None, "a list of all names for each takes as long");
    }

    #[test]
    fn many_names_are_cut() {
        let names: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        assert!(list_of(names.iter().map(String::as_str)).ends_with("`23`, and 6 more"));
    }
}
