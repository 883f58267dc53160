//! Why the value of an argument is refused.

/// Reads after clap's "invalid value 'x' for '--option'".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentValueError {
    #[error("`{0}` is not a number")]
    NotNumber(String),
    #[error("must be above 0")]
    NotAboveZero,
    #[error("must be 0 or more")]
    Negative,
    #[error("a number from 0.1 to 100000")]
    Rate,
    #[error("two numbers with a comma between them")]
    NotPair,
    #[error("it must be above 0 and below 100")]
    Percent,
    #[error("write HOST:PORT, for example localhost:9100, 0.0.0.0:9100 or [::1]:9100")]
    NotHostPort,
    #[error("`{0}` is no age; write 30d, 12h, 90m or 45s")]
    Age(String),
    #[error("`{0}` is no size; write 500GiB, 2TB or a number of bytes")]
    Size(String),
}
