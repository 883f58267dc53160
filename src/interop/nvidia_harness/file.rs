//! From statements to settings: `EXPORTS` of round v5.1, registered classes of v4.1 and v5.0.

use std::collections::BTreeMap;

use super::value::{ConfigNames, ConfigValue};
use crate::command_line::python::{Expr, Statement, StatementKind, parse};
use crate::command_line::translation::TranslationBuilder;

/// A larger value no config has.
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
    /// Bases that no file of these has.
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
                        format!("the key {} is no WorkloadSetting with fields", key.json()),
                    ),
                }
            }
        }
        self.unknown_bases.sort();
        self.unknown_bases.dedup();
        for base in &self.unknown_bases {
            builder.push_untranslated(
                base,
                "the class is in another file; what it sets is missing here: name that file, too, and first",
            );
        }
        for other in ["ATOMIC_EXPORTS", "ACCURACY_OVERRIDES", "COMPLIANCE_OVERRIDES"] {
            if self.names.values.contains_key(other) {
                builder.push_untranslated(other, "only EXPORTS is read");
            }
        }
    }

    fn assign(&mut self, target: &Expr, value: &Expr, place: &str, builder: &mut TranslationBuilder) {
        let value = match self.names.value(value, &BTreeMap::new()) {
            Ok(value) if size(&value) <= LARGEST => value,
            Ok(_) => return builder.push_untranslated(place, "the value is too large to be a config"),
            Err(why) => return builder.push_untranslated(place, format!("{why}: only running the file would show it")),
        };
        match target {
            Expr::Name(name) => {
                self.names.values.insert(name.clone(), value);
            }
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
        let is_path = matches!(expr, Expr::Call(function, _) if matches!(&**function, Expr::Field(path, _) if matches!(&**path, Expr::Field(_, name) if name == "path")));
        if !is_path {
            builder.push_untranslated(place, "a call: its value is known only by running the file");
        }
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
        let mut own: BTreeMap<String, ConfigValue> = BTreeMap::new();
        for base in bases {
            let (Expr::Name(base) | Expr::Field(_, base)) = base else { continue };
            match self.names.classes.get(base) {
                Some(fields) => own.extend(fields.clone()),
                None if base != "object" => self.unknown_bases.push(base.clone()),
                None => {}
            }
        }
        for Statement { line, what } in body {
            let here = || format!("{}:{line}", place.rsplit_once(':').map_or(place, |(file, _)| file));
            match what {
                StatementKind::Assign(Expr::Name(field), value) => match self.names.value(&value, &own) {
                    Ok(value) if size(&value) <= LARGEST => match own.get_mut(&field) {
                        // Along the chain, mappings are merged.
                        Some(before @ ConfigValue::Dict(_))
                            if matches!(value, ConfigValue::Dict(_)) && field.starts_with("trtllm_") =>
                        {
                            before.update(&value);
                        }
                        _ => {
                            own.insert(field, value);
                        }
                    },
                    Ok(_) => builder.push_untranslated(here(), "the value is too large to be a config"),
                    Err(why) => {
                        builder.push_untranslated(here(), format!("{why}: only running the file would show it"));
                    }
                },
                StatementKind::Nothing => {}
                _ => {
                    builder.push_untranslated(here(), "its value is known only by running the file, which is not done");
                }
            }
        }
        self.names.classes.insert(name.to_owned(), own.clone());
        for decorator in decorators {
            let Expr::Call(_, _) = decorator else { continue };
            let Ok(key) = self.names.value(decorator, &BTreeMap::new()) else { continue };
            if let Some(mut setting) = setting(&key) {
                self.has_classes = true;
                name.clone_into(&mut setting.name);
                setting.fields.clone_from(&own);
                self.settings.push(setting);
            }
        }
    }
}

fn fields(value: &ConfigValue) -> BTreeMap<String, ConfigValue> {
    let ConfigValue::Dict(items) = value else { return BTreeMap::new() };
    items.iter().filter_map(|(key, value)| Some((key.last()?.to_owned(), value.clone()))).collect()
}

/// `WorkloadSetting(HarnessType.Triton, AccuracyTarget(0.999), PowerSetting.MaxP)`, or the same arguments of a decorator.
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

/// How many values there are in it.
fn size(value: &ConfigValue) -> usize {
    match value {
        ConfigValue::Plain(one) => 1 + one.as_str().map_or(0, str::len) / 64,
        ConfigValue::List(items) | ConfigValue::Call(_, items) => 1 + items.iter().map(size).sum::<usize>(),
        ConfigValue::Dict(items) => 1 + items.iter().map(|(key, value)| size(key) + size(value)).sum::<usize>(),
        ConfigValue::Symbol(_) => 1,
    }
}
