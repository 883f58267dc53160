//! What expressions of a config come to, without running it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::command_line::python::{Expr, PythonItem};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConfigValue {
    Plain(Value),
    List(Vec<Self>),
    Dict(Vec<(Self, Self)>),
    /// A name that is defined elsewhere: `C.HarnessType.Triton`.
    Symbol(String),
    Call(String, Vec<Self>),
}

/// Why only running the file would give a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum ValueError {
    #[error("a number without an end")]
    NotFinite,
    #[error("{class}.{field} is not set in this file")]
    NotSet { class: String, field: String },
    #[error("`.{0}` of a value")]
    FieldOfValue(String),
    #[error("a part of a value that is not there")]
    NoPart,
    #[error("a minus before what is no number")]
    Minus,
    /// What is spread, as JSON.
    #[error("`**{0}`, which is not in this file")]
    Spread(Value),
    #[error("a call of a value")]
    CallOfValue,
    #[error("`{0}` of what is not in this file")]
    Operands(String),
}

/// Names of the file, and attributes of its classes.
#[derive(Debug, Default)]
pub(super) struct ConfigNames {
    pub values: BTreeMap<String, ConfigValue>,
    /// Class → attribute → value, with those of its bases.
    pub classes: BTreeMap<String, BTreeMap<String, ConfigValue>>,
}

