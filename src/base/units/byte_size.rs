//! Numbers of bytes: for display, and how many there can be.

/// Of files together: more than any file system holds. Sums of sizes that others state stay far below what a number can
/// hold.
pub const MOST_FILES_BYTES: u64 = 1 << 60;

/// The first item with which those up to it have more than [`MOST_FILES_BYTES`] together.
pub fn first_beyond_limit<T>(items: impl IntoIterator<Item = T>, size: impl Fn(&T) -> u64) -> Option<T> {
    let mut bytes = 0_u64;
    items.into_iter().find(|item| {
        bytes = bytes.saturating_add(size(item));
        bytes > MOST_FILES_BYTES
    })
}

/// `512 B`, `39.8 GB`, `141 GB`: decimal units, as disks and data sheets have them.
pub fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    for unit in ["kB", "MB", "GB"] {
        // What rounds to 1,000 is one of the next unit.
        if value < 999.5 {
            return if value < 99.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_at_most() {
        let shown =
            [0, 999, 1000, 99_949, 99_950, 999_499, 999_500, 39_800_000_000, 141_000_000_000, 1_500_000_000_000];
        let expected =
            ["0 B", "999 B", "1.0 kB", "99.9 kB", "100 kB", "999 kB", "1.0 MB", "39.8 GB", "141 GB", "1.5 TB"];
        assert_eq!(shown.map(size), expected);
    }
}
