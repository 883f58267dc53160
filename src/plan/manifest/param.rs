//! Parameters: which value each one has, where it came from, and everything wrong with what was given.
//!
//! `params:` — what a user may change from the command line.

use std::path::Path;

use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read::{Map, MapEntry, Node, NodeValue};
use super::{GivenValues, ValueOrigin, schema};
use base::diag::{Diagnostic, Diagnostics, MissingValue, Span, did_you_mean, list_of, nearest};
use base::files::metadata_if_there;
use base::units::{is_identifier, unquoted};

/// A parameter's value and where it came from.
#[derive(Clone, Debug)]
pub struct ResolvedParam {
    pub value: Value,
    pub origin: ValueOrigin,
    /// Whether it is the default, which may have been given all the same.
    pub is_default: bool,
    /// The place that declares the parameter.
    pub declared: Span,
}

/// What the values of one parameter are chosen from.
pub struct ParamResolver<'a> {
    pub name: &'a str,
    pub entry: &'a MapEntry,
    pub given: &'a GivenValues,
    /// The names in its folder, for a `catalog`.
    pub catalog: Vec<String>,
}

/// What a parameter is that has no default and was not given. `None`: it must be given.
fn value_without_default(kind: &str, rule: &Param) -> Option<Value> {
    match kind {
        "list" => Some(Value::Array(Vec::new())),
        "switch" => Some(Value::Bool(false)),
        "path" if rule.path == Some(PathNeed::Optional) => Some(Value::Null),
        _ => None,
    }
}

/// `1` and `1.0` are one number.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one.total_cmp(&other).is_eq())
}

