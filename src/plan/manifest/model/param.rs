//! `params:` — what a user may change from the command line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One parameter. Exactly one of `choice, list, catalog, path, int, number, switch, text` gives its type.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// A one-line description for `regatta show`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The default value; null is no value, so that an expression can choose one. Without it the parameter must be given (except `path: optional`, `list` → [], `switch` → false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// An environment variable that sets it when the command line does not. A list may have spaces between its values there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// One of these values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Vec<Value>>,
    /// Several of these values (comma separated on the command line), or `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListRule>,
    /// A folder of YAML files, relative to this manifest; the chosen one is merged over this manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    /// A file or folder; made absolute from the current folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathNeed>,
    /// A whole number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub int: Option<NumberBounds>,
    /// A number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<NumberBounds>,
    /// true or false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<NoBounds>,
    /// Any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<NumberBounds>,
    /// A regular expression for the whole of a `text`, or of each value of a `list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// An example of a valid value, for error messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// The keys of which a parameter has exactly one.
pub const PARAM_KINDS: [&str; 8] = ["choice", "list", "catalog", "path", "int", "number", "switch", "text"];

/// The values a list may hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ListRule {
    /// The allowed values.
    Of(Vec<Value>),
    /// `any`: any value.
    Any(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathNeed {
    /// Must be given and exist.
    Required,
    /// Empty when not given; must exist when given.
    Optional,
}

/// Inclusive bounds of a number, or of a text's length. `{}` allows everything.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumberBounds {
    /// The smallest allowed value; of a `text`, the smallest number of characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest allowed value; of a `text`, the largest number of characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// `{}`: a switch has nothing to bound.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("properties" = {}))]
pub struct NoBounds {}
