//! Names in the order in which a reader expects them: `load/2` before `load/10`.

use std::cmp::Ordering;

/// Compares two names, runs of digits by their number.
pub(super) fn natural_order(a: &str, b: &str) -> Ordering {
    let (a_parts, b_parts) = (parts(a), parts(b));
    for (one, other) in a_parts.iter().zip(&b_parts) {
        let order = match (one.parse::<u64>(), other.parse::<u64>()) {
            (Ok(one), Ok(other)) => one.cmp(&other),
            _ => one.cmp(other),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a_parts.len().cmp(&b_parts.len()).then_with(|| a.cmp(b))
}

/// A name cut where digits begin and end.
fn parts(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_ordered_as_numbers() {
        let mut names = ["load/10", "load/2", "load/5", "load", "load/2/b", "engine", "load/2.5"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["engine", "load", "load/2", "load/2.5", "load/2/b", "load/5", "load/10"]);
    }
}
