//! Values of arguments that several commands take, and why one is refused.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Error, ValueHint};

use base::diag::ErrorText;
use base::event::GpuId;
use base::spec::{Formula, NumberKind, Quantity};

/// What is wrong with arguments that clap itself accepts, for clap to print.
pub(super) type ArgumentError = (ErrorKind, String);

/// A value that its option does not take.
pub(super) fn invalid_value<T>(text: impl Into<String>) -> Result<T, ArgumentError> {
    Err((ErrorKind::InvalidValue, text.into()))
}

/// Twice the same value is harmless; two values for one key are an error; the last one does not win.
pub(super) fn reject_duplicates(settings: &[KeyValueArg]) -> Result<(), ArgumentError> {
    let mut seen = BTreeMap::new();
    for KeyValueArg { key, value } in settings {
        if let Some(before) = seen.insert(key, value).filter(|before| *before != value) {
            let hint = format!("write it once; a list is one argument: `{key}={before},{value}`");
            let error = ErrorText::new(format!("`{key}` is given twice: `{before}` and `{value}`")).hint(hint);
            return Err((ErrorKind::ArgumentConflict, error.into()));
        }
    }
    Ok(())
}

/// Makes a request an argument group of clap: it is read as its arguments and then checked by `from_args`, whose errors
/// are printed like clap's own.
macro_rules! read_as {
    ($($request:ty: $args:ty),+ $(,)?) => {$(
        impl clap::FromArgMatches for $request {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                let args = <$args as clap::FromArgMatches>::from_arg_matches(matches)?;
                Self::from_args(args).map_err(|(kind, text)| clap::Error::raw(kind, text))
            }

            fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl clap::Args for $request {
            fn augment_args(command: clap::Command) -> clap::Command {
                <$args as clap::Args>::augment_args(command)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                <$args as clap::Args>::augment_args_for_update(command)
            }
        }
    )+};
}
pub(super) use read_as;

/// Reads after clap's "invalid value 'x' for '--option'".
pub(super) fn not_a_number(text: &str) -> ErrorText {
    ErrorText::new(format_args!("`{text}` is not a number"))
}

const NOT_ABOVE_ZERO: &str = "must be above 0";

fn finite(text: &str) -> Result<f64, ErrorText> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| not_a_number(text))
}

pub(super) fn above_zero(text: &str) -> Result<f64, ErrorText> {
    finite(text).and_then(|x| if x > 0.0 { Ok(x) } else { Err(ErrorText::new(NOT_ABOVE_ZERO)) })
}

pub(super) fn zero_or_more(text: &str) -> Result<f64, ErrorText> {
    finite(text).and_then(|x| if x >= 0.0 { Ok(x) } else { Err(ErrorText::new("must be 0 or more")) })
}

pub(super) fn rate(text: &str) -> Result<f64, ErrorText> {
    let rate = text.parse().ok().filter(|rate| (0.1..=100_000.0).contains(rate));
    rate.ok_or_else(|| ErrorText::new("must be a number from 0.1 to 100000"))
}

pub(super) fn between(text: &str) -> Result<(f64, f64), ErrorText> {
    let (low, high) = text.split_once(',').ok_or_else(|| ErrorText::new("must be two numbers separated by a comma"))?;
    Ok((zero_or_more(low)?, zero_or_more(high)?))
}

/// The heading of options that choose stages.
pub(super) const CHOICE: &str = "Stage selection";
/// The heading of options that say how a command works.
pub(super) const HOW: &str = "Settings";

/// A manifest and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Subject {
    /// A manifest's name (`regatta list`) or a path to its file.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: String,
    /// Parameters of the manifest.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
}

impl Subject {
    pub fn new(manifest: &str, settings: &[KeyValueArg]) -> Self {
        Self { manifest: manifest.to_owned(), settings: settings.to_vec() }
    }
}

/// A count of at least 1.
pub(super) fn count_above_zero(text: &str) -> Result<NonZeroUsize, ErrorText> {
    let count = text.parse().map_err(|_| not_a_number(text))?;
    NonZeroUsize::new(count).ok_or_else(|| ErrorText::new(NOT_ABOVE_ZERO))
}

