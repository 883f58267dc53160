//! Texts with a form of their own, as the JSON Schema names it under `format`: the walk over a manifest checks them.

use super::limits::{GoodputLimit, Percent};
use super::placement::JobTimeLimit;
use crate::units::parse_duration;

pub(super) const TIME_SPAN: &str = "time-span";
pub(super) const JOB_TIME_LIMIT: &str = "job-time-limit";
pub(super) const PERCENT: &str = "percent";
pub(super) const GOODPUT: &str = "goodput";

/// The schema of a type that is a text with this format.
macro_rules! text_schema {
    ($name:ident, $format:expr) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "format": $format })
            }
        }
    };
}

pub(super) use text_schema;

/// The `$id` of a published schema: where SchemaStore serves it.
pub fn schema_id(name: &str) -> String {
    format!("https://www.schemastore.org/regatta-{name}.json")
}

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
    /// What a bare number lacks.
    pub unit: &'static str,
    pub is_valid: fn(&str) -> bool,
}

impl TextFormat {
    /// A bare number as the key at this path would have it: latencies are in ms.
    pub fn with_unit(&self, number: &str, path: &str) -> String {
        let is_latency = path.contains(".bench.slo.") || path.contains(".bench.limits.");
        format!("{number}{}", if is_latency && self.unit == "s" { "ms" } else { self.unit })
    }

    pub const ALL: [Self; 4] = [
        Self {
            name: TIME_SPAN,
            what: "a duration",
            examples: "for example `90s`, `30m`, `1h30m` or `250ms`",
            sample: "1s",
            unit: "s",
            is_valid: |text| parse_duration(text).is_ok(),
        },
        Self {
            name: JOB_TIME_LIMIT,
            what: "a time limit",
            examples: "for example `90m`, `2h`, or as Slurm writes it, `1-12:00:00`",
            sample: "1m",
            unit: "m",
            is_valid: |text| text.parse::<JobTimeLimit>().is_ok(),
        },
        Self {
            name: PERCENT,
            what: "a share from 0% to 100%",
            examples: "for example `0.5%`",
            sample: "1%",
            unit: "%",
            is_valid: |text| text.parse::<Percent>().is_ok(),
        },
        Self {
            name: GOODPUT,
            what: "a share from 0% to 100% or a rate above 0",
            examples: "for example `95%` of the requests, or `9/s`",
            sample: "1%",
            unit: "%",
            is_valid: |text| text.parse::<GoodputLimit>().is_ok(),
        },
    ];
}

// The largest counts that a manifest may have. Each is far above every real use: what is beyond it would only take
// memory and time.

/// GPUs, servers, copies, ranks, nodes of one stage. The largest machine that is sold as one has 72 GPUs.
pub const MOST_PARTS: u32 = 4096;
/// Requests at the same time: users, batches, slots. A server's port takes 65,536 connections of one client.
pub const MOST_USERS: u32 = 1_000_000;
/// Requests, records, samples of one measurement.
pub const MOST_REQUESTS: u64 = 1_000_000_000;
/// Layers, heads, sizes of a model, entries of its vocabulary.
pub const LARGEST_SHAPE: u32 = 1 << 24;
/// Parameters of a model.
pub const MOST_PARAMETERS: u64 = 1_000_000_000_000_000;
/// Seconds: a month.
pub const MOST_SECONDS: u32 = 31 * 86_400;
/// Bytes of an answer: 1 TiB.
pub const MOST_ANSWER_BYTES: u64 = 1 << 40;
