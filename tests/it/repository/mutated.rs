//! One small edit each to a good config.pbtxt: our verdict beside the real server's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use regatta::diag::Severity;
use regatta::triton::TritonClient;
use regatta::triton::repository::check;
use serde::Deserialize;

use super::{golden, program, same_as_golden};
use crate::tritonserver::RealTriton;

/// One line of `edits.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    name: String,
    of: String,
    #[serde(default)]
    replace: indexmap::IndexMap<String, String>,
    #[serde(default)]
    append: String,
    text: Option<String>,
    remove: Option<String>,
    make: Option<String>,
    /// What becomes of a server that tries it: it is not tried again in every test.
    server: Option<String>,
    /// Why we refuse what the server takes.
    why: Option<String>,
}

fn base(of: &str, folder: &Path) {
    fs::create_dir_all(folder.join("1")).expect("a model");
    fs::copy(golden(&format!("base/{of}/config.pbtxt")), folder.join("config.pbtxt")).expect("a config");
    if of != "chain" {
        fs::write(folder.join("1/model.py"), program()).expect("a program");
    }
}

fn make(edit: &Edit, folder: &Path) {
    base(&edit.of, folder);
    let config = folder.join("config.pbtxt");
    let mut text = fs::read_to_string(&config).expect("the base");
    for (from, to) in &edit.replace {
        assert!(text.contains(from.as_str()), "{}: `{from}` is not in the base", edit.name);
        text = text.replacen(from.as_str(), to, 1);
    }
    if !edit.append.is_empty() {
        text.push_str(&edit.append);
        text.push('\n');
    }
    let text = edit.text.clone().unwrap_or(text);
    let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
    fs::write(&config, text.replace(&format!("name: \"{}\"", edit.of), &format!("name: \"{name}\"")))
        .expect("a config");
    if let Some(path) = edit.remove.as_ref().map(|name| folder.join(name)) {
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
    }
    if let Some(path) = edit.make.as_ref().map(|name| folder.join(name)) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, program()).expect("a program");
    }
}

/// What the server wrote about a model that is not in its index, without the clock and the folder.
fn reason(log: &str, name: &str, repository: &Path) -> String {
    let quoted = format!("'{name}'");
    let about = |line: &&str| {
        line.starts_with('E')
            && (line.contains(&quoted) || line.contains(&format!(" {name}, ")) || line.contains(&format!(" {name} ")))
    };
    let lines: Vec<&str> = log.lines().collect();
    let at = lines.iter().position(about).unwrap_or_default();
    let parser = lines.get(at.wrapping_sub(1)).and_then(|line| line.split_once("inference.ModelConfig: "));
    if let Some((_, message)) = parser.filter(|_| lines[at].contains("failed to read text proto")) {
        return message.to_owned();
    }
    let line = lines[at];
    let message = line.split_once("] \"").map_or(line, |(_, message)| message.trim_end_matches('"'));
    let message = message
        .split_once("Poll failed for model directory ")
        .map_or(message, |(_, message)| message.split_once(": ").map_or(message, |(_, message)| message));
    message.replace(&format!("{}/", repository.display()), "").replace(name, "it")
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn what_the_real_server_refuses_is_refused_here_and_the_rest_has_its_reason() {
    let text = fs::read_to_string(golden("mutated/edits.yaml")).expect("the edits");
    let edits: Vec<Edit> = serde_yaml::from_str(&text).expect("edits");
    let folder = tempfile::tempdir().expect("a folder");
    let (tried, untried) = (folder.path().join("tried"), folder.path().join("untried"));
    for repository in [&tried, &untried] {
        for member in ["split", "join"] {
            base(member, &repository.join(member));
        }
    }
    for edit in &edits {
        make(edit, &if edit.server.is_none() { &tried } else { &untried }.join(&edit.name));
    }
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    for repository in [&tried, &untried] {
        for one in check(repository, None, Some(0)).expect("a verdict").found.sorted() {
            let path = one.primary.as_ref().map_or(one.message.as_str(), |label| label.span.source().name());
            let relative = path.strip_prefix(&format!("{}/", repository.display())).expect("a model");
            let model = relative.split('/').next().expect("a model").to_owned();
            let message = one.message.replace(&format!("{}/", repository.display()), "");
            if one.severity == Severity::Error {
                refused.entry(model).or_insert(message);
            }
        }
    }
    let server = RealTriton::ready(&tried, &["--exit-on-error=false", "--strict-readiness=false"]).await;
    let client = TritonClient::connect(&server.endpoint).await.expect("a client");
    let index: BTreeMap<String, (String, String)> = client
        .repository_index(false)
        .await
        .expect("an index")
        .into_iter()
        .map(|model| (model.name, (model.state, model.reason)))
        .collect();
    let log = server.log_text();
    drop(server);
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for edit in &edits {
        let ours = refused.get(&edit.name);
        let theirs = match (&edit.server, index.get(&edit.name)) {
            (Some(fate), _) => Some(format!("(the server {fate})")),
            (None, Some((state, _))) if state == "READY" => None,
            (None, Some((_, message))) if !message.is_empty() => {
                Some(message.replace(&edit.name, "it").replace(&format!("{}/", tried.display()), ""))
            }
            // A config that cannot be read is in the index with nothing but its name.
            (None, _) => Some(reason(&log, &edit.name, &tried)),
        };
        let problem = match (ours, &theirs) {
            (None, Some(_)) => Some("the server refuses it, and the check accepts it"),
            (Some(_), None) if edit.why.is_none() => {
                Some("the check refuses what the server takes, and nobody says why")
            }
            (None, None) | (Some(_), Some(_)) if edit.why.is_some() => Some("its `why` has no use"),
            _ => None,
        };
        if let Some(problem) = problem {
            wrong.push(format!("{}: {problem}\n  ours: {ours:?}\n  theirs: {theirs:?}", edit.name));
        }
        let _ = writeln!(table, "{}", edit.name);
        let _ = writeln!(table, "  check   {}", ours.map_or("accepts", String::as_str));
        let _ = writeln!(table, "  server  {}", theirs.as_deref().unwrap_or("loads"));
        if let Some(why) = &edit.why {
            let _ = writeln!(table, "  why     {why}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!table.contains("server  \n"), "a reason of the server was not found in its log");
    same_as_golden("mutated/verdicts.txt", &table);
}