impl ParamResolver<'_> {
    /// The value. `None` with something in `found` when it is wrong.
    pub fn choose(&self, found: &mut Diagnostics) -> Option<ResolvedParam> {
        let kind = PARAM_KINDS.into_iter().find(|kind| self.entry.node.get(kind).is_some())?;
        let rule: Param = serde_json::from_value(self.entry.node.json()).ok()?;
        self.resolve(kind, &rule).map_err(|wrong| found.push(wrong)).ok()
    }

    fn resolve(&self, kind: &str, rule: &Param) -> Result<ResolvedParam, Diagnostic> {
        if let Some((what, hint)) = contradiction(kind, rule) {
            let place = self.entry.node.place(&[kind]).first_line();
            let wrong = Diagnostic::error(format!("no value fits the parameter `{}`: {what}", self.name));
            return Err(wrong.at(place, "").hint(hint));
        }
        if let Some(wrong) = self.unusable_key(kind, rule) {
            return Err(wrong);
        }
        let (value, origin) = self.value(kind, rule)?;
        let is_default = matches!(origin, ValueOrigin::Default(_))
            || self.default(kind, rule).is_some_and(|default| is_same(&default, &value));
        Ok(ResolvedParam { value, origin, is_default, declared: self.entry.key.clone() })
    }

    /// A key beside the kind that can do nothing.
    fn unusable_key(&self, kind: &str, rule: &Param) -> Option<Diagnostic> {
        let name = self.name;
        let at = |key: &str, message: String, label: &str| {
            Diagnostic::error(message).at(self.entry.node.place(&[key]).first_line(), label)
        };
        if let Some(pattern) = &rule.pattern {
            if !matches!(kind, "text" | "list") {
                let message = format!("`params.{name}.pattern` has no effect");
                return Some(
                    at("pattern", message, "only a `text` and the values of a `list` have one").hint("remove it"),
                );
            }
            if let Err(error) = Regex::new(pattern) {
                let message = format!("`params.{name}.pattern` is not a regular expression");
                let reason =
                    error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                return Some(at("pattern", message, &reason));
            }
        }
        let variable = rule.env.as_ref().filter(|variable| !is_identifier(variable))?;
        let message = format!("`{variable}` cannot be the name of an environment variable");
        Some(at("env", message, "letters, digits and `_`, not beginning with a digit"))
    }

    fn default(&self, kind: &str, rule: &Param) -> Option<Value> {
        match self.entry.node.get("default") {
            Some(default) => self.check(kind, rule, &default.node).ok(),
            None => value_without_default(kind, rule),
        }
    }

    fn value(&self, kind: &str, rule: &Param) -> Result<(Value, ValueOrigin), Diagnostic> {
        let name = self.name;
        let about =
            |subject: &str, wrong: Diagnostic| Diagnostic { message: format!("{subject}: {}", wrong.message), ..wrong };
        if let Some((_, text)) = self.given.params.iter().rev().find(|(known, _)| known == name) {
            let value = self.parse(kind, rule, text, &[',']).map_err(|wrong| {
                about(&format!("{name}={text}"), wrong).related(self.entry.key.clone(), "declared here")
            });
            return Ok((value?, ValueOrigin::CommandLine));
        }
        if let Some(variable) = &rule.env
            // Set and empty is how shells express "not set".
            && let Some(text) = self.given.env.get(variable).filter(|text| !text.is_empty())
        {
            // Shells have no lists: texts with spaces between them stand for one.
            let value = self.parse(kind, rule, text, &[',', ' ', '\t', '\n']).map_err(|wrong| {
                let place = self.entry.node.place(&["env"]);
                about(&format!("the environment variable {variable}={text}"), wrong).at(place, format!("sets `{name}`"))
            });
            return Ok((value?, ValueOrigin::Environment(variable.clone())));
        }
        if let Some(default) = self.entry.node.get("default") {
            let value = self.check(kind, rule, &default.node).map_err(|wrong| {
                let wrong = about(&format!("the default of `{name}`"), wrong);
                let has_place = wrong.primary.is_some();
                if has_place { wrong } else { wrong.at(default.node.span.first_line(), "") }
            });
            return Ok((value?, ValueOrigin::Default(default.node.span.clone())));
        }
        if let Some(value) = value_without_default(kind, rule) {
            return Ok((value, ValueOrigin::Default(self.entry.key.clone())));
        }
        let example = match kind {
            "choice" => rule.choice.as_ref().and_then(|all| all.first()).map(unquoted),
            "catalog" => self.catalog.first().cloned(),
            _ => None,
        };
        let example = example.unwrap_or_else(|| "…".to_owned());
        let mut hint = format!("give it: {name}={example}");
        if let Some(variable) = &rule.env {
            hint = format!("{hint}, or set the environment variable {variable}");
        }
        let missing = Diagnostic::error(format!("the parameter `{name}` has no value"))
            .missing(MissingValue::Parameter(name.to_owned()));
        Err(missing.at(self.entry.key.clone(), "it has no default").hint(hint))
    }

    /// A value typed on the command line, or of a variable. `between` separates the values of a list.
    fn parse(&self, kind: &str, rule: &Param, text: &str, between: &[char]) -> Result<Value, Diagnostic> {
        if text.contains(super::read::RESERVED) {
            return Err(Diagnostic::error("the brackets ⟦ and ⟧ are reserved"));
        }
        match kind {
            "choice" => one_of(text, rule.choice.as_deref().unwrap_or_default()),
            "list" => {
                let items = text.split(between).map(str::trim).filter(|item| !item.is_empty());
                items.map(|item| list_item(item, rule)).collect::<Result<_, _>>().map(Value::Array)
            }
            "catalog" => self.catalog_item(text),
            "path" => path(text, rule.path),
            "int" => {
                let number: i64 =
                    text.parse().map_err(|_| Diagnostic::error(format!("`{text}` is not a whole number")))?;
                bounded(number as f64, rule.int.as_ref(), "it")?;
                Ok(number.into())
            }
            "number" => {
                let number =
                    text.parse::<f64>().ok().and_then(|n| serde_json::Number::from_f64(n).map(|json| (n, json)));
                let (number, json) = number.ok_or_else(|| Diagnostic::error(format!("`{text}` is not a number")))?;
                bounded(number, rule.number.as_ref(), "it")?;
                Ok(text.parse::<i64>().map_or(Value::Number(json), Value::from))
            }
            "switch" => match text.to_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(Value::Bool(true)),
                "false" | "no" | "off" | "0" => Ok(Value::Bool(false)),
                _ => Err(Diagnostic::error(format!("`{text}` is neither true nor false"))),
            },
            _ => {
                bounded(text.chars().count() as f64, rule.text.as_ref(), "its length")?;
                fitting(text, rule)?;
                Ok(Value::String(text.to_owned()))
            }
        }
    }

    /// A default: a typed value, checked against the same rules.
    fn check(&self, kind: &str, rule: &Param, node: &Node) -> Result<Value, Diagnostic> {
        if node.has_template() {
            return Err(Diagnostic::error("a default cannot be an expression").hint("compute it in `vars`"));
        }
        let must = |what: &str| {
            Diagnostic::error(format!("it must be {what}, this is {}", super::schema_check::kind_of(&node.tree)))
        };
        match (kind, &node.tree) {
            (kind, NodeValue::Null) if kind != "catalog" => Ok(Value::Null),
            ("choice", NodeValue::Text(_) | NodeValue::Number(_) | NodeValue::Bool(_)) => {
                one_of(&unquoted(&node.json()), rule.choice.as_deref().unwrap_or_default())
            }
            ("choice", _) => Err(must("one of the choices")),
            ("list", NodeValue::List(items)) => {
                let items = items.iter().map(|item| {
                    let held = match item.lost_zeros() {
                        Some((message, hint)) => Err(Diagnostic::error(message).hint(hint)),
                        None => list_item(&unquoted(&item.json()), rule),
                    };
                    let held = held.map_err(|wrong| wrong.at(item.span.first_line(), ""));
                    // Any kind is allowed: the value keeps the type that it has.
                    held.map(|value| if matches!(rule.list, Some(ListRule::Of(_))) { value } else { item.json() })
                });
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            ("list", _) => Err(must("a list")),
            ("catalog", NodeValue::Text(text)) => self.catalog_item(text),
            ("path", NodeValue::Text(text)) => path(text, rule.path),
            ("catalog" | "path" | "text", NodeValue::Number(_)) => self.parse(kind, rule, node.span.text(), &[',']),
            ("int", NodeValue::Number(number)) if number.is_i64() || number.is_u64() => {
                bounded(number.as_f64().unwrap_or_default(), rule.int.as_ref(), "it").map(|()| node.json())
            }
            ("int", _) => Err(must("a whole number")),
            ("number", NodeValue::Number(number)) => {
                bounded(number.as_f64().unwrap_or_default(), rule.number.as_ref(), "it").map(|()| node.json())
            }
            ("number", _) => Err(must("a number")),
            ("switch", NodeValue::Bool(value)) => Ok(Value::Bool(*value)),
            ("switch", _) => Err(must("true or false")),
            ("text", NodeValue::Text(text)) => self.parse(kind, rule, text, &[',']),
            _ => Err(must("a text")),
        }
    }

    fn catalog_item(&self, text: &str) -> Result<Value, Diagnostic> {
        if self.catalog.iter().any(|known| known == text) {
            return Ok(Value::String(text.to_owned()));
        }
        let names = || self.catalog.iter().map(String::as_str);
        let folder = self.entry.node.get("catalog").and_then(|entry| entry.node.text()).unwrap_or_default();
        if self.catalog.is_empty() {
            let message = format!("there is no file in `{folder}`, or no such folder");
            return Err(Diagnostic::error(message)
                .hint("the folder is relative to the manifest; its files `NAME.yaml` are the choices"));
        }
        let place = if folder == "." { "beside the manifest".to_owned() } else { format!("in `{folder}`") };
        let wrong = Diagnostic::error(format!("there is no `{text}.yaml` {place}"));
        Err(wrong.maybe_hint(did_you_mean(text, names())))
    }
}

