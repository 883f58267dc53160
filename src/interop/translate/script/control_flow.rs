//! Conditions and loops: those whose values the text has are read as a shell runs them, the others once, which is
//! reported. And the words of a shell that set variables: `read`, `set --`, `shift`, `let`.

use super::Script;
use crate::command_line::{UntranslatedOption, WrittenCommand, positional};
use crate::translate::loops::{FollowedLoop, MOST_VALUES, OPENING, end_of_compound, followed_loop, read_values, test};
use base::units::is_identifier;

const NOT_FOLLOWED: &str =
    "loops and conditions are not followed, their commands are read once: `foreach` and `when` of a stage do that";
/// Of a loop whose benchmark has a parameter for each of them.
const UNKNOWN_VALUES: &str = "the values of the loop are not in the text, or are more than 64; its commands \
    are read once: `foreach` of a stage repeats them";

/// Of a word that leaves a loop, or takes arguments away, in a condition that is not followed.
const UNCERTAIN: &str = "whether this happens is known only when the script runs: it is taken not to";

/// How a command leaves the commands around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The turn of the loop that is so many loops further out; 1 is the innermost one.
    Turn(usize),
    Loop(usize),
    Function,
    Script,
}

/// A condition or a loop that is not followed, or a group, and has not ended.
pub(super) struct OpenHead {
    /// Its place among what is not followed; none of a group.
    pub at: Option<usize>,
    pub is_loop: bool,
    /// A group that runs whatever came before it.
    pub is_certain: bool,
}

impl Script {
    /// Reads a condition or a loop that begins with the first of these commands; the number of commands that it has.
    /// None where it is another command, or the text does not have its values.
    pub(super) fn followed(&mut self, text: &str, commands: &[WrittenCommand], depth: usize) -> Option<usize> {
        /// Loops in loops of more than these are not followed.
        const DEEPEST: usize = 8;
        if depth >= DEEPEST {
            return None;
        }
        if let Some(holds) = self.holds(&commands[0].text) {
            return match commands.get(1).filter(|next| next.is_conditional_compound()) {
                None => Some(1 + self.guarded(holds, &commands[1..], depth)),
                Some(next) if holds == (next.behind == "&&") => Some(1),
                Some(_) => Some(2 + end_of_compound(&commands[1..])?),
            };
        }
        if let Some((branch, length)) = self.branch(commands) {
            self.all(&branch, depth + 1);
            return Some(length + 1);
        }
        if let Some((arm, length)) = self.arm(text, commands) {
            self.all(&arm, depth + 1);
            return Some(length + 1);
        }
        let followed = followed_loop(text, commands, &mut |end| self.here_document(end));
        if let Some(FollowedLoop { names, rows, length }) = followed {
            self.note_repeated("loop", &names, rows.len());
            self.turns += 1;
            for row in rows {
                for (name, value) in names.iter().zip(&row) {
                    self.variables.set(name, value);
                }
                self.all(&commands[1..length], depth + 1);
                if self.is_loop_left() {
                    break;
                }
            }
            self.turns -= 1;
            return Some(length + 1);
        }
        self.counted(commands, depth)
    }

    /// `while [ $c -le 8 ]; do …; c=$((c*2)); done`
    fn counted(&mut self, commands: &[WrittenCommand], depth: usize) -> Option<usize> {
        let head = commands[0].text.strip_prefix("while ")?;
        commands.get(1).filter(|next| next.behind.is_empty())?;
        let length = end_of_compound(commands)?;
        let mut holds = Some(self.holds(head)?);
        self.turns += 1;
        for _ in 0..MOST_VALUES {
            if holds != Some(true) {
                break;
            }
            self.all(&commands[1..length], depth + 1);
            holds = if self.is_loop_left() { Some(false) } else { self.holds(head) };
        }
        self.turns -= 1;
        if holds != Some(false) {
            let reason = "the turns of this loop that are known, at most 64, are written out; it has more";
            let option = UntranslatedOption::new(format!("{}: while {head}", self.place(&commands[0])), reason);
            self.not_followed.push(UntranslatedOption { is_workload: true, ..option });
        }
        Some(length + 1)
    }