/// `HOST:PORT`, a name or an address; it is looked up when it is listened on.
pub(super) fn host_and_port(text: &str) -> Result<String, ErrorText> {
    let parts = text.rsplit_once(':').filter(|(host, _)| {
        let is_bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        !host.is_empty() && !is_bare_ipv6 && !host.contains(char::is_whitespace) && !host.contains('/')
    });
    match parts.map(|(_, port)| port.parse::<u16>()) {
        Some(Ok(_)) => Ok(text.to_owned()),
        _ => Err(ErrorText::new("write HOST:PORT, for example localhost:9100, 0.0.0.0:9100 or [::1]:9100")),
    }
}

/// One parameter, or one value by its place, given on the command line. The manifest decides which values are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValueArg {
    pub key: String,
    pub value: String,
}

impl fmt::Display for KeyValueArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl FromStr for KeyValueArg {
    /// Why an argument is not a setting, with what to try.
    type Err = ErrorText;

    /// Everything after the first `=` is the value, so `filter=a=b` is `a=b`.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let Some((key, value)) = word.split_once('=') else {
            let written = if word.contains(':') { word.replacen(':', "=", 1) } else { format!("{word}=VALUE") };
            return Err(ErrorText::new(format_args!("`{word}` is not KEY=VALUE"))
                .hint(format_args!("write `{written}`; `regatta show MANIFEST` lists the parameters")));
        };
        let Some(first) = key.chars().next() else {
            return Err(ErrorText::new(format_args!("`{word}` has no name before the `=`"))
                .hint("write KEY=VALUE, for example `system=h200-x8`"));
        };
        let starts = first.is_alphabetic() || first == '_';
        let odd = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let bad = if starts { key.chars().find(|c| odd(*c)) } else { Some(first) };
        // A dot leads somewhere: not twice in a row, not at the end.
        let bad = bad.or_else(|| key.split('.').any(str::is_empty).then_some('.'));
        if let Some(found) = bad {
            let also = if found.is_whitespace() { "; there is no space around the `=`" } else { "" };
            let text = format!("`{key}` cannot be the name of a parameter: {found:?} is not allowed in it");
            return Err(ErrorText::new(text).hint(format_args!(
                "names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value \
                 inside{also}"
            )));
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

/// `--rehearse`
pub(super) fn rehearsal(is_asked: bool) -> Option<KeyValueArg> {
    is_asked.then(|| KeyValueArg { key: "rehearse".to_owned(), value: "true".to_owned() })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSelection {
    /// Any N of them.
    Count(u32),
    /// These ids, each once, as given.
    Ids(Vec<GpuId>),
}

/// Why a value of `--gpus` is refused.
fn gpu_selection_error(problem: impl fmt::Display) -> ErrorText {
    ErrorText::new(problem).hint(
        "a count (`--gpus 2`; `--gpus 0` is none), ids with commas (`--gpus 0,2`; `--gpus 0,` is GPU 0 alone), or \
         UUIDs of GPUs or MIG instances (`--gpus GPU-<uuid>`, `--gpus MIG-<uuid>`, as `nvidia-smi -L` prints them)",
    )
}

impl FromStr for GpuSelection {
    type Err = ErrorText;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !text.contains(',') && !GpuId::is_uuid(text) {
            let count = text.trim().parse().map_err(|_| gpu_selection_error(not_a_number(text)))?;
            return Ok(Self::Count(count));
        }
        let mut ids = Vec::new();
        for part in text.strip_suffix(',').unwrap_or(text).split(',') {
            let id = part.trim().parse::<GpuId>().map_err(gpu_selection_error)?;
            if ids.contains(&id) {
                return Err(gpu_selection_error(format_args!("GPU {id} is given twice")));
            }
            ids.push(id);
        }
        Ok(Self::Ids(ids))
    }
}

/// Reads a number as `number` does.
#[derive(Clone)]
pub(super) struct QuantityParser<P> {
    number: P,
    kind: NumberKind,
}

pub(super) const fn whole<P>(number: P) -> QuantityParser<P> {
    QuantityParser { number, kind: NumberKind::Whole }
}

pub(super) const fn any<P>(number: P) -> QuantityParser<P> {
    QuantityParser { number, kind: NumberKind::Any }
}

impl<P: TypedValueParser> TypedValueParser for QuantityParser<P> {
    type Value = Quantity<P::Value>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        match value.to_str().and_then(|text| Formula::read(text, self.kind)) {
            Some(formula) => Ok(Quantity::Unknown(formula)),
            None => self.number.parse_ref(command, arg, value).map(Quantity::Known).map_err(|error| {
                let option = arg.map_or_else(String::new, ToString::to_string);
                let wanted = |what| format!("invalid value '{}' for '{option}': it must be {what}", value.display());
                let (unit, count) = (value.to_str().and_then(without_unit), value.to_str().map(str::parse::<u64>));
                let text = match (unit, count) {
                    (Some(number), _) => {
                        let text = format!("`{}` has a unit, but this option takes a plain number", value.display());
                        ErrorText::new(text).hint(format_args!("write `{number}`")).to_string()
                    }
                    (None, Some(Ok(0))) => wanted("above 0"),
                    (None, Some(Err(e))) if error.to_string().contains(&e.to_string()) => wanted("a whole number"),
                    _ => return error,
                };
                Error::raw(ErrorKind::InvalidValue, text + "\n").with_cmd(command)
            }),
        }
    }
}

