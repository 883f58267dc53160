//! Names of a script's stages: several commands may have stages of one name.

use serde_json::{Map, Value};

use crate::command_line::{Translation, TranslationKind, each_text};

/// A name that none of the stages has, and none of these.
pub(super) fn unique(name: &str, beside: &[String], stages: &Map<String, Value>) -> String {
    let is_free = |free: &String| !stages.contains_key(free) && (free == name || !beside.contains(free));
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

/// Gives stages of a translation whose names are among these already others; what refers to them follows.
pub(super) fn with_unique_names(translation: &mut Translation, stages: &Map<String, Value>) {
    let Some(own) = translation.kind.named_stages() else { return };
    let names: Vec<String> = own.keys().cloned().collect();
    for name in &names {
        let to = unique(name, &names, stages);
        if to == *name {
            continue;
        }
        if let Some(own) = translation.kind.named_stages() {
            *own = std::mem::take(own)
                .into_iter()
                .map(|(key, mut stage)| {
                    each_text(&mut stage, &mut |text| *text = with_stage_renamed(text, name, &to));
                    (if key == *name { to.clone() } else { key }, stage)
                })
                .collect();
        }
        for (_, expression) in &mut translation.produced {
            *expression = with_stage_renamed(expression, name, &to);
        }
        if let TranslationKind::Script(script) = &mut translation.kind {
            let servers = script.benches.iter_mut().filter_map(|bench| bench.server.as_mut());
            servers.filter(|server| *server == name).for_each(|server| server.clone_from(&to));
        }
    }
}

/// `stages.NAME` in a text, as another stage.
fn with_stage_renamed(text: &str, name: &str, to: &str) -> String {
    let reference = format!("stages.{name}");
    let mut parts = text.split(&reference);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `stages.server` must not match inside `stages.server_2`.
        let is_whole = !part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        out.push_str(if is_whole { "stages." } else { &reference });
        if is_whole {
            out.push_str(to);
        }
        out.push_str(part);
    }
    out
}