    /// Whether a test holds; none where it is another command, or the text does not have its values.
    fn holds(&mut self, text: &str) -> Option<bool> {
        let plain = ["do ", "then "].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text).trim();
        if let Some(inner) = plain.strip_prefix("((").and_then(|rest| rest.strip_suffix("))")) {
            let is_comparison = ["==", "!=", "<", ">"].iter().any(|sign| inner.contains(sign)) && !inner.contains("<<");
            let value = is_comparison.then(|| self.variables.expand(&format!("$(({inner}))")))?;
            return value.parse::<i64>().ok().map(|value| value != 0);
        }
        test(&self.variables.expand(text))
    }

    /// Reads what a shell would run behind `[ … ] && COMMAND`; how many commands that are.
    fn guarded(&mut self, mut holds: bool, commands: &[WrittenCommand], depth: usize) -> usize {
        let mut is_run = false;
        let guarded = commands.iter().take_while(|command| !command.behind.is_empty());
        guarded
            .map(|command| {
                // What reads a command's output runs with it.
                is_run = if command.behind == "|" { is_run } else { holds == (command.behind == "&&") };
                if is_run {
                    let next = self.holds(&command.text);
                    if next.is_none() {
                        self.command(command, depth);
                    }
                    holds = next.unwrap_or(true);
                }
            })
            .count()
    }

    pub(super) fn note_repeated(&mut self, around: &str, names: &[String], times: usize) {
        let (variables, axes) = (names.join("`, `"), names.join(": […], "));
        self.builder.note(format!(
            "the {around} over `{variables}` is written out, {times} times; `foreach: {{ {axes}: […] }}` of a stage \
            does that in one"
        ));
    }

    /// Whether the turn that ended was the last one of its loop.
    fn is_loop_left(&mut self) -> bool {
        let left = self.left.take();
        self.left = match left {
            Some(Leaving::Turn(loops @ 2..)) => Some(Leaving::Turn(loops - 1)),
            Some(Leaving::Loop(loops @ 2..)) => Some(Leaving::Loop(loops - 1)),
            Some(Leaving::Turn(_) | Leaving::Loop(_)) => None,
            other => other,
        };
        !matches!(left, None | Some(Leaving::Turn(1)))
    }

    /// The commands that an `if` runs, and where its `fi` is; none where the text does not have the values of its
    /// conditions.
    fn branch(&mut self, commands: &[WrittenCommand]) -> Option<(Vec<WrittenCommand>, usize)> {
        /// A longer condition is not followed.
        const LONGEST: usize = 1000;
        let (mut open, mut is_run, mut is_decided, mut branch) = (0_usize, false, false, Vec::new());
        for (at, command) in commands.iter().enumerate().take(LONGEST) {
            let opening = |word: &&str| ["then", "do", "{"].contains(word);
            let first = command.text.split_whitespace().find(|word| !opening(word)).unwrap_or_default();
            match (first, open) {
                ("if", 0) | ("elif", 1) => {
                    open = 1;
                    // A condition of several tests is not read.
                    commands.get(at + 1).filter(|next| next.behind.is_empty())?;
                    let (_, head) = command.text.split_once(first)?;
                    is_run = !is_decided && self.holds(head)?;
                    is_decided |= is_run;
                    continue;
                }
                (_, 0) => return None,
                ("fi", 1) => return Some((branch, at)),
                ("if", _) => open += 1,
                ("fi", _) => open -= 1,
                _ => {}
            }
            let rest = command.text.strip_prefix("else").filter(|_| open == 1 && first == "else");
            if let Some(rest) = rest {
                is_run = !is_decided;
                open += usize::from(rest.trim_start().starts_with("if "));
            }
            if is_run {
                let text = rest.unwrap_or(&command.text).trim().to_owned();
                branch.push(WrittenCommand { text, ..command.clone() });
            }
        }
        None
    }

    /// The commands of the arm that a `case` runs, and where its `esac` is; none where the word is not in the text,
    /// or a pattern is not read.
    fn arm(&mut self, text: &str, commands: &[WrittenCommand]) -> Option<(Vec<WrittenCommand>, usize)> {
        let head = OPENING.iter().find_map(|word| text.strip_prefix(word)?.strip_prefix(' ')).unwrap_or(text);
        let (word, first) = head.trim_start().strip_prefix("case ")?.split_once(" in")?;
        let word = shlex::split(word).filter(|_| !word.contains("{{"))?.concat();
        let length = end_of_compound(commands)?;
        let (mut open, mut arm, mut is_decided) = (0_usize, Vec::new(), false);
        let mut is_run = !first.trim().is_empty() && matches_pattern(first, &word)?;
        for command in &commands[1..length] {
            if open == 0 && !command.pattern.is_empty() {
                is_decided |= is_run;
                is_run = !is_decided && matches_pattern(&self.variables.expand(&command.pattern), &word)?;
            }
            let first = command.text.split_whitespace().find(|word| !OPENING.contains(word));
            open += usize::from(first == Some("case"));
            open -= usize::from(first == Some("esac"));
            if is_run {
                arm.push(command.clone());
            }
        }
        Some((arm, length))
    }

    /// Words of the shell in front of a command: what is behind them is read, once.
    pub(super) fn keywords(&mut self, place: &str, words: &mut Vec<String>) {
        const HEADS: [&str; 10] = ["for", "while", "until", "if", "elif", "case", "select", "[", "[[", "test"];
        const CLOSING: [&str; 4] = ["done", "fi", "esac", "}"];
        let is_around = |word: &String| OPENING.contains(&&**word) || CLOSING.contains(&&**word);
        let count = words.iter().take_while(|word| is_around(word)).count();
        for word in words.drain(..count) {
            if word == "{" {
                self.open.push(OpenHead { at: None, is_loop: false, is_certain: !self.is_chained });
            } else if CLOSING.contains(&&*word) {
                self.open.pop();
            }
        }
        let Some(first) = words.first().cloned().filter(|first| HEADS.contains(&&**first)) else { return };
        let at = self.not_followed.len();
        let reason = if first == "for" { UNKNOWN_VALUES } else { NOT_FOLLOWED };
        self.not_followed.push(UntranslatedOption::new(format!("{place}: {}", words.join(" ")), reason));
        match first.as_str() {
            "[" | "[[" | "test" => self.guard = Some(at),
            "elif" => {}
            _ => {
                let is_loop = !["if", "case"].contains(&&*first);
                self.open.push(OpenHead { at: Some(at), is_loop, is_certain: false });
            }
        }
        // What they are set to is not known, whatever they were before.
        if first == "for" || first == "select" {
            let name = words.get(1).map_or("", |word| word.trim_start_matches('('));
            self.variables.values.remove(name.split('=').next().unwrap_or_default());
        } else if words.get(1).is_some_and(|word| word == "read") {
            for name in &words[2..] {
                self.variables.values.remove(name);
            }
        }
        words.clear();
    }

    /// What is measured here depends on everything around it that is not followed.
    pub(super) fn mark_uncertain(&mut self) {
        for at in self.open.iter().filter_map(|head| head.at).chain(self.guard) {
            if let Some(head) = self.not_followed.get_mut(at) {
                head.is_workload |= head.why != UNKNOWN_VALUES;
            }
        }
    }

    /// Whether commands read the arguments of the script, which is started without any: `while getopts …`,
    /// `while [ $# -gt 0 ]`.
    pub(super) fn is_reading_arguments(&self) -> bool {
        let heads = self.open.iter().filter(|head| head.is_loop).filter_map(|head| self.not_followed.get(head.at?));
        let signs = ["getopt", "$#", "argument_count", "while true", "while :"];
        heads.into_iter().any(|head| signs.iter().any(|sign| head.argument.contains(sign)))
    }

    /// Does what a word of the shell's own does to variables and to the commands around it; whether it was one.
    pub(super) fn shell_word(&mut self, place: &str, command: &WrittenCommand, words: &[String]) -> bool {
        if words.iter().take(2).any(|word| word == "read") {
            return self.read(command, words);
        }
        let is_certain = !self.is_chained && !command.is_in_subshell && self.open.iter().all(|head| head.is_certain);
        let number = |word: Option<&&str>| word.and_then(|word| word.parse::<usize>().ok()).unwrap_or(1);
        let words_of_it: Vec<&str> = words.iter().map(String::as_str).collect();
        match words_of_it.as_slice() {
            ["let", assignments @ ..] => assignments.iter().for_each(|text| self.arithmetic(place, text)),
            [first, ..] if first.starts_with("((") => {
                let text = words.join(" ");
                self.arithmetic(place, text.trim_start_matches('(').trim_end_matches(')'));
            }
            ["set", "--", ..] if is_certain => drop(self.variables.swap_positional(positional(&words[2..]))),
            ["shift", count @ ..] if is_certain => self.variables.shift(number(count.first())),
            ["continue", count @ ..] if is_certain && self.turns > 0 => {
                self.left = Some(Leaving::Turn(number(count.first()).clamp(1, self.turns)));
            }
            ["break", count @ ..] if is_certain && self.turns > 0 => {
                self.left = Some(Leaving::Loop(number(count.first()).clamp(1, self.turns)));
            }
            ["return", ..] if is_certain => self.left = Some(Leaving::Function),
            // Another code is that of a failure, which an imported script does not have.
            ["exit"] | ["exit", "0"] if is_certain => self.left = Some(Leaving::Script),
            ["continue" | "break", ..] if self.turns == 0 => {}
            ["continue" | "break" | "shift", ..] | ["set", "--", ..] if !self.is_reading_arguments() => {
                let option = UntranslatedOption::new(format!("{place}: {}", words.join(" ")), UNCERTAIN);
                self.not_followed.push(UntranslatedOption { is_workload: true, ..option });
            }
            ["continue" | "break" | "shift", ..] | ["set", "--", ..] => {}
            ["exit" | "return", ..] => {
                self.not_followed.push(UntranslatedOption::new(format!("{place}: {}", words.join(" ")), UNCERTAIN));
            }
            _ => return false,
        }
        true
    }

    /// `read A B <<< "$TEXT"`; whether it was one. What it reads from elsewhere is not known.
    fn read(&mut self, command: &WrittenCommand, words: &[String]) -> bool {
        let document = command.here_string.as_ref().map(|text| self.variables.expand(text));
        let document = document.and_then(|text| shlex::split(&text)).map(|parts| parts.join(" "));
        let Some((names, rows)) = document.and_then(|document| read_values(words, &document)) else {
            for name in words {
                self.variables.values.remove(name);
            }
            return false;
        };
        for (name, value) in names.iter().zip(rows.iter().flatten()) {
            self.set(name, value, "");
        }
        true
    }

    /// `NAME=SUM`, `NAME+=SUM`, `NAME++` and `++NAME` of `((…))` and `let`, with commas between them.
    fn arithmetic(&mut self, place: &str, text: &str) {
        for part in text.split(',').map(str::trim) {
            if let Some((name, sum)) = assigned(part) {
                let value = self.variables.expand(&format!("$(({sum}))"));
                self.set(name, &value, "");
            } else {
                let reason = "this arithmetic is not read: write the values in its place";
                let option = UntranslatedOption::new(format!("{place}: (({part}))"), reason);
                self.not_followed.push(UntranslatedOption { is_workload: true, ..option });
            }
        }
    }
}

