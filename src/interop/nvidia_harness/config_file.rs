//! A config as Python, without running it: from statements to settings (`EXPORTS` of round v5.1, registered classes of
//! v4.1 and v5.0), and what its expressions come to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::command_line::TranslationBuilder;
use crate::command_line::python::{Expr, PythonItem, Statement, StatementKind, parse};
use base::diag::ErrorText;

/// The largest value that is read; no config has a larger one.
const LARGEST: usize = 20_000;

/// One registered setting.
#[derive(Debug)]
pub(super) struct ConfigSetting {
    /// The short code (`tp990`), or the class.
    pub name: String,
    /// `Custom`, `Triton`, …
    pub harness: String,
    /// `99` or `99.9`.
    pub accuracy: &'static str,
    pub is_max_q: bool,
    /// Field → value, in no order.
    pub fields: BTreeMap<String, ConfigValue>,
}

#[derive(Debug, Default)]
pub(super) struct ConfigFile {
    names: ConfigNames,
    pub settings: Vec<ConfigSetting>,
    /// v4.1 and v5.0.
    pub has_classes: bool,
    /// `os.environ[…] = …`
    pub env: Vec<(String, ConfigValue)>,
    /// Base classes that none of the files defines.
    unknown_bases: Vec<String>,
}

impl ConfigFile {
    pub fn file(&mut self, name: &str, text: &str, builder: &mut TranslationBuilder) {
        for Statement { line, what } in parse(text) {
            let place = format!("{name}:{line}");
            match what {
                StatementKind::Nothing => {}
                StatementKind::Assign(target, value) => self.assign(&target, &value, &place, builder),
                StatementKind::Expression(expr) => self.apply_expression(&expr, &place, builder),
                StatementKind::Class { name, bases, decorators, body } => {
                    self.class(&name, &bases, &decorators, body, &place, builder);
                }
                StatementKind::Other(word) => {
                    builder.push_untranslated(
                        place,
                        format!("`{word}` …: its value is known only by running the file, which is not done"),
                    );
                }
            }
        }
    }

    /// After the last file.
    pub fn end(&mut self, builder: &mut TranslationBuilder) {
        if let Some(ConfigValue::Dict(exports)) = self.names.values.get("EXPORTS").cloned() {
            for (key, value) in &exports {
                match (setting(key), value) {
                    (Some(mut setting), ConfigValue::Dict(_)) => {
                        setting.fields = fields(value);
                        self.settings.push(setting);
                    }
                    _ => builder.push_untranslated(
                        "EXPORTS",
                        format!("the key {} is not a WorkloadSetting with fields", key.json()),
                    ),
                }
            }
        }
        self.unknown_bases.sort();
        self.unknown_bases.dedup();
        for base in &self.unknown_bases {
            builder.push_untranslated(base, "the class is in another file: name that file, too, before this one");
        }
        for other in ["ATOMIC_EXPORTS", "ACCURACY_OVERRIDES", "COMPLIANCE_OVERRIDES"] {
            if self.names.values.contains_key(other) {
                builder.push_untranslated(other, "only EXPORTS is read");
            }
        }
    }

    /// The value of an assignment; one that is not read is reported. `own`: names of the class around it.
    fn assigned(
        &self,
        value: &Expr,
        own: &BTreeMap<String, ConfigValue>,
        place: &str,
        builder: &mut TranslationBuilder,
    ) -> Option<ConfigValue> {
        match self.names.value(value, own) {
            Ok(value) if size(&value) <= LARGEST => return Some(value),
            Ok(_) => builder.push_untranslated(place, "the value is too large to be a config"),
            Err(error) => builder.push_untranslated(place, format!("{error}: only running the file would show it")),
        }
        None
    }

    fn assign(&mut self, target: &Expr, value: &Expr, place: &str, builder: &mut TranslationBuilder) {
        let Some(value) = self.assigned(value, &BTreeMap::new(), place, builder) else { return };
        match target {
            Expr::Name(name) => drop(self.names.values.insert(name.clone(), value)),
            Expr::Index(base, key) => {
                let key = self.names.value(key, &BTreeMap::new());
                match (&**base, key) {
                    (Expr::Field(os, environ), Ok(key))
                        if matches!(&**os, Expr::Name(os) if os == "os") && environ == "environ" =>
                    {
                        self.env.push((key.last().unwrap_or_default().to_owned(), value));
                    }
                    (Expr::Name(name), Ok(key)) if self.names.values.contains_key(name) => {
                        if let Some(dict) = self.names.values.get_mut(name) {
                            dict.update(&ConfigValue::Dict(vec![(key, value)]));
                        }
                    }
                    _ => builder.push_untranslated(place, "a part of a value that is not in this file"),
                }
            }
            // Several names at once, an attribute of a module.
            _ => builder.push_untranslated(place, "it sets something that is not in this file"),
        }
    }

