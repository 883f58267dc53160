//! Loops of a shell: over values that the text has, and those that only wait; arrays of such values; and how long a
//! script waits before its first measurement.

use crate::command_line::{
    ELEMENT_BLANK, TranslatedBench, Translation, TranslationBuilder, WrittenCommand, base, sequence,
};
use base::units::{is_identifier, parse_duration};

/// Words of the shell that a command may follow.
pub(super) const OPENING: [&str; 5] = ["do", "then", "else", "{", "!"];
/// A loop over more values is not written out.
pub(super) const MOST_VALUES: usize = 64;

/// A loop whose values the text has.
pub(super) struct FollowedLoop {
    pub names: Vec<String>,
    /// The values of these variables, each time.
    pub rows: Vec<Vec<String>>,
    /// How many commands after the first one its `done` is.
    pub length: usize,
}

/// The loop that begins with the first of some commands, whose text is expanded.
pub(super) fn followed_loop(
    text: &str,
    commands: &[WrittenCommand],
    here_document: &mut dyn FnMut(&WrittenCommand) -> String,
) -> Option<FollowedLoop> {
    let length = end_of_compound(commands)?;
    let (names, rows) = if let Some((name, values)) = for_loop(text) {
        (vec![name], values.into_iter().map(|value| vec![value]).collect())
    } else {
        let end = commands.get(length).filter(|end| end.has_here_document)?;
        let words = shlex::split(text.strip_prefix("while ")?)?;
        read_values(&words, &here_document(end))
            .filter(|(_, rows)| !rows.iter().flatten().any(|it| it.contains("{{")))?
    };
    Some(FollowedLoop { names, rows, length })
}

/// The variable and the values of `for NAME in VALUE…` and `for ((…))`, where they are all in the text.
fn for_loop(text: &str) -> Option<(String, Vec<String>)> {
    let words: Vec<String> = shlex::split(text)?.into_iter().skip_while(|word| OPENING.contains(&&**word)).collect();
    if let Some(head) = words.join(" ").strip_prefix("for ((").and_then(|rest| rest.strip_suffix("))")) {
        return counted(&head.replace(' ', ""));
    }
    let [first, name, between, values @ ..] = words.as_slice() else { return None };
    if first != "for" || between != "in" || values.is_empty() {
        return None;
    }
    let joined = values.join(" ");
    let values = match braces(values) {
        Some(numbers) => numbers,
        None if joined.contains(['$', '`', '*', '{']) => return None,
        None => values.to_vec(),
    };
    (values.len() <= MOST_VALUES).then(|| (name.clone(), values))
}

/// The variables of `IFS=, read -r NAME…`, and their values in each line of what it reads; `-a NAME` takes all of it.
pub(super) fn read_values(words: &[String], document: &str) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let separator = words.first().and_then(|word| word.strip_prefix("IFS="));
    // `$'\t'` without its quotes.
    let separator = separator.map(|separator| separator.replace("\\t", "\t").replace("\\n", "\n"));
    let separator = separator.as_deref();
    let (read, words) = words[usize::from(separator.is_some())..].split_first()?;
    let (options, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with('-'));
    let is_list = options.iter().any(|option| option.contains('a'));
    let is_separator = |c: char| separator.map_or(c.is_whitespace(), |separator| separator.contains(c));
    let values = |line: &str| {
        let mut rest = line.trim();
        if is_list {
            return vec![rest.split(is_separator).collect::<Vec<_>>().join(" ")];
        }
        let mut values = Vec::new();
        for _ in 1..names.len() {
            let (value, behind) = rest.split_once(is_separator).unwrap_or((rest, ""));
            values.push(value.to_owned());
            // Several blanks are one, several commas are not.
            rest = if separator.is_none() { behind.trim_start() } else { behind };
        }
        values.push(rest.to_owned());
        values
    };
    let rows: Vec<Vec<String>> = document.lines().filter(|line| !line.trim().is_empty()).map(values).collect();
    let has_names = read == "read" && !names.is_empty() && names.iter().all(|name| is_identifier(name));
    let is_followed = has_names && (1..=MOST_VALUES).contains(&rows.len());
    is_followed.then(|| (names.into_iter().cloned().collect(), rows))
}

