//! Numbers that an imported line does not have, `--concurrency $CONC`: the line is read with others in their place, and the manifest
//! has a parameter where those stand.

use serde_json::{Map, Value, json};

use crate::interop::{Translation, UnknownNumber, UnknownValue};

/// No line has this many of anything; they are below the maximum of every count (see `spec::MOST_USERS`).
const FIRST: u64 = 900_001;

/// Options of `regatta bench` whose values are numbers, and whether they are whole.
const NUMBERS: [(&str, UnknownNumber); 16] = [
    ("--concurrency", UnknownNumber::Whole),
    ("--rate", UnknownNumber::Any),
    ("--requests", UnknownNumber::Whole),
    ("--duration", UnknownNumber::Whole),
    ("--measurement-interval", UnknownNumber::Whole),
    ("--warmup", UnknownNumber::Whole),
    ("--input-tokens", UnknownNumber::Whole),
    ("--input-tokens-stddev", UnknownNumber::Any),
    ("--max-input-len", UnknownNumber::Whole),
    ("--output-tokens", UnknownNumber::Whole),
    ("--output-tokens-stddev", UnknownNumber::Any),
    ("--min-tokens", UnknownNumber::Whole),
    ("--temperature", UnknownNumber::Any),
    ("--seed", UnknownNumber::Whole),
    ("--stall-timeout", UnknownNumber::Whole),
    ("--connections", UnknownNumber::Whole),
];

/// The unknown values of a line that are numbers, each with the number in its place.
pub(super) struct UnknownNumbers(Vec<(UnknownValue, u64)>);

impl UnknownNumbers {
    /// Puts numbers in the place of unknown values of numeric options; what they are is noted in the translation.
    pub fn replace(words: &mut [String], translation: &mut Translation) -> Self {
        let mut replaced = Vec::new();
        for at in 1..words.len() {
            let Some((_, kind)) = NUMBERS.iter().find(|(option, _)| *option == words[at - 1]) else { continue };
            for (index, value) in translation.unknown.iter_mut().enumerate() {
                if words[at].contains(&value.marker()) {
                    let number = FIRST + index as u64;
                    words[at] = words[at].replace(&value.marker(), &number.to_string());
                    value.number = Some(value.number.map_or(*kind, |before| before.and(*kind)));
                    if !replaced.iter().any(|(_, known)| *known == number) {
                        replaced.push((value.clone(), number));
                    }
                }
            }
        }
        Self(replaced)
    }

    /// Puts the values back. On error one that something was computed from.
    pub fn put_back(&self, manifest: &mut Map<String, Value>) -> Result<(), &UnknownValue> {
        for value in manifest.values_mut() {
            self.put_back_in(value)?;
        }
        Ok(())
    }

    fn put_back_in(&self, value: &mut Value) -> Result<(), &UnknownValue> {
        match value {
            Value::Array(all) => all.iter_mut().try_for_each(|one| self.put_back_in(one)),
            Value::Object(all) => all.values_mut().try_for_each(|one| self.put_back_in(one)),
            Value::String(text) => {
                for (unknown, number) in &self.0 {
                    *text = text.replace(&number.to_string(), &unknown.marker());
                }
                Ok(())
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                if let Some((unknown, _)) = self.0.iter().find(|(_, known)| (*known as f64 - number).abs() < 0.5) {
                    *value = json!(unknown.marker());
                    return Ok(());
                }
                // Made of one of them: there is no number like it otherwise.
                let is_made = number.abs() > FIRST as f64 / 10.0;
                self.0.first().filter(|_| is_made).map_or(Ok(()), |(unknown, _)| Err(unknown))
            }
            _ => Ok(()),
        }
    }
}
