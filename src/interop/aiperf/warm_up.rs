//! The warm-up of an AIPerf line. It has the load of the measured requests, as here.

use serde_json::json;

use crate::command_line::load::TranslatedLoad;
use crate::command_line::options::ParsedLine;
use crate::command_line::translation::TranslationBuilder;

/// A number of requests or of conversations, or a time. Several are limits, the first of which ends it.
pub(super) fn put(line: &ParsedLine, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let whole = |name: &str| line.value(name).and_then(|text| text.parse::<f64>().ok());
    let sessions = whole("--num-warmup-sessions").map(|sessions| {
        let turns = whole("--conversation-turn-mean").filter(|turns| *turns > 1.0).unwrap_or(1.0);
        (sessions * turns).ceil()
    });
    let requests = line.value("--warmup-request-count");
    let is_sessions =
        sessions.is_some_and(|sessions| whole("--warmup-request-count").is_none_or(|requests| sessions < requests));
    let left = "there the first of its limits ends the warm-up; here it has one number of requests";
    for name in ["--num-warmup-sessions", "--warmup-request-count", "--warmup-duration"] {
        let is_used = match name {
            "--num-warmup-sessions" => is_sessions,
            "--warmup-request-count" => !is_sessions,
            _ => requests.is_none() && sessions.is_none(),
        };
        if let Some(value) = line.value(name).filter(|_| !is_used) {
            builder.push_untranslated(format!("{name} {value}"), left);
        }
    }
    match (sessions.filter(|_| is_sessions), requests, line.value("--warmup-duration")) {
        (Some(turns), ..) => {
            load.put("--warmup", turns.to_string());
            builder.note(format!("the warm-up is {turns} requests, as many as its conversations have turns on average; each is a first turn"));
        }
        (None, Some(requests), _) => load.put("--warmup", requests),
        (None, None, Some(seconds)) => {
            load.put("--warmup", "1");
            load.keys.insert("warmup_time".to_owned(), json!(format!("{seconds}s")));
        }
        (None, None, None) => load.put("--warmup", "0"),
    }
}