impl ConfigValue {
    /// The last part of a name: `triton_num_servers` of `triton_fields.triton_num_servers`.
    pub fn last(&self) -> Option<&str> {
        match self {
            Self::Symbol(name) => name.rsplit('.').next(),
            Self::Plain(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// As JSON; of a name from elsewhere its last part.
    pub fn json(&self) -> Value {
        match self {
            Self::Plain(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Dict(items) => Value::Object(
                items
                    .iter()
                    .map(|(key, value)| {
                        (key.last().map_or_else(|| key.json().to_string(), str::to_owned), value.json())
                    })
                    .collect(),
            ),
            Self::Symbol(_) => json!(self.last()),
            Self::Call(name, args) => json!(format!(
                "{name}({})",
                args.iter().map(|arg| arg.json().to_string()).collect::<Vec<_>>().join(", ")
            )),
        }
    }

    /// Puts the pairs of another mapping over those of this one.
    pub fn update(&mut self, other: &Self) {
        let (Self::Dict(mine), Self::Dict(theirs)) = (self, other) else { return };
        for (key, value) in theirs {
            match mine.iter_mut().find(|(known, _)| known == key) {
                Some((_, before)) => before.clone_from(value),
                None => mine.push((key.clone(), value.clone())),
            }
        }
    }
}

/// A number as a person would have written it: no trace of binary fractions.
pub(super) fn number(value: f64, is_whole: bool) -> Option<Value> {
    if !value.is_finite() {
        return None;
    }
    if is_whole && value.fract() == 0.0 && value.abs() < 9e15 {
        return Some(json!(value as i64));
    }
    let short: f64 = format!("{value:.12e}").parse().ok()?;
    Some(json!(short))
}

impl ConfigNames {
    /// The value, or why only running the file would give it.
    pub fn value(&self, expr: &Expr, own: &BTreeMap<String, ConfigValue>) -> Result<ConfigValue, ValueError> {
        let plain = |value| Ok(ConfigValue::Plain(value));
        match expr {
            Expr::Number(value, is_whole) => {
                number(*value, *is_whole).map(ConfigValue::Plain).ok_or(ValueError::NotFinite)
            }
            Expr::Text(text) => plain(json!(text)),
            Expr::Bool(is) => plain(json!(is)),
            Expr::None => plain(Value::Null),
            Expr::List(items) => {
                Ok(ConfigValue::List(items.iter().map(|item| self.value(item, own)).collect::<Result<_, _>>()?))
            }
            Expr::Dict(items) => self.dict(items, own),
            Expr::Name(name) => {
                let found = own.get(name).or_else(|| self.values.get(name));
                Ok(found.cloned().unwrap_or_else(|| ConfigValue::Symbol(name.clone())))
            }
            Expr::Field(base, field) => match self.value(base, own)? {
                ConfigValue::Symbol(name) => match self.classes.get(&name) {
                    Some(class) => {
                        let unset = || ValueError::NotSet { class: name.clone(), field: field.clone() };
                        class.get(field).cloned().ok_or_else(unset)
                    }
                    None => Ok(ConfigValue::Symbol(format!("{name}.{field}"))),
                },
                // Of a module that is imported by its name.
                ConfigValue::Call(..) => Ok(ConfigValue::Symbol(field.clone())),
                _ => Err(ValueError::FieldOfValue(field.clone())),
            },
            Expr::Index(base, key) => {
                let (base, key) = (self.value(base, own)?, self.value(key, own)?);
                match &base {
                    ConfigValue::Dict(items) => {
                        items.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone())
                    }
                    _ => None,
                }
                .ok_or(ValueError::NoPart)
            }
            Expr::Call(function, args) => self.call(function, args, own),
            Expr::Minus(inner) => match self.value(inner, own)? {
                ConfigValue::Plain(Value::Number(n)) => {
                    let negative = number(-n.as_f64().unwrap_or_default(), n.is_i64());
                    negative.map(ConfigValue::Plain).ok_or(ValueError::NotFinite)
                }
                _ => Err(ValueError::Minus),
            },
            Expr::Binary(sign, left, right) => binary(sign, &self.value(left, own)?, &self.value(right, own)?),
        }
    }

    fn dict(&self, items: &[PythonItem], own: &BTreeMap<String, ConfigValue>) -> Result<ConfigValue, ValueError> {
        let mut all = ConfigValue::Dict(Vec::new());
        for item in items {
            let more = match item {
                PythonItem::Pair(key, value) => {
                    ConfigValue::Dict(vec![(self.value(key, own)?, self.value(value, own)?)])
                }
                PythonItem::Spread(other) => match self.value(other, own)? {
                    dict @ ConfigValue::Dict(_) => dict,
                    other => return Err(ValueError::Spread(other.json())),
                },
            };
            all.update(&more);
        }
        Ok(all)
    }

    fn call(
        &self,
        function: &Expr,
        args: &[Expr],
        own: &BTreeMap<String, ConfigValue>,
    ) -> Result<ConfigValue, ValueError> {
        // `base.copy()`
        if let Expr::Field(base, name) = function
            && name == "copy"
            && args.is_empty()
        {
            return self.value(base, own);
        }
        let args: Vec<ConfigValue> = args.iter().map(|arg| self.value(arg, own)).collect::<Result<_, _>>()?;
        let ConfigValue::Symbol(name) = self.value(function, own)? else { return Err(ValueError::CallOfValue) };
        match (name.as_str(), args.as_slice()) {
            ("copy.deepcopy" | "deepcopy" | "copy.copy" | "dict" | "float" | "str", [one]) => Ok(one.clone()),
            ("int", [ConfigValue::Plain(Value::Number(n))]) => number(n.as_f64().unwrap_or_default().trunc(), true)
                .map(ConfigValue::Plain)
                .ok_or(ValueError::NotFinite),
            _ => Ok(ConfigValue::Call(name, args)),
        }
    }
}

fn binary(sign: &str, left: &ConfigValue, right: &ConfigValue) -> Result<ConfigValue, ValueError> {
    let text = |value: &ConfigValue| match value {
        ConfigValue::Plain(Value::String(text)) => Some(text.clone()),
        ConfigValue::Symbol(name) => Some(name.rsplit('.').next().unwrap_or_default().to_owned()),
        _ => None,
    };
    if let (ConfigValue::Plain(Value::Number(a)), ConfigValue::Plain(Value::Number(b))) = (left, right) {
        let is_whole = a.is_i64() && b.is_i64() && sign != "/";
        let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
        let result = match sign {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            "//" => (a / b).floor(),
            _ => a.powf(b),
        };
        return number(result, is_whole).map(ConfigValue::Plain).ok_or(ValueError::NotFinite);
    }
    match (sign, text(left), text(right)) {
        // A path.
        ("/", Some(left), Some(right)) => Ok(ConfigValue::Plain(json!(format!("{left}/{right}")))),
        ("+", Some(left), Some(right)) => Ok(ConfigValue::Plain(json!(format!("{left}{right}")))),
        _ => Err(ValueError::Operands(sign.to_owned())),
    }
}
