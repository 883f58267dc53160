//! Options that set a field of the request are made from the field's row.

use std::str::FromStr as _;

use clap::builder::{StringValueParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use serde_json::{Map, Value, json};

use super::bench_args::WHAT;
use super::values::{any, whole};
use base::spec::{BenchOption, FieldKind, REQUEST_FIELDS, RequestField};

/// Keys of the manifest's `request` with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOptions(pub Map<String, Value>);

/// The rows that an option is made from.
fn rows() -> impl Iterator<Item = (&'static RequestField, BenchOption)> {
    let rows = REQUEST_FIELDS.iter().filter_map(|field| Some((field, field.option?)));
    rows.filter(|(_, option)| !option.help.is_empty())
}

fn parser(kind: FieldKind) -> (&'static str, ValueParser) {
    match kind {
        FieldKind::Int { min, max } => {
            ("N", whole(value_parser!(i64).range(min..=max)).map(|value| json!(value)).into())
        }
        FieldKind::Number(_) => ("X", any(f64::from_str).map(|value| json!(value)).into()),
        _ => ("VALUE", StringValueParser::new().map(|value| json!(value)).into()),
    }
}

impl Args for RequestOptions {
    fn augment_args(command: Command) -> Command {
        rows().fold(command, |command, (field, option)| {
            let (value_name, parser) = parser(field.kind);
            let arg = Arg::new(field.key).long(option.name).help(option.help).help_heading(WHAT);
            command.arg(arg.value_name(value_name).value_parser(parser))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RequestOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let value =
            |(field, _): (&RequestField, _)| Some((field.key.to_owned(), matches.get_one::<Value>(field.key)?.clone()));
        Ok(Self(rows().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_sets_the_key_of_its_row() {
        let command = RequestOptions::augment_args(Command::new("bench"));
        let matches = command.try_get_matches_from(["bench", "--temperature", "0.5", "--min-tokens", "3"]).unwrap();
        let options = RequestOptions::from_arg_matches(&matches).unwrap();
        assert_eq!(Value::Object(options.0), json!({"temperature": 0.5, "min_length": 3}));
    }
}