/// The numbers of the tasks of `--array=0-3`, `1,4,8` or `0-15:4%2`.
pub(super) fn array_tasks(array: &str) -> Option<Vec<String>> {
    let numbers = array.split_once('%').map_or(array, |(numbers, _)| numbers);
    let mut tasks = Vec::new();
    for part in numbers.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        tasks.extend(sequence(&format!("{first} {step} {last}"))?);
    }
    (1..=MOST_VALUES).contains(&tasks.len()).then_some(tasks)
}

/// The variable and its values in `N=1;N<=8;N*=2`.
fn counted(head: &str) -> Option<(String, Vec<String>)> {
    let [first, condition, step]: [&str; 3] = head.split(';').collect::<Vec<_>>().try_into().ok()?;
    let (name, first) = first.split_once('=')?;
    let limit = condition.strip_prefix(name)?;
    let last = match limit.strip_prefix("<=") {
        Some(last) => last.parse::<u64>().ok()?,
        None => limit.strip_prefix('<')?.parse::<u64>().ok()?.checked_sub(1)?,
    };
    let step = step.replace(name, "");
    let (factor, addend) = match step.split_at_checked(2)? {
        ("++", "") => (1, 1),
        ("+=", by) => (1, by.parse().ok()?),
        ("*=", by) => (by.parse().ok()?, 0),
        _ => return None,
    };
    let next = |value: &u64| value.checked_mul(factor)?.checked_add(addend);
    let values = std::iter::successors(first.parse().ok(), next).take_while(|value| *value <= last);
    let values: Vec<String> = values.take(MOST_VALUES + 1).map(|value| value.to_string()).collect();
    (!values.is_empty() && values.len() <= MOST_VALUES).then(|| (name.to_owned(), values))
}

/// `{1..8}`, `{1..9..2}` and `{1,8,64}`.
fn braces(values: &[String]) -> Option<Vec<String>> {
    let [value] = values else { return None };
    let inner = value.strip_prefix('{')?.strip_suffix('}')?;
    if inner.contains(['{', '}', '$']) {
        return None;
    }
    match inner.split("..").collect::<Vec<_>>().as_slice() {
        [first, last] => sequence(&format!("{first} {last}")),
        [first, last, step] => sequence(&format!("{first} {step} {last}")),
        [list] if list.contains(',') => Some(list.split(',').map(str::to_owned).collect()),
        _ => None,
    }
}

/// How many commands after the first one a loop ends that only waits: `until curl …/ready; do sleep 1; done`.
pub(super) fn waiting_loop(commands: &[WrittenCommand]) -> Option<usize> {
    const WAITS: [&str; 10] = ["curl", "wget", "nc", "grep", "sleep", "echo", "true", "[", "[[", "test"];
    let first = commands.first()?.text.trim_start_matches("do ");
    if !first.starts_with("until ") && !first.starts_with("while ") {
        return None;
    }
    let length = end_of_compound(commands)?;
    let mut programs = commands[..length].iter().filter_map(|command| {
        command.text.split_whitespace().find(|word| !["until", "while", "do", "!"].contains(word))
    });
    programs.all(|program| WAITS.contains(&program)).then_some(length)
}

/// How long a script waits before its first measurement, in seconds: for the server, perhaps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wait(u64);

impl Wait {
    /// The wait of a command that does nothing else: `sleep 60`, `timeout 600 bash -c 'until …; do …; done'`.
    pub fn read(&mut self, words: &[String], translation: &mut Translation, is_first: bool) {
        if translation.tool != "waiting" {
            return;
        }
        let is_limit = |word: &&String| ["sleep", "timeout"].contains(&base(word));
        let seconds = words.iter().skip_while(|word| !is_limit(word)).nth(1);
        let length = |word: &String| {
            let in_units = || parse_duration(word).ok().map(|length| length.as_secs_f64());
            word.parse::<f64>().ok().or_else(in_units).filter(|length| (0.0..1e6).contains(length))
        };
        self.lengthen(seconds.and_then(length).map(|length| length.ceil() as u64), is_first);
        translation.untranslated.retain(|option| !option.argument.starts_with("timeout "));
    }

