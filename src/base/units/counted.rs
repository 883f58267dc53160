//! A number with the noun that it counts.

use std::fmt::Display;

/// `1 task`, `3 tasks`.
#[expect(clippy::needless_pass_by_value, reason = "numbers are copied")]
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, noun: &str) -> String {
    let plural = if n == N::from(1) { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let texts = [0_u64, 1, 2].map(|n| counted(n, "task"));
        assert_eq!(texts, ["0 tasks", "1 task", "2 tasks"]);
    }
}