    /// A statement that is only an expression: `base.update({…})`; any other one changes something elsewhere.
    fn apply_expression(&mut self, expr: &Expr, place: &str, builder: &mut TranslationBuilder) {
        if let Expr::Call(function, args) = expr
            && let Expr::Field(base, method) = &**function
            && let (Expr::Name(name), "update", [more]) = (&**base, method.as_str(), args.as_slice())
            && let Ok(more) = self.names.value(more, &BTreeMap::new())
            && size(&more) <= LARGEST
            && let Some(dict) = self.names.values.get_mut(name)
        {
            return dict.update(&more);
        }
        // `sys.path.insert(…)` is in every file.
        if let Expr::Call(function, _) = expr
            && let Expr::Field(path, _) = &**function
            && let Expr::Field(_, name) = &**path
            && name == "path"
        {
            return;
        }
        builder.push_untranslated(place, "a call: its value is known only by running the file");
    }

    fn class(
        &mut self,
        name: &str,
        bases: &[Expr],
        decorators: &[Expr],
        body: Vec<Statement>,
        place: &str,
        builder: &mut TranslationBuilder,
    ) {
        let mut fields: BTreeMap<String, ConfigValue> = BTreeMap::new();
        for base in bases {
            let (Expr::Name(base) | Expr::Field(_, base)) = base else { continue };
            match self.names.classes.get(base) {
                Some(inherited) => fields.extend(inherited.clone()),
                None if base != "object" => self.unknown_bases.push(base.clone()),
                None => {}
            }
        }
        for Statement { line, what } in body {
            let here = || format!("{}:{line}", place.rsplit_once(':').map_or(place, |(file, _)| file));
            match what {
                StatementKind::Assign(Expr::Name(field), value) => {
                    let Some(value) = self.assigned(&value, &fields, &here(), builder) else { continue };
                    match fields.get_mut(&field) {
                        // Mappings are merged along the chain of classes.
                        Some(before @ ConfigValue::Dict(_))
                            if matches!(value, ConfigValue::Dict(_)) && field.starts_with("trtllm_") =>
                        {
                            before.update(&value);
                        }
                        _ => drop(fields.insert(field, value)),
                    }
                }
                StatementKind::Nothing => {}
                _ => {
                    builder.push_untranslated(here(), "its value is known only by running the file, which is not done");
                }
            }
        }
        self.names.classes.insert(name.to_owned(), fields.clone());
        for decorator in decorators {
            let Expr::Call(_, _) = decorator else { continue };
            let Ok(key) = self.names.value(decorator, &BTreeMap::new()) else { continue };
            if let Some(mut setting) = setting(&key) {
                self.has_classes = true;
                name.clone_into(&mut setting.name);
                setting.fields.clone_from(&fields);
                self.settings.push(setting);
            }
        }
    }
}

fn fields(value: &ConfigValue) -> BTreeMap<String, ConfigValue> {
    let ConfigValue::Dict(items) = value else { return BTreeMap::new() };
    items.iter().filter_map(|(key, value)| Some((key.last()?.to_owned(), value.clone()))).collect()
}

/// `WorkloadSetting(HarnessType.Triton, AccuracyTarget(0.999), PowerSetting.MaxP)`, or the same arguments of a
/// decorator.
fn setting(key: &ConfigValue) -> Option<ConfigSetting> {
    let ConfigValue::Call(function, args) = key else { return None };
    if !function.ends_with("WorkloadSetting") && !function.ends_with("register") {
        return None;
    }
    let harness = args.first()?.last()?.to_owned();
    let accuracy = match args.get(1)? {
        ConfigValue::Call(_, target) => target.first()?.json().as_f64()?,
        ConfigValue::Symbol(name) if name.ends_with("k_99_9") => 0.999,
        ConfigValue::Symbol(name) if name.ends_with("k_99") => 0.99,
        ConfigValue::Plain(number) => number.as_f64()?,
        _ => return None,
    };
    let is_max_q = args.get(2).and_then(ConfigValue::last) == Some("MaxQ");
    let letter = harness.chars().next()?.to_ascii_lowercase();
    let name = format!("{letter}{}{}", if is_max_q { 'q' } else { 'p' }, (accuracy * 1000.0).round() as i64);
    let accuracy = if accuracy > 0.995 { "99.9" } else { "99" };
    Some(ConfigSetting { name, harness, accuracy, is_max_q, fields: BTreeMap::new() })
}

/// The number of values in a nested value.
fn size(value: &ConfigValue) -> usize {
    match value {
        ConfigValue::Plain(plain) => 1 + plain.as_str().map_or(0, str::len) / 64,
        ConfigValue::List(items) | ConfigValue::Call(_, items) => 1 + items.iter().map(size).sum::<usize>(),
        ConfigValue::Dict(items) => 1 + items.iter().map(|(key, value)| size(key) + size(value)).sum::<usize>(),
        ConfigValue::Symbol(_) => 1,
    }
}

/// The value of an expression.
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
            match mine.iter_mut().find(|(other, _)| other == key) {
                Some((_, before)) => before.clone_from(value),
                None => mine.push((key.clone(), value.clone())),
            }
        }
    }
}

