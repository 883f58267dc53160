//! Conversations of several turns, and pairs of input and output lengths, as GenAI-Perf and AIPerf write them.

use serde_json::{Value, json};

use super::load::TranslatedLoad;
use super::options::{GivenOption, ParsedLine};
use super::translation::number;

/// The names of a tool's options for conversations.
pub(crate) struct ConversationOptions {
    pub count: &'static str,
    pub turns_mean: &'static str,
    pub turns_stddev: &'static str,
    pub delay_mean: &'static str,
    pub delay_stddev: &'static str,
    pub delay_ratio: &'static str,
}

impl ConversationOptions {
    /// Whether a line has conversations: a number of them, or more than one turn.
    fn are_in(&self, line: &ParsedLine) -> bool {
        // `put` reports a text that is not a number.
        let is_above = |name: &str, least: f64| {
            line.value(name).is_some_and(|n| n.parse().is_ok_and(|n: f64| n > least) || n.parse::<f64>().is_err())
        };
        is_above(self.count, 0.0) || is_above(self.turns_mean, 1.0)
    }

    /// `bench.sessions`, its pauses, and a number of requests. Each turn has the answers that came before it in
    /// front.
    pub fn put(&self, line: &ParsedLine, load: &mut TranslatedLoad) {
        if !self.are_in(line) {
            return;
        }
        let mut value = |name: &str, usual: f64| match line.value(name).map(str::parse::<f64>) {
            Some(Ok(number)) if number.is_finite() && number >= 0.0 => number,
            Some(_) => {
                let given = line.value(name).unwrap_or_default();
                load.builder.push_error(format!(
                    "`{name} {given}`: one number of at least 0 is read; a list is a line, and a measurement, for \
                        each of its values"
                ));
                usual
            }
            None => usual,
        };
        let (count, turns, deviation) =
            (value(self.count, 0.0), value(self.turns_mean, 1.0), value(self.turns_stddev, 0.0));
        let ratio = value(self.delay_ratio, 1.0);
        let (pause, spread) = (value(self.delay_mean, 0.0) * ratio, value(self.delay_stddev, 0.0) * ratio);
        let turns_law = if deviation > 0.0 {
            let most = (turns + 4.0 * deviation).ceil();
            json!({"normal": {"mean": number(turns), "stddev": number(deviation), "min": 1, "max": number(most)}})
        } else {
            json!({"fixed": number(turns.round().max(1.0))})
        };
        let mut sessions = json!({"turns": turns_law, "history": "answers"});
        // Before each turn but the first: `_create_turn` of AIPerf 0.13.0 (aiperf/dataset/composer/synthetic.py) and
        // GenAI-Perf 0.0.16
        // (genai_perf/inputs/retrievers/synthetic_data_retriever.py).
        if pause > 0.0 {
            sessions["turn_delay"] = self.pause(pause, spread, load);
        }
        load.set("sessions", sessions);
        // More turns than this many conversations have begin them again.
        let turns_of_all = (count * turns).ceil();
        let requests = load.get("stop.requests").and_then(|requests| requests.parse::<f64>().ok());
        if count > 0.0 && requests.is_some_and(|requests| requests > turns_of_all) && !load.has("data") {
            load.set("distinct_prompts", number(turns_of_all));
        }
        // A window of GenAI-Perf, in milliseconds, does not end its conversations.
        let has_end = load.get("stop.duration").is_some_and(|time| !time.ends_with("ms"));
        if count > 0.0 && !load.has("stop.requests") && !has_end {
            load.put("stop.requests", turns_of_all.to_string());
            if deviation > 0.0 {
                load.builder.note(format!(
                    "{} {count}: as many requests as this number of conversations has on average",
                    self.count
                ));
            }
        }
    }

    fn pause(&self, mean: f64, stddev: f64, load: &mut TranslatedLoad) -> Value {
        let ms = |value: f64| format!("{}ms", number(value.round()));
        if stddev <= 0.0 {
            return json!({"fixed": ms(mean)});
        }
        // An even law of the same mean and deviation, as far as it is above 0.
        let half = (stddev * 3f64.sqrt()).min(mean);
        load.builder.note(format!("{} {}: pauses are evenly spread, not normally", self.delay_stddev, number(stddev)));
        json!({"uniform": {"min": ms(mean - half), "max": ms(mean + half)}})
    }
}

/// A rate of requests, where a conversation has several: there each arrival is a turn. A rate is one of conversations
/// here, so it is as many times lower as they have turns.
pub(crate) fn rate_of_conversations(written: &str, load: &mut TranslatedLoad) {
    let turns = load.keys.get("sessions").and_then(|sessions| sessions.get("turns"));
    let mean = turns.and_then(|turns| turns.get("fixed").or(turns.pointer("/normal/mean"))?.as_f64());
    let Some(mean) = mean.filter(|mean| *mean > 1.0 && load.has("rate")) else { return };
    load.divide_rate(mean);
    load.builder.note(format!(
        "{written}: the tool takes every arrival of the rate as a turn, the next one of a conversation or the \
        first one of another; Regatta starts conversations at that rate divided by their {} turns, so the mean \
        rate of requests is the same, but a later turn is sent after the answer to the previous one",
        number(mean)
    ));
}

