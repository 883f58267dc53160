//! Texts with a form of their own, as the JSON Schema names it under `format`: the walk over a manifest checks them.

use crate::units::duration;

pub(super) const TIME_SPAN: &str = "time-span";

/// What a text must be.
#[derive(Debug)]
pub struct TextFormat {
    /// Under `format`.
    pub name: &'static str,
    /// Behind "must be".
    pub what: &'static str,
    /// Some that are right, for a hint.
    pub examples: &'static str,
    /// One that is right.
    pub sample: &'static str,
    /// What is wrong with a text.
    pub fault: fn(&str) -> Option<String>,
}

impl TextFormat {
    pub const ALL: [Self; 1] = [Self {
        name: TIME_SPAN,
        what: "a duration",
        examples: "for example `90s`, `30m`, `1h30m` or `250ms`",
        sample: "1s",
        fault: |text| duration(text).err().map(|error| error.to_string()),
    }];
}
