//! What must not get into a file that people commit or publish: secrets, and the machine's own paths.

use serde_json::Value;

use base::units::without_credentials;

/// A shorter one would hide text that only looks like it.
const SHORTEST: usize = 4;

/// Knows the values that must not leave this machine.
#[derive(Clone, Debug, Default)]
pub struct PrivateValues {
    secrets: Vec<String>,
    /// Folder → what stands for it.
    folders: Vec<(String, &'static str)>,
    /// Paths below these folders that parameters and arguments have.
    given_paths: Vec<String>,
}

impl PrivateValues {
    /// `secrets`: values; `folders`: absolute paths and what stands for each, the most special one first.
    pub fn new(secrets: impl IntoIterator<Item = String>, folders: Vec<(String, &'static str)>) -> Self {
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).collect();
        let folders = folders.into_iter().filter(|(folder, _)| folder.len() > 1).collect();
        Self { secrets, folders, given_paths: Vec::new() }
    }

    /// With the paths in `text`, the value of a parameter or an argument, that begin with one of the folders.
    /// `folders`: only those that these stand for; empty: all.
    pub fn give(&mut self, text: &str, folders: &[&str]) {
        for (folder, _) in self.folders.iter().filter(|(_, instead)| folders.is_empty() || folders.contains(instead)) {
            for at in paths_below(text, folder) {
                let end = text[at..].find(ends_argument).map_or(text.len(), |length| at + length);
                self.given_paths.push(text[at..end].to_owned());
            }
        }
    }

    /// A text without them: only the last name of an absolute path is kept.
    pub fn text(&self, text: &str) -> String {
        self.redact(text, |_| true)
    }

    /// The same of a text in a manifest. Its own absolute paths are the same on every machine, also those that are
    /// below a folder of this one: only what a parameter or an argument gave is replaced.
    pub fn manifest_text(&self, text: &str) -> String {
        self.redact(text, |path| self.given_paths.iter().any(|given| path.starts_with(given.as_str())))
    }

    fn redact(&self, text: &str, is_of_machine: impl Fn(&str) -> bool) -> String {
        let mut text = redacted(text, &self.secrets);
        if text.contains("://") {
            text = without_credentials_in(&text);
        }
        for (folder, instead) in &self.folders {
            // Most texts contain no path and are not copied.
            if let Some(shorter) = replaced(&text, folder, instead, &is_of_machine) {
                text = shorter;
            }
        }
        let is_path = text.starts_with('/') && !text.contains(char::is_whitespace);
        match text.trim_end_matches('/').rsplit_once('/') {
            Some((above, name)) if is_path && !above.is_empty() => format!("…/{name}"),
            _ => text,
        }
    }

    /// The same for every text in a value; fields sorted by name.
    pub fn value(&self, value: Value) -> Value {
        each_text(value, &|text| self.text(text))
    }

    /// The same of a manifest's value.
    pub fn manifest_value(&self, value: Value) -> Value {
        each_text(value, &|text| self.manifest_text(text))
    }
}

fn each_text(value: Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(items) => items.into_iter().map(|item| each_text(item, change)).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> =
                fields.into_iter().map(|(name, value)| (name, each_text(value, change))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        other => other,
    }
}

/// `None`: no path in the text begins with the folder and is one that has to be replaced.
fn replaced(text: &str, folder: &str, instead: &str, is_of_machine: impl Fn(&str) -> bool) -> Option<String> {
    let mut out = String::new();
    let mut end = 0;
    for at in paths_below(text, folder).filter(|at| is_of_machine(&text[*at..])) {
        out.push_str(&text[end..at]);
        out.push_str(instead);
        end = at + folder.len();
    }
    (end > 0).then(|| out + &text[end..])
}

/// Where in the text a path begins that is the folder or below it.
fn paths_below<'a>(text: &'a str, folder: &'a str) -> impl Iterator<Item = usize> + 'a {
    let occurrences = text.match_indices(folder).map(|(at, _)| at);
    occurrences.filter(move |at| begins_path(&text[..*at]) && ends_name(&text[at + folder.len()..]))
}

fn ends_name(after: &str) -> bool {
    !after.starts_with(|c: char| c.is_alphanumeric() || "._-+~%".contains(c))
}

fn ends_argument(c: char) -> bool {
    c.is_whitespace() || "'\":,;".contains(c)
}

/// Whether a path can begin after this text, and it is not the beginning of that path.
fn begins_path(before: &str) -> bool {
    let Some(last) = before.chars().next_back() else { return true };
    if last == '"' || last == '\'' {
        // Behind a closing one the path goes on: `"$FOLDER"/file`.
        let outside = before[..before.len() - 1].chars().next_back();
        return outside.is_none_or(|c| c.is_whitespace() || "=:,;([{<>|&@\"'".contains(c));
    }
    let argument = before.rsplit(|c: char| ends_argument(c) || c == '=').next().unwrap_or_default();
    let is_url = argument == "//" && before.ends_with("://");
    let is_option = argument.starts_with('-') && !argument.contains(['/', '⟧', '$']);
    is_url || is_option || !(last.is_alphanumeric() || "/._-~+%$})]*?`\\⟧".contains(last))
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

// Replaces secret values in a stream of bytes, also where a value is cut in two by a chunk border.

const STARS: &[u8] = b"***";

/// Bytes in, bytes out, no secret among them.
#[derive(Debug)]
pub struct Redactor {
    /// Longest first, so that a secret which contains another is replaced as a whole.
    secrets: Vec<Vec<u8>>,
    buffered: Vec<u8>,
}

impl Redactor {
    pub fn new(secrets: &[String]) -> Self {
        let mut secrets: Vec<Vec<u8>> =
            secrets.iter().filter(|secret| !secret.is_empty()).map(|secret| secret.clone().into_bytes()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets, buffered: Vec::new() }
    }

    /// What may be written now. The end of the chunk is held back while it could be the start of a secret.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.buffered.extend_from_slice(chunk);
        self.take(false)
    }

    /// The rest: no more bytes will come.
    pub fn finish(&mut self) -> Vec<u8> {
        self.take(true)
    }

    fn take(&mut self, last: bool) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.buffered);
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            // A longer secret that may still be completed by the next chunk goes before a shorter one that is complete.
            if !last && self.secrets.iter().any(|secret| secret.len() > rest.len() && secret.starts_with(rest)) {
                self.buffered = rest.to_vec();
                break;
            }
            if let Some(secret) = self.secrets.iter().find(|secret| rest.starts_with(secret)) {
                out.extend_from_slice(STARS);
                at += secret.len();
            } else {
                out.push(rest[0]);
                at += 1;
            }
        }
        out
    }
}