fn one_of(text: &str, allowed: &[Value]) -> Result<Value, Diagnostic> {
    if let Some(value) = allowed.iter().find(|value| unquoted(value) == text) {
        return Ok(value.clone());
    }
    let names: Vec<String> = allowed.iter().map(unquoted).collect();
    let allowed_list = list_of(names.iter().map(String::as_str));
    let hint = match nearest(text, names.iter().map(String::as_str)) {
        Some(word) => format!("did you mean `{word}`? There is: {allowed_list}"),
        None => format!("there is: {allowed_list}"),
    };
    Err(Diagnostic::error(format!("`{text}` is not one of the choices")).hint(hint))
}

/// Holds a text against the rule's `pattern`.
fn fitting(text: &str, rule: &Param) -> Result<(), Diagnostic> {
    let Some(pattern) = &rule.pattern else { return Ok(()) };
    let whole = Regex::new(&format!("^(?:{pattern})$"))
        .map_err(|error| Diagnostic::error(format!("its `pattern` is not a regular expression: {error}")))?;
    if whole.is_match(text) {
        return Ok(());
    }
    let hint = match &rule.example {
        Some(example) => format!("for example `{example}`"),
        None => format!("it must match `{pattern}`"),
    };
    Err(Diagnostic::error(format!("`{text}` does not have the required form")).hint(hint))
}

fn list_item(text: &str, rule: &Param) -> Result<Value, Diagnostic> {
    fitting(text, rule)?;
    match &rule.list {
        Some(ListRule::Of(allowed)) => one_of(text, allowed),
        _ => match schema::parse_plain_scalar(text).map_err(|error| Diagnostic::error(error.to_string()))? {
            NodeValue::Number(number) => Ok(Value::Number(number)),
            NodeValue::Bool(value) => Ok(Value::Bool(value)),
            _ => Ok(Value::String(text.to_owned())),
        },
    }
}