    /// For so many seconds, or as long as it takes. Behind a measurement its server is up.
    pub fn lengthen(&mut self, seconds: Option<u64>, is_first: bool) {
        const AS_LONG_AS_IT_TAKES: u64 = 600;
        if is_first {
            self.0 = self.0.max(seconds.unwrap_or(AS_LONG_AS_IT_TAKES));
        }
    }

    /// Lets a measurement of a server that the script does not start wait for it, too.
    pub fn put_into(self, bench: &mut TranslatedBench, builder: &mut TranslationBuilder) {
        const OPTION: &str = "--ready-timeout";
        if self.0 > 0 && bench.value(OPTION).is_none() {
            let time = format!("{}s", self.0);
            builder.note(format!("the script waits before it measures: `{OPTION} {time}` also waits for the server"));
            bench.args.extend([OPTION.to_owned(), time]);
        }
    }
}

/// The place of the command that ends a group, a condition or a loop, which the first of them begins.
pub(super) fn end_of_compound(commands: &[WrittenCommand]) -> Option<usize> {
    let (mut open, mut behind) = (0_usize, 0);
    commands.iter().enumerate().position(|(at, command)| {
        // A function has braces of its own.
        if open > 0
            && let Some((.., length)) = function(&commands[at..])
        {
            behind = behind.max(at + length + 1);
        }
        if at < behind {
            return false;
        }
        for word in command.text.split_whitespace() {
            match word {
                "{" => open += 1,
                "}" | "fi" | "done" | "esac" => open = open.saturating_sub(1),
                "do" | "then" | "else" => {}
                word => {
                    open += usize::from(["if", "for", "while", "until", "select", "case"].contains(&word));
                    break;
                }
            }
        }
        open == 0
    })
}

/// A function that is defined here: its name, its commands, and how many commands after the first one it ends.
pub(super) fn function(commands: &[WrittenCommand]) -> Option<(String, Vec<WrittenCommand>, usize)> {
    let first = commands.first()?;
    let text = first.text.strip_prefix("function ").unwrap_or(&first.text).trim_start();
    let (name, rest) = match text.split_once("()") {
        Some((name, rest)) => (name, rest),
        None if first.text.starts_with("function ") => text.split_once(char::is_whitespace).unwrap_or((text, "")),
        None => return None,
    };
    let rest = rest.trim_start();
    let begin = usize::from(rest.is_empty());
    let opened = if begin == 0 { rest } else { commands.get(1)?.text.as_str() };
    let mut body =
        vec![WrittenCommand { text: opened.strip_prefix('{')?.trim().to_owned(), ..commands[begin].clone() }];
    let mut open = 1_usize;
    for (at, command) in commands.iter().enumerate().skip(begin + 1) {
        match command.text.split_whitespace().find(|word| *word == "{" || !OPENING.contains(word)) {
            Some("{") => open += 1,
            Some("}") => open -= 1,
            _ => {}
        }
        if open == 0 {
            body.retain(|command| !command.text.is_empty());
            return is_identifier(name.trim()).then(|| (name.trim().to_owned(), body, at));
        }
        body.push(command.clone());
    }
    None
}