/// A number as a person would have written it: no trace of binary fractions.
fn number(value: f64, is_whole: bool) -> Result<ConfigValue, ErrorText> {
    let short: Option<f64> = format!("{value:.12e}").parse().ok().filter(|_| value.is_finite());
    let short = short.ok_or_else(|| ErrorText::new("a number without an end"))?;
    let is_whole = is_whole && value.fract() == 0.0 && value.abs() < 9e15;
    Ok(ConfigValue::Plain(if is_whole { json!(value as i64) } else { json!(short) }))
}

impl ConfigNames {
    /// The value, or why only running the file would give it.
    pub fn value(&self, expr: &Expr, own: &BTreeMap<String, ConfigValue>) -> Result<ConfigValue, ErrorText> {
        let plain = |value| Ok(ConfigValue::Plain(value));
        match expr {
            Expr::Number(value, is_whole) => number(*value, *is_whole),
            Expr::Text(text) => plain(json!(text)),
            Expr::Bool(is) => plain(json!(is)),
            Expr::None => plain(Value::Null),
            Expr::List(items) => {
                Ok(ConfigValue::List(items.iter().map(|item| self.value(item, own)).collect::<Result<_, _>>()?))
            }
            Expr::Dict(items) => self.dict(items, own),
            Expr::Name(name) => {
                let assigned = own.get(name).or_else(|| self.values.get(name));
                Ok(assigned.cloned().unwrap_or_else(|| ConfigValue::Symbol(name.clone())))
            }
            Expr::Field(base, field) => match self.value(base, own)? {
                ConfigValue::Symbol(name) => match self.classes.get(&name) {
                    Some(class) => {
                        let unset = || ErrorText::new(format_args!("{name}.{field} is not set in this file"));
                        class.get(field).cloned().ok_or_else(unset)
                    }
                    None => Ok(ConfigValue::Symbol(format!("{name}.{field}"))),
                },
                // Of a module that is imported by its name.
                ConfigValue::Call(..) => Ok(ConfigValue::Symbol(field.clone())),
                _ => Err(ErrorText::new(format_args!("`.{field}` of a value"))),
            },
            Expr::Index(base, key) => {
                let (base, key) = (self.value(base, own)?, self.value(key, own)?);
                let items = if let ConfigValue::Dict(items) = base { items } else { Vec::new() };
                let item = items.into_iter().find(|(other, _)| *other == key);
                item.map(|(_, value)| value).ok_or_else(|| ErrorText::new("a part of a value that is not there"))
            }
            Expr::Call(function, args) => self.call(function, args, own),
            Expr::Minus(inner) => match self.value(inner, own)? {
                ConfigValue::Plain(Value::Number(n)) => number(-n.as_f64().unwrap_or_default(), n.is_i64()),
                _ => Err(ErrorText::new("a minus before what is not a number")),
            },
            Expr::Binary(sign, left, right) => binary(sign, &self.value(left, own)?, &self.value(right, own)?),
        }
    }

    fn dict(&self, items: &[PythonItem], own: &BTreeMap<String, ConfigValue>) -> Result<ConfigValue, ErrorText> {
        let mut dict = ConfigValue::Dict(Vec::new());
        for item in items {
            let more = match item {
                PythonItem::Pair(key, value) => {
                    ConfigValue::Dict(vec![(self.value(key, own)?, self.value(value, own)?)])
                }
                PythonItem::Spread(other) => match self.value(other, own)? {
                    dict @ ConfigValue::Dict(_) => dict,
                    other => {
                        return Err(ErrorText::new(format_args!("`**{}`, which is not in this file", other.json())));
                    }
                },
            };
            dict.update(&more);
        }
        Ok(dict)
    }

    fn call(
        &self,
        function: &Expr,
        args: &[Expr],
        own: &BTreeMap<String, ConfigValue>,
    ) -> Result<ConfigValue, ErrorText> {
        // `base.copy()`
        if let Expr::Field(base, name) = function
            && name == "copy"
            && args.is_empty()
        {
            return self.value(base, own);
        }
        let args: Vec<ConfigValue> = args.iter().map(|arg| self.value(arg, own)).collect::<Result<_, _>>()?;
        let ConfigValue::Symbol(name) = self.value(function, own)? else {
            return Err(ErrorText::new("a call of a value"));
        };
        match (name.as_str(), args.as_slice()) {
            ("copy.deepcopy" | "deepcopy" | "copy.copy" | "dict" | "float" | "str", [plain]) => Ok(plain.clone()),
            ("int", [ConfigValue::Plain(Value::Number(n))]) => number(n.as_f64().unwrap_or_default().trunc(), true),
            _ => Ok(ConfigValue::Call(name, args)),
        }
    }
}

fn binary(sign: &str, left: &ConfigValue, right: &ConfigValue) -> Result<ConfigValue, ErrorText> {
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
        return number(result, is_whole);
    }
    match (sign, text(left), text(right)) {
        // A path.
        ("/", Some(left), Some(right)) => Ok(ConfigValue::Plain(json!(format!("{left}/{right}")))),
        ("+", Some(left), Some(right)) => Ok(ConfigValue::Plain(json!(format!("{left}{right}")))),
        _ => Err(ErrorText::new(format_args!("`{sign}` of what is not in this file"))),
    }
}
