//! What must not get into a file that people commit: secrets, and the machine's own paths.

use serde_json::Value;

use crate::exec::process::redacted;
use crate::units::without_credentials;

/// A shorter one would hide text that only looks like it.
const SHORTEST: usize = 4;

/// Knows the values that must not leave this machine.
#[derive(Clone, Debug, Default)]
pub struct PrivateValues {
    secrets: Vec<String>,
    /// Folder → what stands for it.
    folders: Vec<(String, &'static str)>,
}

impl PrivateValues {
    /// `secrets`: values; `folders`: absolute paths and what stands for each, the most special one first.
    pub fn new(secrets: impl IntoIterator<Item = String>, folders: Vec<(String, &'static str)>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).collect();
        Self { secrets, folders: folders.into_iter().filter(|(folder, _)| folder.len() > 1).collect() }
    }

    /// A text without them: only the last name of an absolute path is kept.
    pub fn text(&self, text: &str) -> String {
        let mut text = redacted(text, &self.secrets);
        if text.contains("://") {
            text = without_credentials_in(&text);
        }
        for (folder, instead) in &self.folders {
            if text == *folder {
                return (*instead).to_owned();
            }
            // Most texts contain no path and are not copied.
            let inside = format!("{folder}/");
            if text.contains(&inside) {
                text = text.replace(&inside, &format!("{instead}/"));
            }
        }
        let is_path = text.starts_with('/') && !text.contains(char::is_whitespace);
        match text.trim_end_matches('/').rsplit_once('/') {
            Some((above, name)) if is_path && !above.is_empty() => format!("…/{name}"),
            _ => text,
        }
    }

    /// Like `text`, for every text in a value; fields sorted by name.
    pub fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let mut fields: Vec<(String, Value)> =
                    fields.into_iter().map(|(name, value)| (name, self.value(value))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Object(fields.into_iter().collect())
            }
            other => other,
        }
    }
}

/// `https://me:token@host/x` → `https://host/x`, wherever it stands.
fn without_credentials_in(text: &str) -> String {
    let mut parts = text.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let scheme = out.trim_end_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let end = part.find(|c: char| c == '"' || c == '\'' || c.is_whitespace()).unwrap_or(part.len());
        let url = format!("{}://{}", &out[scheme..], &part[..end]);
        out.truncate(scheme);
        out.push_str(&without_credentials(&url));
        out.push_str(&part[end..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn machine_paths_and_secrets_are_redacted() {
        let folders = vec![("/home/me/bench".to_owned(), "."), ("/home/me".to_owned(), "~")];
        let private = PrivateValues::new(["s3cret-value".to_owned(), "1".to_owned()], folders);
        for (text, redacted) in [
            ("plain 1", "plain 1"),
            ("/home/me/bench/models/x", "./models/x"),
            ("/home/me/bench", "."),
            ("sh /home/me/bench/x.sh && ls /home/me/data", "sh ./x.sh && ls ~/data"),
            ("/data/checkpoints/llama2-70b/", "…/llama2-70b"),
            ("/tmp", "/tmp"),
            ("/opt/x/run --fast", "/opt/x/run --fast"),
            ("--token=s3cret-value", "--token=***"),
            ("https://me:tok@host/x@y", "https://host/x@y"),
            ("a https://tok@h b http://u:p@h/", "a https://h b http://h/"),
            ("ssh://git:pw@host/x", "ssh://git@host/x"),
            ("clone 'ü:https://tok:@h' https://h?a=b@c", "clone 'ü:https://h' https://h?a=b@c"),
            ("http://u:p@a|http://v:q@b", "http://a|http://b"),
            ("⟦out:clone⟧/examples", "⟦out:clone⟧/examples"),
        ] {
            assert_eq!(private.text(text), redacted);
        }
        let value = json!({"b": ["/a/b/c", 1], "a": {"y": null, "x": "s3cret-value"}});
        assert_eq!(private.value(value).to_string(), r#"{"a":{"x":"***","y":null},"b":["…/c",1]}"#);
    }
}
