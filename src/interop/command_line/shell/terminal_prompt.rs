//! A text as a terminal or a word processor shows it: prompts in front of its lines, other dashes and quotes.

use std::borrow::Cow;

/// The text without the prompts of a terminal; each line stays where it is. `is_program` knows the names of programs.
///
/// A line that begins with `$ `, or with the name of an environment or a host in front of it (`(venv) $ `,
/// `me@host:~$ `), is a command. In a text with such lines a `> ` continues the line before, and where the first line
/// is one, the others are what the commands printed, unless a program is called: they are left out. A `# ` is a
/// comment, unless it is all that the text has: then it is the prompt of a superuser where the name of a program
/// follows.
pub(crate) fn without_prompts<'a>(text: &'a str, is_program: &dyn Fn(&str) -> bool) -> Cow<'a, str> {
    let has_prompts = text.lines().any(|line| behind_prompt(line).is_some());
    let is_comments = !has_prompts && is_comments(text);
    if !has_prompts && !is_comments {
        return Cow::Borrowed(text);
    }
    let mut first_lines = text.lines().skip_while(|line| line.trim().is_empty());
    let has_output = first_lines.next().is_some_and(|line| behind_prompt(line).is_some()) && !text.contains("<<");
    let calls_program = |line: &str| line.split_whitespace().next().is_some_and(is_program);
    let mut open = OpenCommand::default();
    let lines = text.split('\n').map(|line| {
        let command = match behind_prompt(line) {
            Some(command) => command,
            None if open.is_continued && has_prompts => line.trim_start().strip_prefix("> ").unwrap_or(line),
            None if is_comments => superuser_command(line, is_program).unwrap_or(line),
            None if has_output && !(open.is_continued || open.quote.is_some()) && !calls_program(line) => "",
            None => line,
        };
        open.read(command);
        command
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// Of a page in Markdown the blocks of commands; each line stays where it is. A page without one is returned as it is.
pub(crate) fn commands_of_page(text: &str) -> Cow<'_, str> {
    const LANGUAGES: [&str; 7] = ["", "bash", "sh", "zsh", "shell", "console", "shell-session"];
    /// Beginnings of the lines of a tree of files.
    const BRANCHES: [&str; 4] = ["|--", "├", "└", "│"];
    let fence = |line: &str| {
        let language = line.trim_start().strip_prefix("```").filter(|rest| !rest.contains("```"))?;
        Some(language.split_whitespace().next().unwrap_or_default().to_lowercase())
    };
    let (mut is_open, mut is_read, mut has_commands) = (false, false, false);
    let written: Vec<&str> = text.split('\n').collect();
    let lines = written.iter().enumerate().map(|(at, line)| {
        if let Some(language) = fence(line) {
            is_open = !is_open;
            let mut block = written[at + 1..].iter().take_while(|line| fence(line).is_none());
            let is_tree = block.any(|line| BRANCHES.iter().any(|branch| line.trim_start().starts_with(branch)));
            is_read = is_open && LANGUAGES.contains(&&*language) && !is_tree;
            has_commands |= is_read;
            return "";
        }
        if is_read { line } else { "" }
    });
    let commands = lines.collect::<Vec<_>>().join("\n");
    if has_commands { Cow::Owned(commands) } else { Cow::Borrowed(text) }
}

/// Whether a command continues after the lines that were read.
#[derive(Default)]
struct OpenCommand {
    is_continued: bool,
    /// In a quote of this kind.
    quote: Option<char>,
}

impl OpenCommand {
    fn read(&mut self, line: &str) {
        for c in line.chars() {
            match self.quote {
                Some(open) if open == c => self.quote = None,
                None if c == '\'' || c == '"' => self.quote = Some(c),
                _ => {}
            }
        }
        self.is_continued = line.trim_end().ends_with('\\');
    }
}

/// The text after the prompt of a line that has one.
fn behind_prompt(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some((name, behind)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(") ")) {
        if !is_name(name) {
            return None;
        }
        rest = behind.trim_start();
    }
    if let Some(command) = rest.strip_prefix("$ ") {
        return Some(command.trim_start());
    }
    // `me@host:~/folder$ `, `root@host:/# `
    let is_end = |end: &&str| rest.split_once(end).is_some_and(|(host, _)| !host.contains(char::is_whitespace));
    let (host, command) = rest.split_once(["$ ", "# "].into_iter().find(is_end)?)?;
    let (user, machine) = host.split_once('@')?;
    let machine = machine.split(':').next().unwrap_or_default();
    (is_name(user) && is_name(machine)).then(|| command.trim_start())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Whether each of its lines is a comment, or continues one.
fn is_comments(text: &str) -> bool {
    let mut is_continued = false;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    lines.peek().is_some()
        && lines.all(|line| {
            let is_comment = is_continued || line.trim_start().starts_with('#');
            is_continued = is_comment && line.trim_end().ends_with('\\');
            is_comment
        })
}

fn superuser_command<'a>(line: &'a str, is_program: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    let command = line.trim_start().strip_prefix("# ")?;
    command.split_whitespace().next().filter(|name| is_program(name)).map(|_| command)
}

/// A text as it was before a word processor changed its dashes and quotes. Where other quotes are left, it changed
/// none.
pub(crate) fn as_typed(text: &str) -> String {
    const DASHES: [char; 4] = ['-', '–', '—', '−'];
    let word = |word: &str| match word.trim_start_matches(DASHES) {
        rest if rest.starts_with(char::is_alphabetic) && !word[..word.len() - rest.len()].is_ascii() => {
            format!("--{rest}")
        }
        _ => word.to_owned(),
    };
    let text: String = text.split_inclusive(char::is_whitespace).map(word).collect();
    if text.contains(['"', '\'']) { text } else { text.replace(['“', '”'], "\"").replace(['‘', '’'], "'") }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{as_typed, without_prompts};

    fn read(text: &str) -> String {
        without_prompts(text, &|name| name == "aiperf").into_owned()
    }

    #[test]
    fn of_a_page_its_blocks_of_commands_are_read() {
        let page = "# Start\nIt's `x`:\n```bash\nvllm serve m\n```\nthen\n```json\n{}\n```\n";
        assert_eq!(super::commands_of_page(page), "\n\n\nvllm serve m\n\n\n\n\n\n");
        let tree = "```\nrepository\n|-- config.pbtxt\n```\n```\nvllm serve m\n```\n";
        assert_eq!(super::commands_of_page(tree), "\n\n\n\n\nvllm serve m\n\n");
        assert_eq!(super::commands_of_page("echo '```'\n"), "echo '```'\n");
    }

    #[test]
    fn dashes_and_quotes_of_a_word_processor_are_those_of_a_keyboard() {
        for (text, typed) in [
            ("a —model m –-port 8 -–x “b c” ‘d’", "a --model m --port 8 --x \"b c\" 'd'"),
            ("a --model m - 'it’s — so'", "a --model m - 'it’s — so'"),
            ("curl -d '{\"p\": \"“x”\"}'", "curl -d '{\"p\": \"“x”\"}'"),
        ] {
            assert_eq!(as_typed(text), typed);
        }
    }

    #[test]
    fn prompts_of_users_are_taken_away_with_those_of_continued_lines() {
        assert_eq!(read("$ a \\\n> --b\nc > d"), "a \\\n--b\n");
        assert_eq!(read("$ a '{\n  x\n}'\n1,2\naiperf b"), "a '{\n  x\n}'\n\naiperf b");
        assert_eq!(read("(venv) $ a\n(base) me@host-1:~/x$ b\nroot@7f3a:/workspace# c"), "a\nb\nc");
    }

    #[test]
    fn a_comment_is_a_command_only_in_a_text_without_other_lines() {
        assert_eq!(read("# aiperf profile \\\n  --model m\n"), "aiperf profile \\\n  --model m\n");
        for text in ["# aiperf profile\nvllm serve m", "# aiperfs\n", "a \\\n> log", "a $ b", "x=(1 2) $ y", ""] {
            assert_eq!(read(text), text);
        }
    }
}
