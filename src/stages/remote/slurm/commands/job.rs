//! What a job is called, and how Slurm writes the numbers of an array's elements.

use std::ffi::OsString;
use std::time::Duration;

use super::queue::{Environment, error_text, run_query};
use base::diag::ErrorText;
use exec::process::{ProbeOutput, ProbeResult};

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

// Ending a job, by its name: its number may never have reached us.

const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// What is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobsToEnd<'a> {
    /// All jobs of this name of ours.
    Name(&'a str),
    /// These jobs, or elements of arrays: where a name means more than what is to end.
    Numbers(&'a [String]),
}

/// Requests it: TERM, and KILL after the cluster's `KillWait`, or KILL at once (`hard`). `Ok` when the controller has
/// received it, also if there was nothing to end. The error is the reason why it has not.
pub async fn cancel(jobs: JobsToEnd<'_>, hard: bool, env: &Environment) -> Result<(), ErrorText> {
    let user = format!("--user={}", rustix::process::getuid().as_raw());
    let (named, numbers) = match jobs {
        JobsToEnd::Name(name) => (vec![user, format!("--name={name}")], Vec::new()),
        JobsToEnd::Numbers(numbers) => (Vec::new(), numbers.to_vec()),
    };
    let at_once: &[&str] = if hard { &["--signal=KILL", "--full"] } else { &[] };
    let words = named.into_iter().chain(at_once.iter().map(|word| (*word).to_owned())).chain(numbers);
    match run_query("scancel", words.map(OsString::from).collect(), env.clone(), COMMAND_TIMEOUT).await {
        ProbeResult::Answered(ProbeOutput { code: 0, .. }) => Ok(()),
        failed => Err(ErrorText::new(error_text("scancel", &failed))),
    }
}

// Where a node can be reached.

const SCONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// What the controller answers; `None` where it does not.
async fn scontrol(words: &[&str], env: &Environment) -> Option<String> {
    let words = words.iter().map(OsString::from).collect();
    run_query("scontrol", words, env.clone(), SCONTROL_TIMEOUT).await.successful_output()
}

/// Names and addresses that the controller has for a node beside its name, the likeliest first. Not every cluster has
/// its nodes in a name service.
pub async fn addresses(node: &str, env: &Environment) -> Vec<String> {
    let answer = scontrol(&["show", "node", "-o", node], env).await.unwrap_or_default();
    let mut addresses = parse_addresses(&answer);
    let mut seen = std::collections::BTreeSet::from([node.to_owned()]);
    addresses.retain(|address| seen.insert(address.clone()));
    addresses
}

fn parse_addresses(text: &str) -> Vec<String> {
    let value = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
    ["NodeAddr=", "NodeHostName="].iter().filter_map(|key| value(key)).collect()
}

// What the cluster's configuration allows.

/// Slurm's own default.
const USUAL_ARRAY_SIZE: u32 = 1001;

/// One more than the largest index of an array's element; 0 where there are no arrays.
pub async fn max_array_size(env: &Environment) -> u32 {
    // A controller that is silent now has to take the array, too.
    scontrol(&["show", "config"], env)
        .await
        .and_then(|config| parse_max_array_size(&config))
        .unwrap_or(USUAL_ARRAY_SIZE)
}

fn parse_max_array_size(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"))?;
    line.trim_start().strip_prefix('=')?.trim().parse().ok()
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

#[cfg(test)]
mod node_tests {
    use super::*;

    #[test]
    fn the_address_comes_before_the_host_name() {
        let text =
            "NodeName=n1 Arch=x86_64 CoresPerSocket=1 NodeAddr=127.0.0.1 NodeHostName=lab Port=17610 Version=22.05.8";
        assert_eq!(parse_addresses(text), ["127.0.0.1", "lab"]);
        assert_eq!(parse_addresses("no such node"), [""; 0]);
    }
}

#[cfg(test)]
mod limits_tests {
    use super::*;

    #[test]
    fn the_size_is_read_from_the_configuration() {
        assert_eq!(
            parse_max_array_size("LogTimeFormat = iso\nMaxArraySize            = 1001\nMaxDBDMsgs = 20\n"),
            Some(1001)
        );
        assert_eq!(parse_max_array_size("nothing of the kind"), None);
    }
}
