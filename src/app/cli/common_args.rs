//! Arguments that several commands have.

use std::num::NonZeroUsize;

use clap::{Args, ValueHint};

use super::key_value_arg::KeyValueArg;
use super::value_error::ArgumentValueError;

/// The heading of options that choose stages.
pub(super) const CHOICE: &str = "Stage selection";
/// The heading of options that say how a command works.
pub(super) const HOW: &str = "Settings";

#[derive(Debug, Args)]
pub(super) struct Subject {
    /// A manifest's name (`regatta list`) or a path to its file.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: String,
    /// Parameters of the manifest.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
}

/// A count of at least 1.
pub(super) fn count_above_zero(text: &str) -> Result<NonZeroUsize, ArgumentValueError> {
    let count = text.parse().map_err(|_| ArgumentValueError::NotNumber(text.to_owned()))?;
    NonZeroUsize::new(count).ok_or(ArgumentValueError::NotAboveZero)
}

/// `HOST:PORT`, a name or an address; it is looked up when it is listened on.
pub(super) fn host_and_port(text: &str) -> Result<String, ArgumentValueError> {
    let parts = text.rsplit_once(':').filter(|(host, _)| {
        let is_bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        !host.is_empty() && !is_bare_ipv6 && !host.contains(char::is_whitespace) && !host.contains('/')
    });
    match parts.map(|(_, port)| port.parse::<u16>()) {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err(ArgumentValueError::NotHostPort),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_none_is_refused() {
        assert_eq!(count_above_zero("2").map(NonZeroUsize::get), Ok(2));
        assert_eq!(count_above_zero("0"), Err(ArgumentValueError::NotAboveZero));
        assert_eq!(count_above_zero("-1"), Err(ArgumentValueError::NotNumber("-1".to_owned())));
    }

    #[test]
    fn a_host_may_be_a_name_or_an_address() {
        for good in ["localhost:0", "127.0.0.1:9100", "[::1]:9100", "node-3.cluster:80"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for wrong in ["localhost", ":9100", "localhost:port", "::1:80", "http://localhost:80", "localhost:70000"] {
            assert_eq!(host_and_port(wrong), Err(ArgumentValueError::NotHostPort), "{wrong}");
        }
    }
}
