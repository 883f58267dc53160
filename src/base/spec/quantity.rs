//! A number of another tool's line or script: one that it has, or a formula over the parameters that stand for those it
//! does not have.
//!
//! In arguments and keys a formula is `{{tp:int·*·pp:int}}`. After a name follows the kind of its parameter, and
//! [`BLANK`] takes the place of spaces, so that a shell does not split the argument. The manifest that is printed has
//! `{{ tp * pp }}`, and a parameter for each name.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::schema_format::{TIME_SPAN, text_schema};
use crate::units::{DurationError, parse_duration};

/// A number, or what it is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity<T> {
    Known(T),
    Unknown(Formula),
}

/// Stands in a formula where the expression has a blank.
pub const BLANK: char = '·';

/// An expression of a manifest over parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula(String);

/// Which numbers a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumberKind {
    Any,
    Whole,
}

impl NumberKind {
    /// Behind the name of a parameter in a formula.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Any => ":float",
            Self::Whole => ":int",
        }
    }
}

/// A type of numbers.
pub trait Numeric: Copy + Display + PartialOrd {
    const KIND: NumberKind = NumberKind::Whole;
}

impl Numeric for u16 {}
impl Numeric for u32 {}
impl Numeric for u64 {}
impl Numeric for i64 {}
impl Numeric for f64 {
    const KIND: NumberKind = NumberKind::Any;
}

impl Formula {
    /// Of a text that is one expression and nothing else. A name alone becomes a parameter of this kind.
    #[must_use]
    pub fn read(text: &str, kind: NumberKind) -> Option<Self> {
        let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
        let is_name = inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let suffix = if is_name { kind.suffix() } else { "" };
        (!inner.is_empty() && !inner.contains(['{', '}'])).then(|| Self(format!("{inner}{suffix}")))
    }

    /// As a part of a larger one.
    fn operand(&self) -> String {
        if self.0.contains(BLANK) { format!("({})", self.0) } else { self.0.clone() }
    }
}

impl Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{}}}}}", self.0)
    }
}

impl<T> Quantity<T> {
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(number) => Some(number),
            Self::Unknown(_) => None,
        }
    }

    /// The same number as another type.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Quantity<U> {
        match self {
            Self::Known(number) => Quantity::Known(convert(number)),
            Self::Unknown(formula) => Quantity::Unknown(formula),
        }
    }
}

impl<T: Numeric> Quantity<T> {
    /// Both with an operator between them; of numbers, what `compute` makes of them.
    #[must_use]
    pub fn combine(self, operator: &str, other: impl Into<Self>, compute: impl FnOnce(T, T) -> T) -> Self {
        let operand = |quantity: &Self| match quantity {
            Self::Known(number) => number.to_string(),
            Self::Unknown(formula) => formula.operand(),
        };
        match (self, other.into()) {
            (Self::Known(one), Self::Known(other)) => Self::Known(compute(one, other)),
            (one, other) => {
                Self::Unknown(Formula(format!("{}{BLANK}{operator}{BLANK}{}", operand(&one), operand(&other))))
            }
        }
    }

    /// It, or `least` if that is greater.
    #[must_use]
    pub fn at_least(self, least: impl Into<Self>) -> Self {
        self.bounded(least.into(), "max", |number, least| number < least)
    }

    /// It, or `most` if that is less.
    #[must_use]
    pub fn at_most(self, most: impl Into<Self>) -> Self {
        self.bounded(most.into(), "min", |number, most| number > most)
    }

    fn bounded(self, bound: Self, filter: &str, is_beyond: impl FnOnce(T, T) -> bool) -> Self {
        match (self, bound) {
            (Self::Known(number), Self::Known(bound)) => {
                Self::Known(if is_beyond(number, bound) { bound } else { number })
            }
            (number, bound) => {
                Self::Unknown(Formula(format!("[{},{BLANK}{}]{BLANK}|{BLANK}{filter}", number.inner(), bound.inner())))
            }
        }
    }

    /// Without the braces of a formula.
    fn inner(&self) -> String {
        match self {
            Self::Known(number) => number.to_string(),
            Self::Unknown(formula) => formula.0.clone(),
        }
    }
}

impl Quantity<u64> {
    /// A product that ends at the greatest number.
    #[must_use]
    pub fn times(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
            (Self::Known(1), other) => other,
            (one, Self::Known(1)) => one,
            (one, other) => one.combine("*", other, u64::saturating_mul),
        }
    }
}

impl Quantity<f64> {
    /// The next whole number from it on.
    #[must_use]
    pub fn ceiling(self) -> Quantity<u32> {
        match self {
            Self::Known(number) => Quantity::Known(number.ceil() as u32),
            unknown @ Self::Unknown(_) => unknown.combine("+", 0.999_999, |number, _| number).whole(),
        }
    }