/// Whether `[ A -gt B ]`, `[[ A == B ]]` or `test …` holds; none where the text does not have the values.
pub(super) fn test(text: &str) -> Option<bool> {
    let words = shlex::split(text).filter(|_| !text.contains("{{"))?;
    let is_opening = |word: &&str| *word != "!" && OPENING.contains(word);
    let words: Vec<&str> = words.iter().map(String::as_str).skip_while(is_opening).collect();
    let (["[", inner @ .., "]"] | ["[[", inner @ .., "]]"] | ["test", inner @ ..]) = words.as_slice() else {
        return None;
    };
    match *inner {
        ["-z", text] => Some(text.is_empty()),
        ["-n", text] => Some(!text.is_empty()),
        [_, _, other] if other.contains(['*', '?', '[', '(']) => None,
        [one, "=" | "==", other] => Some(one == other),
        [one, "!=", other] => Some(one != other),
        [one, operator, other] => {
            let order = one.parse::<i64>().ok()?.cmp(&other.parse().ok()?);
            match operator {
                "-gt" => Some(order.is_gt()),
                "-ge" => Some(order.is_ge()),
                "-lt" => Some(order.is_lt()),
                "-le" => Some(order.is_le()),
                "-eq" => Some(order.is_eq()),
                "-ne" => Some(order.is_ne()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `NAME=(VALUE …)`, with its values behind each other, and `NAME=([KEY]=VALUE …)`.
pub(super) fn array(text: &str) -> Option<(&str, String)> {
    let text = ["export ", "declare -a ", "declare -A ", "local -a ", "local -A ", "local ", "readonly "]
        .iter()
        .find_map(|word| text.strip_prefix(word))
        .unwrap_or(text);
    let (name, rest) = text.split_once("=(")?;
    let is_name = is_identifier(name.trim_end_matches('+'));
    let values = shlex::split(rest.strip_suffix(')')?)?;
    let joined = |value: &String| value.replace(char::is_whitespace, ELEMENT_BLANK);
    is_name.then(|| (name, values.iter().map(joined).collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_commands_and_an_end() {
        let read = |text: &str| {
            let commands = crate::command_line::split(text).expect("quotes are closed");
            let (name, body, end) = function(&commands)?;
            let body: Vec<String> = body.into_iter().map(|command| command.text).collect();
            Some((name, body.join("; "), commands[end..].len()))
        };
        let expected = |name: &str, body: &str, rest: usize| Some((name.to_owned(), body.to_owned(), rest));
        assert_eq!(read("f() {\n  a 1\n  { b; }\n}\nf x\n"), expected("f", "a 1; { b; }", 2));
        assert_eq!(read("function f { a; if b; then { c; }; fi; }"), expected("f", "a; if b; then { c; }; fi", 1));
        assert_eq!(read("function f()\n{\na\n}\n"), expected("f", "a", 1));
        for other in ["f() {\na\n", "f x", "python -c 'print()'", "f() ( a )"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn values_of_a_loop_are_those_that_the_shell_would_count() {
        let values = |text: &str| for_loop(text).map(|(_, values)| values.join(" "));
        for (text, expected) in [
            ("for c in 1 8 64", Some("1 8 64")),
            ("for c in {1..3}", Some("1 2 3")),
            ("for c in {1..7..3}", Some("1 4 7")),
            ("for c in {1,8}", Some("1 8")),
            ("do for c in 1 8", Some("1 8")),
            ("for (( c=1; c<=8; c*=2 ))", Some("1 2 4 8")),
            ("for ((c = 0; c < 3; c++))", Some("0 1 2")),
            ("for ((c=4; c<=12; c+=4))", Some("4 8 12")),
            ("for ((c=1; c<=$N; c++))", None),
            ("for ((c=1; c<=900; c++))", None),
            ("for ((;;))", None),
            ("for c in {{list}}", None),
            ("for f in *.json", None),
        ] {
            assert_eq!(values(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn lines_of_a_document_and_tasks_of_an_array_are_values_of_a_loop() {
        let read = |text: &str, document: &str| {
            let (names, rows) = read_values(&shlex::split(text)?, document)?;
            Some((names.join(" "), rows.iter().map(|row| row.join("|")).collect::<Vec<_>>().join("; ")))
        };
        let expected = |names: &str, rows: &str| Some((names.to_owned(), rows.to_owned()));
        assert_eq!(read("read -r rate n", "1   100\n\n2 200 x\n"), expected("rate n", "1|100; 2|200 x"));
        assert_eq!(read("IFS=, read -r a b c", "1,,3\n4\n"), expected("a b c", "1||3; 4||"));
        assert_eq!(read("IFS=/ read -ra x", "1/2"), expected("x", "1 2"));
        for (text, document) in [("read -r", "1"), ("read x", ""), ("true", "1")] {
            assert_eq!(read(text, document), None, "{text}");
        }
        let tasks = |array: &str| array_tasks(array).map(|tasks| tasks.join(" "));
        assert_eq!(tasks("0-3%2").as_deref(), Some("0 1 2 3"));
        assert_eq!(tasks("1,4-6,8-16:4").as_deref(), Some("1 4 5 6 8 12 16"));
        for other in ["{{n}}", "0-99", "3-1"] {
            assert_eq!(tasks(other), None, "{other}");
        }
    }
}