/// A text without secret values.
pub fn redacted(text: &str, secrets: &[String]) -> String {
    if !secrets.iter().any(|secret| text.contains(secret.as_str())) {
        return text.to_owned();
    }
    let mut redactor = Redactor::new(secrets);
    let mut bytes = redactor.push(text.as_bytes());
    bytes.extend(redactor.finish());
    String::from_utf8_lossy(&bytes).into_owned()
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
            ("⟦out:clone⟧/home/me/f /opt/home/me/x", "⟦out:clone⟧/home/me/f /opt/home/me/x"),
            ("cp \"$A\"/home/me/f $B/home/me/f", "cp \"$A\"/home/me/f $B/home/me/f"),
            ("cd /home/me/bench && ls '/home/me/a b' /home/me.old", "cd . && ls '~/a b' /home/me.old"),
            ("cc -I/home/me/bench/include --out=/home/me/x", "cc -I./include --out=~/x"),
            ("curl -d @/home/me/x file:///home/me/y", "curl -d @~/x file://~/y"),
        ] {
            assert_eq!(private.text(text), redacted);
        }
        let value = json!({"b": ["/a/b/c", 1], "a": {"y": null, "x": "s3cret-value"}});
        assert_eq!(private.value(value).to_string(), r#"{"a":{"x":"***","y":null},"b":["…/c",1]}"#);
    }

    #[test]
    fn of_a_manifest_only_given_paths_are_shortened() {
        let folders = vec![("/root/bench".to_owned(), "."), ("/root".to_owned(), "~")];
        let mut private = PrivateValues::new([], folders);
        private.give("model=/root/models/llama", &[]);
        private.give("/root/bench/data", &["."]);
        private.give("/root/shared", &["."]);
        for (text, redacted) in [
            ("run -v /var/cache/hf:/root/.cache/huggingface", "run -v /var/cache/hf:/root/.cache/huggingface"),
            ("cat /root/models/llama/f /root/models/x", "cat ~/models/llama/f /root/models/x"),
            ("cat '/root/bench/data/f' /root/bench/x", "cat './data/f' /root/bench/x"),
            ("/root/models/llama", "~/models/llama"),
            ("/root/shared", "…/shared"),
        ] {
            assert_eq!(private.manifest_text(text), redacted);
        }
        assert_eq!(private.manifest_value(json!({"a": ["/root/shared"]})), json!({"a": ["…/shared"]}));
    }
}

#[cfg(test)]
mod redact_tests {
    use proptest::prelude::*;

    use super::*;

    fn through(secrets: &[&str], chunks: &[&[u8]]) -> Vec<u8> {
        let secrets: Vec<String> = secrets.iter().map(|&secret| secret.to_owned()).collect();
        let mut redactor = Redactor::new(&secrets);
        let mut out: Vec<u8> = chunks.iter().flat_map(|chunk| redactor.push(chunk)).collect();
        out.extend(redactor.finish());
        out
    }

    #[test]
    fn a_secret_across_chunks_is_found() {
        assert_eq!(through(&["hunter2"], &[b"pw=hun", b"te", b"r2!\n"]), b"pw=***!\n");
        assert_eq!(through(&["ab", "abc"], &[b"xab", b"cab"]), b"x******");
    }

    #[test]
    fn the_start_of_a_secret_is_given_out_when_it_stays_a_start() {
        assert_eq!(through(&["hunter2"], &[b"hun", b"dred"]), b"hundred");
        assert_eq!(through(&["hunter2"], &[b"hun"]), b"hun");
    }

    #[test]
    fn of_a_secret_that_begins_another_no_rest_is_left_in_whatever_order_they_are_named() {
        for secrets in [["tok", "tok-1234"], ["tok-1234", "tok"]] {
            let secrets = secrets.map(str::to_owned);
            assert_eq!(redacted("key=tok-1234 tok ü", &secrets), "key=*** *** ü");
        }
    }

    proptest! {
        #[test]
        fn where_the_chunks_are_cut_makes_no_difference(
            text in "[ab]{0,40}",
            cuts in prop::collection::vec(0_usize..40, 0..5),
        ) {
            let whole = through(&["aba", "bb"], &[text.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(through(&["aba", "bb"], &chunks), whole);
        }
    }
}
