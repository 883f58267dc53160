//! What a job is called, and how Slurm writes the numbers of an array's elements.

/// What all names of our jobs begin with: other jobs of the queue are not looked at.
pub const PREFIX: &str = "regatta-";

/// How we know a job: by a name that nothing else has; an element of an array by its index, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlurmJob {
    pub name: String,
    pub element: Option<u32>,
}

impl std::fmt::Display for SlurmJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.element {
            Some(element) => write!(f, "{} [{element}]", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// `[0, 1, 2, 5]` as `0-2,5`. The numbers must be in order, each once.
pub fn ranges(elements: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for element in elements {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *element => *last = *element,
            _ => runs.push((*element, *element)),
        }
    }
    let word = |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.into_iter().map(word).collect::<Vec<_>>().join(",")
}

/// A number as `squeue` prints it, and the elements that it stands for: none of `123`, one of `123_7`, and of
/// `123_[4-7,9-15:2%3]` all that have not started.
pub fn elements(number: &str) -> (&str, Vec<u32>) {
    let Some((parent, rest)) = number.split_once('_') else { return (number, Vec::new()) };
    let rest = rest.trim_start_matches('[').trim_end_matches(']');
    let list = rest.split('%').next().unwrap_or_default();
    (parent, list.split(',').flat_map(range).collect())
}

/// `4`, `4-7` or `4-10:2`. Of what cannot be read, nothing.
fn range(text: &str) -> Vec<u32> {
    /// Slurm's own largest array has a few more than this.
    const MOST: u32 = 4_000_000;
    let (range, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u32>(), last.parse::<u32>(), step.parse::<usize>()) {
        (Ok(first), Ok(last), Ok(step)) if step > 0 && last <= MOST => (first..=last).step_by(step).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_are_read_as_squeue_prints_them() {
        assert_eq!(elements("123"), ("123", vec![]));
        assert_eq!(elements("123_7"), ("123", vec![7]));
        assert_eq!(elements("123_[4-7,9%3]"), ("123", vec![4, 5, 6, 7, 9]));
        assert_eq!(elements("123_[1-7:2,20]"), ("123", vec![1, 3, 5, 7, 20]));
        assert_eq!(elements("123_[0-3,5,...]"), ("123", vec![0, 1, 2, 3, 5]), "what was cut off is not made up");
        assert_eq!(elements("123_[0-99999999]"), ("123", vec![]));
        assert_eq!(elements("123_[x-7,3:0]"), ("123", vec![]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(elements in prop::collection::btree_set(0_u32..300, 1..60)) {
            let elements: Vec<u32> = elements.into_iter().collect();
            let number = format!("77_[{}%4]", ranges(&elements));
            prop_assert_eq!(super::elements(&number), ("77", elements));
        }
    }
}