/// One pair of lengths and how often it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LengthPair {
    input: f64,
    output: f64,
    weight: f64,
    has_deviation: bool,
}

/// `256,128:60;512,256:40`, `[(256,128):60,(512,256):40]`, `256|10,128|5:100`, or JSON `{"pairs": [{"isl", "osl",
/// "prob"}]}`.
fn pairs(text: &str) -> Option<Vec<LengthPair>> {
    if let Ok(Value::Object(all)) = serde_json::from_str::<Value>(text) {
        let read = |pair: &Value| {
            let field = |name: &str| pair.get(name).and_then(Value::as_f64);
            let has_deviation = ["isl_stddev", "osl_stddev"].iter().any(|name| field(name).is_some_and(|it| it > 0.0));
            Some(LengthPair { input: field("isl")?, output: field("osl")?, weight: field("prob")?, has_deviation })
        };
        return all.get("pairs")?.as_array()?.iter().map(read).collect();
    }
    let plain =
        text.trim().trim_start_matches('[').trim_end_matches(']').replace("),", ");").replace(['(', ')', ' '], "");
    let read = |pair: &str| {
        let (lengths, weight) = pair.rsplit_once(':')?;
        let (input, output) = lengths.split_once(',')?;
        let length = |text: &str| {
            let (mean, deviation) = text.split_once('|').unwrap_or((text, "0"));
            Some((mean.parse::<f64>().ok()?, deviation.parse::<f64>().ok()? > 0.0))
        };
        let ((input, spread), (output, other)) = (length(input)?, length(output)?);
        Some(LengthPair { input, output, weight: weight.parse().ok()?, has_deviation: spread || other })
    };
    // `(256,128):60,(512,256):40` has commas between its pairs, too.
    let plain = if plain.contains(';') { plain } else { semicolons(&plain) };
    plain.split(';').filter(|pair| !pair.is_empty()).map(read).collect()
}

/// A comma behind a weight begins another pair.
fn semicolons(text: &str) -> String {
    let parts = text.split(':').enumerate();
    let parts: Vec<String> = parts.map(|(at, part)| part.replacen(',', ";", at.min(1))).collect();
    parts.join(":")
}

/// Lengths with weights, of prompts and of answers.
pub(crate) fn length_pairs(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let is_usable = |pair: &LengthPair| pair.input >= 1.0 && pair.output >= 1.0 && pair.weight >= 0.0;
    let Some(pairs) = pairs(given.value()).filter(|pairs| !pairs.is_empty() && pairs.iter().all(is_usable)) else {
        load.builder.push_error(format!("`{given}`: pairs such as `256,128:60;512,256:40`"));
        return true;
    };
    let lengths = [
        ("input_tokens", pairs.iter().map(|pair| pair.input).collect::<Vec<_>>()),
        ("output_tokens", pairs.iter().map(|pair| pair.output).collect()),
    ];
    let is_varied = |tokens: &[f64]| tokens.iter().any(|length| (length - tokens[0]).abs() > 0.5);
    if lengths.iter().all(|(_, tokens)| is_varied(tokens)) {
        let reason = "the tool draws both lengths together, in pairs; Regatta draws each independently, with the same \
            weights";
        load.builder.push_untranslated_load(given, reason);
    }
    if pairs.iter().any(|pair| pair.has_deviation) {
        load.builder.push_untranslated_load(
            given,
            "of each pair its means are used, without their deviations: `input_tokens: { normal: … }` has one",
        );
    }
    let total: f64 = pairs.iter().map(|pair| pair.weight).sum();
    for (key, tokens) in lengths {
        let weighted = tokens.iter().zip(&pairs).map(|(tokens, pair)| tokens * pair.weight);
        let mean = weighted.sum::<f64>() / total.max(f64::MIN_POSITIVE);
        load.put(key, (mean.round().max(1.0) as u64).to_string());
        if is_varied(&tokens) {
            let weight = |(tokens, pair): (&f64, &LengthPair)| {
                let (tokens, weight) = (number(tokens.round()), number(pair.weight));
                json!({"tokens": tokens, "weight": weight})
            };
            let weighted: Vec<Value> = tokens.iter().zip(&pairs).map(weight).collect();
            load.set(key, json!({ "empirical": weighted }));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_in_every_form_of_the_page() {
        let plain = |input, output, weight| LengthPair { input, output, weight, has_deviation: false };
        let expected = Some(vec![plain(256.0, 128.0, 60.0), plain(512.0, 256.0, 40.0)]);
        for text in [
            "256,128:60;512,256:40",
            "[(256,128):60,(512,256):40]",
            "(256, 128):60, (512, 256):40",
            r#"{"pairs": [{"isl": 256, "osl": 128, "prob": 60}, {"isl": 512, "osl": 256, "prob": 40}]}"#,
        ] {
            assert_eq!(pairs(text), expected, "{text}");
        }
        let spread = pairs("64|10,32|8:70;256|40,128|20:30").unwrap();
        assert!(spread.iter().all(|pair| pair.has_deviation) && (spread[1].output - 128.0).abs() < 0.5);
        for wrong in ["", "256", "256,128", "256:60", "a,b:60", "{}"] {
            assert!(pairs(wrong).is_none_or(|all| all.is_empty()), "{wrong}");
        }
    }
}
