//! What the cluster's configuration allows.

use std::ffi::OsString;
use std::time::Duration;

use super::query::{Environment, QueryResult, run_query};

const QUERY_TIMEOUT: Duration = Duration::from_secs(20);
/// Slurm's own default.
const USUAL: u32 = 1001;

/// One more than the largest index of an array's element; 0 where there are no arrays.
pub async fn max_array_size(env: &Environment) -> u32 {
    let words = ["show", "config"].map(OsString::from).to_vec();
    match run_query("scontrol", words, env.clone(), QUERY_TIMEOUT).await {
        QueryResult::Answered { code: 0, stdout, .. } => parse_max_array_size(&stdout).unwrap_or(USUAL),
        // A controller that is silent now has to take the array, too.
        _ => USUAL,
    }
}

fn parse_max_array_size(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"))?;
    line.trim_start().strip_prefix('=')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
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