/// Whether a word is one of `a|b*|*`; none where a pattern is of a kind that is not read.
fn matches_pattern(patterns: &str, word: &str) -> Option<bool> {
    let mut matches = false;
    for pattern in patterns.split('|').map(|pattern| pattern.trim().trim_matches(['"', '\''])) {
        let (begin, end) = pattern.split_once('*').unwrap_or((pattern, ""));
        let is_read = !pattern.contains(['?', '[', '$', '{', '\\']) && !end.contains('*');
        let is_long = word.len() >= begin.len() + end.len();
        let is_like = pattern.contains('*') && is_long && word.starts_with(begin) && word.ends_with(end);
        matches |= is_read.then_some(is_like || pattern == word)?;
    }
    Some(matches)
}

/// The variable that a part of `((…))` sets, and to what.
fn assigned(part: &str) -> Option<(&str, String)> {
    let step = ["++", "--"].into_iter().find_map(|sign| {
        let name = part.strip_suffix(sign).or_else(|| part.strip_prefix(sign))?.trim();
        Some((name, format!("{name} {} 1", &sign[1..])))
    });
    let (name, sum) = step.or_else(|| {
        let (name, sum) = part.split_once('=').filter(|(_, sum)| !sum.starts_with('='))?;
        Some(match name.strip_suffix(['+', '-', '*', '/', '%']) {
            Some(plain) => (plain.trim(), format!("{plain} {} ({sum})", &name[plain.len()..])),
            None => (name.trim(), sum.to_owned()),
        })
    })?;
    is_identifier(name).then_some((name, sum))
}
