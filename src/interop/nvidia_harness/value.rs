//! What expressions of a config come to, without running it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::interop::command_line::python::{Expr, PythonItem};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConfigValue {
    Plain(Value),
    List(Vec<Self>),
    Dict(Vec<(Self, Self)>),
    /// A name that is defined elsewhere: `C.HarnessType.Triton`.
    Symbol(String),
    Call(String, Vec<Self>),
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
    pub fn value(&self, expr: &Expr, own: &BTreeMap<String, ConfigValue>) -> Result<ConfigValue, String> {
        let plain = |value| Ok(ConfigValue::Plain(value));
        match expr {
            Expr::Number(value, is_whole) => {
                number(*value, *is_whole).map(ConfigValue::Plain).ok_or_else(|| "a number without an end".to_owned())
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
                        class.get(field).cloned().ok_or_else(|| format!("{name}.{field} is not set in this file"))
                    }
                    None => Ok(ConfigValue::Symbol(format!("{name}.{field}"))),
                },
                // Of a module that is imported by its name.
                ConfigValue::Call(..) => Ok(ConfigValue::Symbol(field.clone())),
                _ => Err(format!("`.{field}` of a value")),
            },
            Expr::Index(base, key) => {
                let (base, key) = (self.value(base, own)?, self.value(key, own)?);
                match &base {
                    ConfigValue::Dict(items) => {
                        items.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone())
                    }
                    _ => None,
                }
                .ok_or_else(|| "a part of a value that is not there".to_owned())
            }
            Expr::Call(function, args) => self.call(function, args, own),
            Expr::Minus(inner) => match self.value(inner, own)? {
                ConfigValue::Plain(Value::Number(n)) => {
                    number(-n.as_f64().unwrap_or_default(), n.is_i64()).map(ConfigValue::Plain).ok_or_else(String::new)
                }
                _ => Err("a minus before what is no number".to_owned()),
            },
            Expr::Binary(sign, left, right) => binary(sign, &self.value(left, own)?, &self.value(right, own)?),
        }
    }

    fn dict(&self, items: &[PythonItem], own: &BTreeMap<String, ConfigValue>) -> Result<ConfigValue, String> {
        let mut all = ConfigValue::Dict(Vec::new());
        for item in items {
            let more = match item {
                PythonItem::Pair(key, value) => {
                    ConfigValue::Dict(vec![(self.value(key, own)?, self.value(value, own)?)])
                }
                PythonItem::Spread(other) => match self.value(other, own)? {
                    dict @ ConfigValue::Dict(_) => dict,
                    other => return Err(format!("`**{}`, which is not in this file", other.json())),
                },
            };
            all.update(&more);
        }
        Ok(all)
    }

    fn call(&self, function: &Expr, args: &[Expr], own: &BTreeMap<String, ConfigValue>) -> Result<ConfigValue, String> {
        // `base.copy()`
        if let Expr::Field(base, name) = function
            && name == "copy"
            && args.is_empty()
        {
            return self.value(base, own);
        }
        let args: Vec<ConfigValue> = args.iter().map(|arg| self.value(arg, own)).collect::<Result<_, _>>()?;
        let ConfigValue::Symbol(name) = self.value(function, own)? else { return Err("a call of a value".to_owned()) };
        match (name.as_str(), args.as_slice()) {
            ("copy.deepcopy" | "deepcopy" | "copy.copy" | "dict" | "float" | "str", [one]) => Ok(one.clone()),
            ("int", [ConfigValue::Plain(Value::Number(n))]) => {
                number(n.as_f64().unwrap_or_default().trunc(), true).map(ConfigValue::Plain).ok_or_else(String::new)
            }
            _ => Ok(ConfigValue::Call(name, args)),
        }
    }
}

fn binary(sign: &str, left: &ConfigValue, right: &ConfigValue) -> Result<ConfigValue, String> {
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
        return number(result, is_whole).map(ConfigValue::Plain).ok_or_else(|| "a number without an end".to_owned());
    }
    match (sign, text(left), text(right)) {
        // A path.
        ("/", Some(left), Some(right)) => Ok(ConfigValue::Plain(json!(format!("{left}/{right}")))),
        ("+", Some(left), Some(right)) => Ok(ConfigValue::Plain(json!(format!("{left}{right}")))),
        _ => Err(format!("`{sign}` of what is not in this file")),
    }
}