    /// Without its fraction.
    #[must_use]
    pub fn whole(self) -> Quantity<u32> {
        match self {
            Self::Known(number) => Quantity::Known(number as u32),
            Self::Unknown(formula) => Quantity::Unknown(Formula(format!("{}{BLANK}|{BLANK}int", formula.operand()))),
        }
    }
}

impl<T> From<T> for Quantity<T> {
    fn from(number: T) -> Self {
        Self::Known(number)
    }
}

impl<T: Numeric + FromStr> FromStr for Quantity<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        match Formula::read(text, T::KIND) {
            Some(formula) => Ok(Self::Unknown(formula)),
            None => text.parse().map(Self::Known),
        }
    }
}

impl<T: Display> Display for Quantity<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(number) => number.fmt(f),
            Self::Unknown(formula) => formula.fmt(f),
        }
    }
}

impl<T: Serialize> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(number) => number.serialize(serializer),
            Self::Unknown(formula) => serializer.collect_str(formula),
        }
    }
}

// A duration with the text that it was written as.

/// `90s`, `1h30m`, `250ms`. It keeps its text, so that an action reads as its manifest does; two are equal when they
/// last equally long.
#[derive(Clone, Debug, Eq)]
pub struct TimeSpan {
    text: String,
    time: Duration,
}

impl TimeSpan {
    /// # Errors
    /// The text is not a duration.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        Ok(Self { text: text.to_owned(), time: parse_duration(text)? })
    }

    /// `30m`.
    pub fn minutes(minutes: u32) -> Self {
        Self { text: format!("{minutes}m"), time: Duration::from_mins(minutes.into()) }
    }

    pub const fn time(&self) -> Duration {
        self.time
    }

    /// In milliseconds.
    pub fn ms(&self) -> f64 {
        self.time.as_secs_f64() * 1e3
    }
}

impl From<Duration> for TimeSpan {
    fn from(time: Duration) -> Self {
        let text = if time.subsec_nanos() == 0 {
            format!("{}s", time.as_secs())
        } else {
            format!("{}ms", time.as_secs_f64() * 1e3)
        };
        Self { text, time }
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for TimeSpan {
    fn eq(&self, other: &Self) -> bool {
        self.time == other.time
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// Results that were written before durations kept their text have them in parts.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Parts { secs: u64, nanos: u32 },
        }
        match Written::deserialize(from)? {
            Written::Text(text) => Self::parse(&text).map_err(de::Error::custom),
            Written::Parts { secs, nanos } if nanos < 1_000_000_000 => Ok(Duration::new(secs, nanos).into()),
            Written::Parts { .. } => Err(de::Error::custom("nanos must be below 1000000000")),
        }
    }
}

text_schema!(TimeSpan, TIME_SPAN);

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Numeric + FromStr>(text: &str) -> Quantity<T>
    where
        T::Err: fmt::Debug,
    {
        text.parse().expect("a number or a formula")
    }

    #[test]
    fn what_is_computed_from_an_unknown_number_is_a_formula() {
        let gpus = read::<u64>("{{tp}}").times(read::<u64>("2")).times(read::<u64>("{{pp}}")).times(1_u64);
        assert_eq!(gpus.to_string(), "{{(tp:int·*·2)·*·pp:int}}");
        assert_eq!(read::<u64>("4").times(read::<u64>("2")), Quantity::Known(8));
        assert_eq!(read::<u64>("{{users}}").times(2_u64).at_least(10_u64).to_string(), "{{[users:int·*·2,·10]·|·max}}");
        let share = read::<f64>("{{isl:int}}").combine("*", read::<f64>("{{ratio}}"), |one, other| one * other);
        assert_eq!(share.whole().to_string(), "{{(isl:int·*·ratio:float)·|·int}}");
        assert!("x".parse::<Quantity<u32>>().is_err() && "{{a}}{{b}}".parse::<Quantity<u32>>().is_err());
    }

    #[test]
    fn it_is_written_as_it_was_and_compared_by_its_length() {
        let minute: TimeSpan = serde_json::from_str("\"1m\"").unwrap();
        assert_eq!(serde_json::to_string(&minute).unwrap(), "\"1m\"");
        assert_eq!(minute, TimeSpan::from(Duration::from_mins(1)));
        assert_eq!(minute.to_string(), TimeSpan::minutes(1).to_string());
        for nanos in [0, 1, 1_500_000, 250_000_000, 1_000_000_000, 86_400_000_000_123] {
            let span = TimeSpan::from(Duration::from_nanos(nanos));
            assert_eq!(TimeSpan::parse(&span.text), Ok(span));
        }
        assert!(serde_json::from_str::<TimeSpan>("\"60\"").is_err());
        let earlier = r#"{"secs": 60, "nanos": 0}"#;
        assert_eq!(serde_json::from_str::<TimeSpan>(earlier).unwrap(), minute);
        assert!(serde_json::from_str::<TimeSpan>(r#"{"secs": 18446744073709551615, "nanos": 4000000000}"#).is_err());
    }
}
