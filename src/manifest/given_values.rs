//! Values from outside a manifest, and where a value came from.

use std::collections::BTreeMap;
use std::fmt;

use crate::diag::Span;

/// What the user gave from outside: `key=value` in order (the last one wins; a key with dots is a place, see `overrides`)
/// and the environment.
#[derive(Clone, Debug, Default)]
pub struct GivenValues {
    pub params: Vec<(String, String)>,
    pub env: BTreeMap<String, String>,
}

/// Where a value came from.
#[derive(Clone, Debug)]
pub enum ValueOrigin {
    CommandLine,
    Environment(String),
    Default(Span),
    File(Span),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Default(span) => write!(f, "default, {span}"),
            Self::File(span) => span.fmt(f),
        }
    }
}
