//! The JSON Schema of a text with a form of its own: which one is under `format`.

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
