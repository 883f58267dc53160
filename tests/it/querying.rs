//! The chapter on asking a server, read line by line and held against a real one.

use std::path::Path;
use std::process::Stdio;

use crate::triton::{all_up, repository};
use crate::tritonserver::RealTriton;
use crate::world::World;

/// A command of the chapter and what it says that is printed: stdout, then stderr.
struct Shown {
    words: Vec<String>,
    printed: Vec<String>,
    line: usize,
}

fn chapter() -> Vec<Shown> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual/guides/query-triton.md");
    let text = std::fs::read_to_string(path).expect("the chapter");
    let mut shown: Vec<Shown> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ regatta ").filter(|_| inside) {
            shown.push(Shown { words: words(command), printed: Vec::new(), line: index + 1 });
        } else if inside {
            shown.last_mut().expect("a command before its output").printed.push(line.to_owned());
        }
    }
    shown
}

/// Words as a shell would make them: `'…'` and `"…"` hold spaces.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut any) = (Vec::new(), String::new(), None, false);
    for c in command.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            None if matches!(c, '\'' | '"') => (quote, any) = (Some(c), true),
            None if c == ' ' => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            _ => word.push(c),
        }
    }
    words.push(word);
    words
}

/// `[..]` is any text within a line; a line `...` is any lines.
fn same(expected: &[String], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line == "..." => (0..=found.len()).any(|skipped| same(rest, &found[skipped..])),
        Some((line, rest)) => found.split_first().is_some_and(|(first, found)| fits(line, first) && same(rest, found)),
    }
}

fn fits(pattern: &str, line: &str) -> bool {
    match pattern.split_once("[..]") {
        None => pattern == line,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|line| {
            line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| fits(after, &line[at..]))
        }),
    }
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn the_chapter_on_asking_a_server_is_true() {
    let folder = repository(&["echo", "counter"]);
    let words = ["--model-control-mode=explicit", "--load-model=*"];
    let server = all_up(RealTriton::ready(&folder.path().join("models"), &words).await).await;
    let ports = [server.endpoint.http.unwrap(), server.endpoint.grpc, server.endpoint.metrics.unwrap()];
    let port = |text: &str| {
        let mut text = text.to_owned();
        for (usual, real) in [8000, 8001, 8002].iter().zip(ports) {
            text = text.replace(&format!("localhost:{usual}"), &format!("localhost:{real}"));
            text = text.replace(&format!("port {usual} "), &format!("port {real} "));
        }
        text
    };
    let world = World::new();
    let chapter = chapter();
    assert!(chapter.len() > 5, "{} commands", chapter.len());
    for shown in chapter {
        let words: Vec<String> = shown.words.iter().map(|word| port(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = tokio::process::Command::from(world.command(&words));
        let ended = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().await.expect("regatta");
        let all = format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let mut expected: Vec<String> = shown.printed.iter().map(|line| port(line)).collect();
        // `? 1`: the exit code, where it is not 0.
        let code = match expected.first().and_then(|line| line.strip_prefix("? ")?.parse().ok()) {
            Some(code) => {
                expected.remove(0);
                code
            }
            None => 0,
        };
        while expected.last().is_some_and(String::is_empty) {
            expected.pop();
        }
        let found: Vec<&str> = all.lines().map(str::trim_end).collect();
        assert!(
            ended.status.code() == Some(code) && same(&expected, &found),
            "line {}: {:?} ended with {:?} and printed\n{all}\nnot\n{}",
            shown.line,
            words,
            ended.status.code(),
            expected.join("\n")
        );
    }
}