fn path(text: &str, need: Option<PathNeed>) -> Result<Value, Diagnostic> {
    if text.is_empty() {
        return match need {
            Some(PathNeed::Optional) => Ok(Value::Null),
            _ => Err(Diagnostic::error("it is empty")),
        };
    }
    let absolute = std::path::absolute(Path::new(text)).map_err(|error| Diagnostic::error(error.to_string()))?;
    match metadata_if_there(&absolute) {
        Ok(Some(_)) => Ok(Value::String(absolute.to_string_lossy().into_owned())),
        Ok(None) => Err(Diagnostic::error(format!("there is no file or folder `{text}`"))),
        Err(error) => Err(Diagnostic::error(format!("`{text}` cannot be looked at: {error}"))),
    }
}

fn bounded(number: f64, bounds: Option<&NumberBounds>, what: &str) -> Result<(), Diagnostic> {
    let Some(bounds) = bounds else { return Ok(()) };
    match (bounds.min, bounds.max) {
        (Some(min), _) if number < min => Err(Diagnostic::error(format!("{what} must be at least {min}"))),
        (_, Some(max)) if number > max => Err(Diagnostic::error(format!("{what} must be at most {max}"))),
        _ => Ok(()),
    }
}

/// Why no value fits the rule, and what to do.
fn contradiction(kind: &str, rule: &Param) -> Option<(String, &'static str)> {
    let bounds = match kind {
        "choice" if rule.choice.as_ref().is_some_and(Vec::is_empty) => {
            return Some(("it has no choices".to_owned(), "list them: `choice: [a, b]`"));
        }
        "list" if matches!(&rule.list, Some(ListRule::Of(values)) if values.is_empty()) => {
            return Some((
                "its list of values is empty".to_owned(),
                "list them: `list: [a, b]`, or allow all: `list: any`",
            ));
        }
        "int" => rule.int.as_ref(),
        "number" => rule.number.as_ref(),
        "text" => rule.text.as_ref(),
        _ => None,
    }?;
    let (min, max) = bounds.min.zip(bounds.max).filter(|(min, max)| min > max)?;
    Some((format!("its `min` of {min} is above its `max` of {max}"), "exchange them"))
}

/// Parameters that were given and do not exist.
pub fn unknown(given: &GivenValues, known: &IndexMap<String, ResolvedParam>, root: &Node, found: &mut Diagnostics) {
    let names = |section: &str| -> Vec<&str> {
        let section = root.get(section).and_then(|entry| entry.node.map());
        section.into_iter().flat_map(Map::keys).map(String::as_str).collect()
    };
    let (declared, vars) = (names("params"), names("vars"));
    for (name, value) in given.params.iter().filter(|(name, _)| !name.contains('.')) {
        if !known.contains_key(name) && !declared.contains(&name.as_str()) {
            let hint = if vars.contains(&name.as_str()) {
                format!("`{name}` is a var: vars.{name}={value}")
            } else {
                let hint = did_you_mean(name, declared.iter().copied());
                hint.unwrap_or_else(|| {
                    format!("this manifest has no parameters; `STAGE.{name}={value}` sets a key of a stage")
                })
            };
            found.push(Diagnostic::error(format!("{name}={value}: there is no parameter `{name}`")).hint(hint));
        }
    }
}

/// One parameter. Exactly one of `choice, list, catalog, path, int, number, switch, text` gives its type.
#[base::omit_empty]
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// A one-line description for `regatta show`.
    pub about: Option<String>,
    /// The default; null leaves it unset. Required otherwise, except for `path: optional`, `list` (`[]`) and `switch`
    /// (false).
    pub default: Option<Value>,
    /// An environment variable that sets it if the command line does not; spaces separate the values of a list.
    pub env: Option<String>,
    /// One of these values.
    pub choice: Option<Vec<Value>>,
    /// Several of these values, separated by commas on the command line, or `any`.
    pub list: Option<ListRule>,
    /// A folder of YAML files beside this manifest; the chosen file is merged over it.
    pub catalog: Option<String>,
    /// A file or folder; becomes absolute.
    pub path: Option<PathNeed>,
    /// A whole number.
    pub int: Option<NumberBounds>,
    /// A number.
    pub number: Option<NumberBounds>,
    /// true or false.
    pub switch: Option<NoBounds>,
    /// Any text.
    pub text: Option<NumberBounds>,
    /// A regular expression for a whole `text`, or each value of a `list`.
    pub pattern: Option<String>,
    /// A valid value, for error messages.
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
    /// It must exist.
    Required,
    /// Empty if not given; otherwise it must exist.
    Optional,
}

/// Inclusive bounds of a number, or of a text's length. `{}` allows everything.
#[base::omit_empty]
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumberBounds {
    /// The smallest allowed value; of a `text`, the smallest number of characters.
    pub min: Option<f64>,
    /// The largest allowed value; of a `text`, the largest number of characters.
    pub max: Option<f64>,
}

/// `{}`: a switch has nothing to bound.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("properties" = {}))]
pub struct NoBounds {}
