//! A number, or the formula that an imported line has in its place.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::{Arg, Command, Error};

use base::spec::{Formula, NumberKind, Quantity};

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
            None => self.number.parse_ref(command, arg, value).map(Quantity::Known),
        }
    }
}
