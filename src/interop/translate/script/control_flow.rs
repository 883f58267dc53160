//! Conditions and loops: those whose values the text has are read as a shell runs them, the others once, which is
//! reported. And the words of a shell that set variables: `read`, `set --`, `shift`, `let`.

use super::Script;
use crate::command_line::{UntranslatedOption, WrittenCommand, positional};
use crate::translate::loops::{FollowedLoop, MOST_VALUES, OPENING, end_of_loop, followed_loop, read_values, test};

const NOT_FOLLOWED: &str =
    "loops and conditions are not followed, their commands are read once: `foreach` and `when` of a stage do that";
/// Of a loop whose benchmark has a parameter for each of them.
pub(super) const UNKNOWN_VALUES: &str =
    "the values of the loop are not in the text, its commands are read once: `foreach` of a stage repeats them";

/// How a command leaves the commands around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    Turn,
    Loop,
    Function,
    Script,
}

impl Script {
    /// Reads a condition or a loop that begins with the first of these commands, whose text is expanded; the number of
    /// commands that it has. None where it is another command, or the text does not have its values.
    pub(super) fn followed(&mut self, text: &str, commands: &[WrittenCommand], depth: usize) -> Option<usize> {
        /// Loops in loops of more than these are not followed.
        const DEEPEST: usize = 8;
        if depth >= DEEPEST {
            return None;
        }
        if let Some(holds) =
            test(text).filter(|_| !commands.get(1).is_some_and(WrittenCommand::is_conditional_compound))
        {
            return Some(1 + self.guarded(holds, &commands[1..], depth));
        }
        if let Some((branch, length)) = self.branch(commands) {
            self.all(&branch, depth + 1);
            return Some(length + 1);
        }
        let followed = followed_loop(text, commands, &mut |end| self.here_document(end));
        if let Some(FollowedLoop { names, rows, length }) = followed {
            self.repeat("loop", &names, &rows, &commands[1..length], depth + 1);
            return Some(length + 1);
        }
        let head = commands[0].text.strip_prefix("while ")?;
        let length = end_of_loop(commands)?;
        let mut holds = test(&self.variables.expand(head))?;
        for _ in 0..MOST_VALUES {
            if !holds {
                break;
            }
            self.all(&commands[1..length], depth + 1);
            holds = !self.is_loop_left() && test(&self.variables.expand(head)) == Some(true);
        }
        Some(length + 1)
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
                    self.command(command, depth);
                    holds = true;
                }
            })
            .count()
    }

    /// Reads commands once for each row of values of some variables.
    pub(super) fn repeat(
        &mut self,
        around: &str,
        names: &[String],
        rows: &[Vec<String>],
        commands: &[WrittenCommand],
        depth: usize,
    ) {
        let (variables, axes) = (names.join("`, `"), names.join(": […], "));
        let times = rows.len();
        self.builder.note(format!(
            "the {around} over `{variables}` is written out, {times} times; `foreach: {{ {axes}: […] }}` of a stage \
            does that in one"
        ));
        for row in rows {
            for (name, value) in names.iter().zip(row) {
                self.variables.set(name, value);
            }
            self.all(commands, depth);
            if self.is_loop_left() {
                break;
            }
        }
    }

    /// Whether the turn that ended was the last one of its loop.
    fn is_loop_left(&mut self) -> bool {
        let left = self.left.take_if(|left| matches!(left, Leaving::Turn | Leaving::Loop));
        left == Some(Leaving::Loop) || self.left.is_some()
    }

    /// The commands that an `if` runs, and where its `fi` is; none where the text does not have the values of its
    /// conditions.
    fn branch(&mut self, commands: &[WrittenCommand]) -> Option<(Vec<WrittenCommand>, usize)> {
        let (mut open, mut is_run, mut is_decided, mut branch) = (0_usize, false, false, Vec::new());
        for (at, command) in commands.iter().enumerate() {
            let opening = |word: &&str| ["then", "do", "{"].contains(word);
            let first = command.text.split_whitespace().find(|word| !opening(word)).unwrap_or_default();
            match (first, open) {
                ("if", 0) | ("elif", 1) => {
                    open = 1;
                    // A condition of several tests is not read.
                    commands.get(at + 1).filter(|next| next.behind.is_empty())?;
                    let (_, head) = command.text.split_once(first)?;
                    is_run = !is_decided && test(&self.variables.expand(head))?;
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
            if rest.is_some() {
                is_run = !is_decided;
            }
            if is_run {
                let text = rest.unwrap_or(&command.text).trim().to_owned();
                branch.push(WrittenCommand { text, ..command.clone() });
            }
        }
        None
    }

    /// Words of the shell in front of a command: what is behind them is read, once.
    pub(super) fn keywords(&mut self, place: &str, words: &mut Vec<String>) {
        const HEADS: [&str; 10] = ["for", "while", "until", "if", "elif", "case", "select", "[", "[[", "test"];
        const CLOSING: [&str; 4] = ["done", "fi", "esac", "}"];
        let is_around = |word: &String| OPENING.contains(&&**word) || CLOSING.contains(&&**word);
        let count = words.iter().take_while(|word| is_around(word)).count();
        for word in words.drain(..count) {
            self.conditions = self.conditions.saturating_sub(usize::from(["fi", "esac"].contains(&&*word)));
            self.loops = self.loops.saturating_sub(usize::from(word == "done"));
        }
        let Some(first) = words.first().map(String::as_str).filter(|first| HEADS.contains(first)) else { return };
        self.conditions += usize::from(["if", "case"].contains(&first));
        self.loops += usize::from(["for", "while", "until", "select"].contains(&first));
        let reason = if first == "for" { UNKNOWN_VALUES } else { NOT_FOLLOWED };
        self.not_followed.push(UntranslatedOption::new(format!("{place}: {}", words.join(" ")), reason));
        words.clear();
    }

    /// Does what a word of the shell's own does to variables and to the commands around it; whether it was one.
    pub(super) fn shell_word(&mut self, place: &str, command: &WrittenCommand, words: &[String]) -> bool {
        let is_certain = self.conditions + self.loops == 0 && !self.is_chained;
        if words.iter().take(2).any(|word| word == "read") {
            return self.read(command, words);
        }
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["set", "--", ..] => drop(self.variables.swap_positional(positional(&words[2..]))),
            ["shift", count @ ..] if is_certain => {
                self.variables.shift(count.first().and_then(|count| count.parse().ok()).unwrap_or(1));
            }
            ["continue", ..] if is_certain => self.left = Some(Leaving::Turn),
            ["break", ..] if is_certain => self.left = Some(Leaving::Loop),
            ["return", ..] if is_certain => self.left = Some(Leaving::Function),
            ["exit", ..] if is_certain => self.left = Some(Leaving::Script),
            ["let", assignments @ ..] => assignments.iter().for_each(|text| self.arithmetic(place, text)),
            [first, ..] if first.starts_with("((") => {
                let text = words.join(" ");
                self.arithmetic(place, text.trim_start_matches('(').trim_end_matches(')'));
            }
            _ => return false,
        }
        true
    }

    /// `read A B <<< "$TEXT"`; whether it was one.
    fn read(&mut self, command: &WrittenCommand, words: &[String]) -> bool {
        let document = command.here_string.as_ref().map(|text| self.variables.expand(text));
        let document = document.and_then(|text| shlex::split(&text)).map(|parts| parts.join(" "));
        let Some((names, rows)) = document.and_then(|document| read_values(words, &document)) else { return false };
        for (name, value) in names.iter().zip(rows.iter().flatten()) {
            self.set(name, value, "");
        }
        true
    }

    /// `NAME=SUM`, `NAME+=SUM`, `NAME++` of `((…))` and `let`.
    fn arithmetic(&mut self, place: &str, text: &str) {
        let text = text.trim();
        let (name, sum) = match text.strip_suffix("++").or(text.strip_suffix("--")) {
            Some(name) => (name, format!("{name} {} 1", &text[text.len() - 1..])),
            None => match text.split_once('=') {
                Some((name, sum)) => match name.strip_suffix(['+', '-', '*', '/', '%']) {
                    Some(plain) => (plain, format!("{plain} {} ({sum})", &name[name.len() - 1..])),
                    None => (name, sum.to_owned()),
                },
                None => ("", String::new()),
            },
        };
        if base::units::is_identifier(name.trim()) {
            let value = self.variables.expand(&format!("$(({sum}))"));
            self.set(name.trim(), &value, "");
        } else {
            let reason = "this arithmetic is not read: write the values in its place";
            self.not_followed.push(UntranslatedOption::new(format!("{place}: (({text}))"), reason));
        }
    }
}