/// `8` of `8users`, `5` of `5/s`, `1000` of `1k`.
fn without_unit(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_alphabetic() || matches!(c, '/' | ' '));
    let unit = Some(&text[number.len()..]).filter(|unit| !unit.is_empty())?;
    let thousands = if unit.eq_ignore_ascii_case("k") { 1e3 } else { 1.0 };
    number.parse().ok().map(|number: f64| number * thousands)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_count_of_none_is_refused() {
        assert_eq!(count_above_zero("2").map(NonZeroUsize::get), Ok(2));
        assert_eq!(count_above_zero("0"), Err(ErrorText::new("must be above 0")));
        assert_eq!(count_above_zero("-1"), Err(ErrorText::new("`-1` is not a number")));
    }

    #[test]
    fn a_host_may_be_a_name_or_an_address() {
        for good in ["localhost:0", "127.0.0.1:9100", "[::1]:9100", "node-3.cluster:80"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for wrong in ["localhost", ":9100", "localhost:port", "::1:80", "http://localhost:80", "localhost:70000"] {
            let error = host_and_port(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("write HOST:PORT"), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_first_equals_sign_splits() {
        let setting: KeyValueArg = "filter=a=b".parse().expect("a setting");
        assert_eq!((setting.key.as_str(), setting.value.as_str()), ("filter", "a=b"));
        assert_eq!("empty=".parse::<KeyValueArg>().expect("a setting").value, "");
    }

    #[test]
    fn every_mistake_says_what_to_try() {
        let hints: Vec<String> = ["system", "system:x", "=h200", "sys tem=1", "2x=1", "a..b=1", "a.=1"]
            .iter()
            .map(|word| word.parse::<KeyValueArg>().expect_err("no setting").to_string())
            .collect();
        insta::assert_snapshot!(hints.join("\n"), @"
        `system` is not KEY=VALUE
          hint: write `system=VALUE`; `regatta show MANIFEST` lists the parameters
        `system:x` is not KEY=VALUE
          hint: write `system=x`; `regatta show MANIFEST` lists the parameters
        `=h200` has no name before the `=`
          hint: write KEY=VALUE, for example `system=h200-x8`
        `sys tem` cannot be the name of a parameter: ' ' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside; \
          there is no space around the `=`
        `2x` cannot be the name of a parameter: '2' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside
        `a..b` cannot be the name of a parameter: '.' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside
        `a.` cannot be the name of a parameter: '.' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside
        ");
    }

    proptest! {
        #[test]
        fn what_was_parsed_reads_back(key in "[a-z_][a-z0-9_-]{0,8}", value in ".*") {
            let setting: KeyValueArg = format!("{key}={value}").parse().expect("a setting");
            prop_assert_eq!(setting, KeyValueArg { key, value });
        }

        #[test]
        fn nothing_typed_makes_it_panic(word in ".*") {
            let _ = word.parse::<KeyValueArg>();
        }
    }
}
