//! Text → commands: what stands between `&&`, `||`, `;`, `|`, `&` and the ends of lines. Quoted texts and
//! substitutions (`"…"`, `` `…` ``, `$( … )`, `${ … }`) stay whole.

use base::units::is_identifier;

/// A command as it was written, without comments and redirections, its continued lines joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenCommand {
    /// The line of its first character, from 1.
    pub line: usize,
    pub text: String,
    /// `&&` or `||`, where it depends on the command in front of it; `|`, where it reads what that prints.
    pub behind: &'static str,
    /// The file that its output is redirected to.
    pub written_to: Option<String>,
    /// At the end of that file: `>>`.
    pub is_appended: bool,
    /// Its input stands in the text: `<< EOF`.
    pub has_here_document: bool,
    /// That text, as it stands.
    pub here_document: String,
    /// Its input as it is written: `<<< "$TEXT"`.
    pub here_string: Option<String>,
    /// Between parentheses: it leaves no more than them.
    pub is_in_subshell: bool,
    /// Its variables stay as they are: `<< 'EOF'`.
    pub is_literal: bool,
    /// Of the first command of an arm of a `case`: `--a|--b`.
    pub pattern: String,
}

impl WrittenCommand {
    /// A group, a condition or a loop that runs only after the command before it.
    pub fn is_conditional_compound(&self) -> bool {
        !self.behind.is_empty() && ["{", "if ", "for ", "while ", "case "].iter().any(|it| self.text.starts_with(it))
    }
}

/// The commands of a text; on error the line in which a quote begins that is not closed.
pub(crate) fn split(text: &str) -> Result<Vec<WrittenCommand>, usize> {
    let mut splitter = Splitter { chars: text.chars().collect(), ..Splitter::default() };
    splitter.line = 1;
    while splitter.at < splitter.chars.len() {
        splitter.step()?;
    }
    splitter.end();
    Ok(splitter.commands)
}

#[derive(Default)]
struct Splitter {
    chars: Vec<char>,
    at: usize,
    line: usize,
    current: WrittenCommand,
    commands: Vec<WrittenCommand>,
    /// `&&`, `||` or `|`, where it was the last thing in front of the next command.
    behind: &'static str,
    /// How many parentheses of subshells are open.
    open: usize,
    /// Words that end here-documents which begin behind this line.
    here_documents: Vec<String>,
}

impl Splitter {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn push(&mut self, c: char) {
        if self.current.text.is_empty() {
            self.current.line = self.line;
        }
        self.current.text.push(c);
    }

    /// Takes `count` characters as they are.
    fn take(&mut self, count: usize) {
        for _ in 0..count {
            let Some(c) = self.peek(0) else { return };
            self.push(c);
            if c == '\n' {
                self.line += 1;
            }
            self.at += 1;
        }
    }

    fn end(&mut self) {
        let command = std::mem::take(&mut self.current);
        let text = command.text.trim();
        if text.is_empty() {
            self.current.pattern = command.pattern;
        } else {
            let behind = std::mem::take(&mut self.behind);
            let is_in_subshell = self.open > 0;
            self.commands.push(WrittenCommand { text: text.to_owned(), behind, is_in_subshell, ..command });
        }
    }

    fn step(&mut self) -> Result<(), usize> {
        let Some(c) = self.peek(0) else { return Ok(()) };
        match c {
            '\\' if self.end_of_blanks(self.at + 1).is_some() => self.continued_line(),
            // Of PowerShell and of Windows' command prompt.
            '`' | '^' if self.is_behind_blank() && self.end_of_blanks(self.at + 1).is_some() => self.continued_line(),
            '[' if self.peek(1) == Some('[')
                && self.is_behind_blank()
                && let Some(length) = self.condition() =>
            {
                self.take(length);
            }
            '\\' => self.take(2),
            '\'' | '"' | '`' => return self.part(quoted(&self.chars[self.at..])),
            '$' if self.peek(1) == Some('(') => return self.part(substitution(&self.chars[self.at..])),
            '$' if self.peek(1) == Some('{') => self.take(substitution(&self.chars[self.at..]).unwrap_or(1)),
            '#' if self.is_behind_blank() => {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            }
            '<' if let Some(length) = placeholder(&self.chars[self.at..]) => self.take(length),
            '<' if let Some(length) = self.fetched_script() => {
                self.push('\'');
                self.take(length);
                self.push('\'');
            }
            // A file with what a command prints: unknown, as what stands in `$( … )`.
            '<' if self.peek(1) == Some('(') => {
                self.chars[self.at] = '$';
                return self.part(substitution(&self.chars[self.at..]));
            }
            '<' | '>' => self.redirection(),
            '&' if self.peek(1) == Some('>') => {
                self.at += 1;
                self.redirection();
            }
            '\n' => {
                self.end();
                self.at += 1;
                self.line += 1;
                self.skip_here_documents();
            }
            '(' if self.is_array() || self.peek(1) == Some('(') => self.array()?,
            '(' if self.is_definition() => {
                self.current.text.truncate(self.current.text.trim_end().len());
                self.take(2);
            }
            ')' if self.open == 0 && !is_case(&self.current.text) => self.pattern(),
            ';' | '&' | '|' | '(' | ')' => {
                self.end();
                self.open = (self.open + usize::from(c == '(')).saturating_sub(usize::from(c == ')'));
                self.behind = match (c, self.peek(1)) {
                    ('&', Some('&')) => "&&",
                    ('|', Some('|')) => "||",
                    ('|', _) => "|",
                    _ => "",
                };
                self.at += self.behind.len().max(1);
            }
            _ if self.current.text.is_empty() && c.is_whitespace() => self.at += 1,
            c => {
                self.push(c);
                self.at += 1;
            }
        }
        Ok(())
    }

    /// `PATTERN | PATTERN)` of a `case`, in front of a command or of nothing.
    fn pattern(&mut self) {
        let WrittenCommand { text: mut pattern, pattern: mut empty, .. } = std::mem::take(&mut self.current);
        while self.behind == "|" && self.commands.last().is_some_and(|it| !is_case(&it.text)) {
            let Some(alternative) = self.commands.pop() else { break };
            pattern = format!("{}|{pattern}", alternative.text);
            (self.behind, empty) = (alternative.behind, alternative.pattern);
        }
        // An arm without commands.
        if !empty.is_empty() {
            self.commands.push(WrittenCommand { text: ":".to_owned(), pattern: empty, ..WrittenCommand::default() });
        }
        match self.commands.last_mut() {
            Some(head) if self.behind == "|" => head.text = format!("{}|{pattern}", head.text),
            _ => self.current.pattern = pattern,
        }
        self.behind = "";
        self.at += 1;
    }

    fn is_behind_blank(&self) -> bool {
        self.current.text.chars().next_back().is_none_or(char::is_whitespace)
    }

    /// How many characters the `<(curl …)` of `bash <(curl …)` has.
    fn fetched_script(&self) -> Option<usize> {
        let is_of_shell = ["bash", "sh"].contains(&self.current.text.rsplit(['/', ' ']).nth(1)?);
        let line = self.chars[self.at..].split(|c| *c == '\n').next()?;
        let begins = is_of_shell && line.starts_with(&['<', '(']) && !line.contains(&'\'');
        if begins { line.iter().position(|c| *c == ')').map(|at| at + 1) } else { None }
    }

    /// How many characters `[[ … ]]` has, in which operators are not those of commands.
    fn condition(&self) -> Option<usize> {
        let line = self.chars[self.at..].split(|c| *c == '\n').next()?;
        line.windows(2).position(|pair| pair == [']', ']']).map(|at| at + 2)
    }

    /// The end of the line, where nothing but blanks is in front of it from there on.
    fn end_of_blanks(&self, from: usize) -> Option<usize> {
        let blanks = self.chars.get(from..)?.iter().take_while(|c| matches!(c, ' ' | '\t' | '\r')).count();
        (self.chars.get(from + blanks) == Some(&'\n')).then_some(from + blanks)
    }

    /// Joins the next line. Pages have blanks after the backslash, and comments between options: neither ends a command
    /// here.
    fn continued_line(&mut self) {
        self.push(' ');
        let Some(end) = self.end_of_blanks(self.at + 1) else { return };
        self.at = end + 1;
        self.line += 1;
        while let Some(length) = self.comment_before_option() {
            self.at += length;
            self.line += 1;
        }
    }

    /// The length of a line that is a comment in front of a line with an option or another comment.
    fn comment_before_option(&self) -> Option<usize> {
        let rest = self.chars.get(self.at..)?;
        let mut lines = rest.split_inclusive(|c| *c == '\n');
        let begin = |line: &[char]| line.iter().copied().find(|c| !c.is_whitespace());
        let comment = lines.next().filter(|line| begin(line) == Some('#'))?;
        let next = lines.find(|line| begin(line) != Some('#'))?;
        (begin(next) == Some('-')).then_some(comment.len())
    }

    /// Takes a part whose length is known; none: it is not closed.
    fn part(&mut self, length: Option<usize>) -> Result<(), usize> {
        self.take(length.ok_or(self.line)?);
        Ok(())
    }

    /// Whether `NAME=` is in front.
    fn is_array(&self) -> bool {
        let word = self.current.text.rsplit(char::is_whitespace).next().unwrap_or_default();
        let name = word.strip_suffix('=').unwrap_or_default();
        is_identifier(name.strip_suffix('+').unwrap_or(name))
    }

    /// Whether `NAME` is in front, and `()` follows.
    fn is_definition(&self) -> bool {
        let name = self.current.text.trim();
        self.peek(1) == Some(')') && is_identifier(name.strip_prefix("function ").unwrap_or(name).trim())
    }

    /// `( … )` of an array, over several lines, too, or `(( … ))`.
    fn array(&mut self) -> Result<(), usize> {
        let begun = self.line;
        self.take(1);
        let mut open = 1_usize;
        loop {
            match self.peek(0) {
                None => return Err(begun),
                Some('\'' | '"' | '`') => self.part(quoted(&self.chars[self.at..]))?,
                Some('$') if self.peek(1) == Some('(') => self.part(substitution(&self.chars[self.at..]))?,
                Some(c) => {
                    self.take(1);
                    open = open + usize::from(c == '(') - usize::from(c == ')');
                    if open == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Leaves out the operator, the number in front of it and the file behind it.
    fn redirection(&mut self) {
        let digits = self.current.text.len() - self.current.text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let kept = self.current.text.len() - digits;
        if digits > 0 && self.current.text[..kept].ends_with(char::is_whitespace) {
            self.current.text.truncate(kept);
        }
        let is_output = self.peek(0) == Some('>')
            && self.peek(1) != Some('&')
            && !self.chars[..self.at].ends_with(&['2'])
            && !self.chars[..self.at].ends_with(&['&']);
        let is_appended = self.peek(1) == Some('>');
        let is_string = self.chars[self.at..].starts_with(&['<', '<', '<']);
        let is_here = !is_string && self.chars[self.at..].starts_with(&['<', '<']);
        while matches!(self.peek(0), Some('<' | '>' | '&' | '-')) {
            self.at += 1;
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let begun = self.at;
        while let Some(c) = self.peek(0).filter(|c| !c.is_whitespace() && !";&|()<>".contains(*c)) {
            let rest = &self.chars[self.at..];
            let length = if matches!(c, '\'' | '"' | '`') { quoted(rest) } else { substitution(rest) };
            self.at += length.unwrap_or(1);
        }
        self.at = self.at.min(self.chars.len());
        if is_output && begun < self.at {
            let word: String = self.chars[begun..self.at].iter().filter(|c| !"'\"".contains(**c)).collect();
            self.current.written_to = Some(word);
            self.current.is_appended = is_appended;
        }
        if is_string {
            self.current.here_string = Some(self.chars[begun..self.at].iter().collect());
        }
        if is_here {
            let word: String = self.chars[begun..self.at].iter().filter(|c| !"'\"\\".contains(**c)).collect();
            self.current.is_literal = word.chars().count() < self.at - begun;
            self.here_documents.push(word);
            self.current.has_here_document = true;
        }
    }

    fn skip_here_documents(&mut self) {
        for word in std::mem::take(&mut self.here_documents) {
            while self.at < self.chars.len() {
                let begun = self.at;
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
                let line: String = self.chars[begun..self.at].iter().collect();
                self.at += 1;
                self.line += 1;
                if line.trim_start_matches('\t') == word {
                    break;
                }
                if let Some(command) = self.commands.iter_mut().rfind(|command| command.has_here_document) {
                    command.here_document.push_str(&line);
                    command.here_document.push('\n');
                }
            }
        }
    }
}

/// Whether a text begins with the head of a `case`.
fn is_case(text: &str) -> bool {
    text.split_whitespace().find(|word| !["do", "then", "else", "{"].contains(word)) == Some("case")
}

/// How many characters a page's placeholder has: `<model dir>`, `</path/to/engines>`, `<>`. A redirection has a file
/// behind its `<`, and what follows is no `>` right behind a word.
pub(super) fn placeholder(text: &[char]) -> Option<usize> {
    /// A longer text between `<` and `>` is not a placeholder.
    const LONGEST: usize = 80;
    if text.first() != Some(&'<') {
        return None;
    }
    let end = text.iter().take(LONGEST).position(|c| *c == '>')?;
    let inner = &text[1..end];
    let is_name = inner.iter().all(|c| c.is_alphanumeric() || " _-./:'|,".contains(*c));
    let begins = inner.first().is_none_or(|c| c.is_alphabetic() || *c == '/');
    let ends = inner.last().is_none_or(|c| !c.is_whitespace());
    (is_name && begins && ends).then_some(end + 1)
}

/// How many characters a page's placeholder in brackets has, which is all of an option's value: `--model [model_name]`.
/// `before` is the text in front of it.
pub(super) fn bracketed(text: &[char], before: &str) -> Option<usize> {
    let is_value = before.ends_with('=') || before.trim_end().rsplit(' ').next()?.starts_with("--");
    let inner = text.strip_prefix(&['['])?.iter().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(**c));
    let length = inner.count() + 2;
    let ends = text.get(length).is_none_or(|c| c.is_whitespace());
    let begins = text.get(1).is_some_and(char::is_ascii_alphabetic) && before.ends_with([' ', '=']);
    (is_value && begins && ends && length > 4 && text.get(length - 1) == Some(&']')).then_some(length)
}

/// Substitutions inside each other, more than these, are not read.
const DEEPEST: usize = 32;

/// How many characters the substitution at the beginning of a text has; `None` if the text does not begin with one, or
/// it is not closed.
pub(super) fn substitution(text: &[char]) -> Option<usize> {
    nested(text, 0)
}

/// How many characters a quoted text has, with its quotes; none where the quote is not closed.
pub(super) fn quoted(text: &[char]) -> Option<usize> {
    quoted_at(text, 0)
}

fn nested(text: &[char], depth: usize) -> Option<usize> {
    let (close, mut at) = match text {
        ['$', '(', ..] => (')', 2),
        ['$', '{', ..] => ('}', 2),
        ['`', ..] => ('`', 1),
        _ => return None,
    };
    let mut open = 0_usize;
    while let Some(&c) = text.get(at).filter(|_| depth <= DEEPEST) {
        at += match c {
            '\\' => 2,
            _ if c == close && open == 0 => return Some(at + 1),
            // Everything up to the next backquote is the command.
            _ if close == '`' => 1,
            '$' if !is_opening(text, at) => 1,
            '$' | '`' => nested(&text[at..], depth + 1)?,
            '"' => quoted_at(&text[at..], depth + 1)?,
            '\'' if close == ')' => quoted_at(&text[at..], depth + 1)?,
            '\'' if close == '}' && matches!(text[at - 1], '-' | '=') => quoted_default(&text[at..]).unwrap_or(1),
            _ => {
                open += usize::from(close == ')' && c == '(');
                open -= usize::from(c == close);
                1
            }
        };
    }
    None
}

/// How many characters the `'TEXT'` of `${NAME:-'TEXT'}` has. In double quotes a `'` is a character.
fn quoted_default(text: &[char]) -> Option<usize> {
    let end = text.iter().skip(1).position(|c| *c == '\'')? + 2;
    (text.get(end) == Some(&'}') && !text[..end].contains(&'\n')).then_some(end)
}

/// Whether the `$` at this place begins a substitution. One that is not closed makes the whole text unreadable:
/// trying again behind each of them would take longer with every level.
fn is_opening(text: &[char], at: usize) -> bool {
    matches!(text.get(at + 1), Some('(' | '{'))
}

fn quoted_at(text: &[char], depth: usize) -> Option<usize> {
    let quote = *text.first()?;
    if quote == '`' {
        return nested(text, depth);
    }
    let mut at = 1;
    while let Some(&c) = text.get(at) {
        at += match c {
            _ if c == quote => return Some(at + 1),
            '\\' if quote == '"' => 2,
            '$' if quote == '"' && is_opening(text, at) => nested(&text[at..], depth + 1)?,
            '`' if quote == '"' => nested(&text[at..], depth + 1)?,
            _ => 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::split;
    use super::*;
    use pretty_assertions::assert_eq;

    fn texts(text: &str) -> Vec<(usize, String)> {
        split(text).expect("quotes are closed").into_iter().map(|command| (command.line, command.text)).collect()
    }

    fn one(line: usize, text: &str) -> (usize, String) {
        (line, text.to_owned())
    }

    #[test]
    fn commands_end_at_operators_and_lines_and_not_in_quotes() {
        assert_eq!(
            texts("make a && make b; c 'x && y' \"z; $(p; q)\" | d &\n# a comment\ne \\\n  --f g # behind\n"),
            [
                one(1, "make a"),
                one(1, "make b"),
                one(1, "c 'x && y' \"z; $(p; q)\""),
                one(1, "d"),
                one(3, "e    --f g"),
            ]
        );
    }

    #[test]
    fn redirections_and_here_documents_are_left_out_and_placeholders_stay() {
        assert_eq!(
            texts(
                "a 2>&1 >log.txt b < in\ncat <<'EOF' > file\n c && d\nEOF\ne --dataset <dataset path> --dir <> -v \
                    </path/to/x>:/y &> all\n"
            ),
            [one(1, "a   b"), one(2, "cat"), one(5, "e --dataset <dataset path> --dir <> -v </path/to/x>:/y")]
        );
    }

    #[test]
    fn what_a_command_prints_as_a_file_stays_whole() {
        assert_eq!(
            texts("a --b <(c < d | e) f\ng -t h < <(i j)\n"),
            [one(1, "a --b $(c < d | e) f"), one(2, "g -t h $(i j)")]
        );
    }

    #[test]
    fn a_placeholder_in_brackets_is_all_of_an_options_value() {
        let length = |text: &str, before: &str| bracketed(&text.chars().collect::<Vec<_>>(), before);
        assert_eq!(length("[model_name] --c", "a --model "), Some(12));
        assert_eq!(length("[result]", "a --out="), Some(8));
        for (text, before) in [
            ("[x] b", "--a "),
            ("[ -f x ]", "--a "),
            ("[abc]d", "--a "),
            ("[::1]", "--a "),
            ("[abc]", "a "),
            ("[abc", "--a "),
        ] {
            assert_eq!(length(text, before), None, "{before}{text}");
        }
    }

    #[test]
    fn a_continued_line_goes_on_behind_blanks_and_comments() {
        assert_eq!(texts("a --b \\  \n  # why\n  --c \\\n# end\nd"), [one(1, "a --b    --c"), one(5, "d")]);
    }

    #[test]
    fn patterns_of_a_case_are_no_commands_and_arithmetic_stays_whole() {
        assert_eq!(
            texts("case $M in\n  llama) A=8 ;;\n  *) A=1 ;;\nesac\n(b; c)\nfor ((i=0; i<3; i++)); do d; done"),
            [
                one(1, "case $M in"),
                one(2, "A=8"),
                one(3, "A=1"),
                one(4, "esac"),
                one(5, "b"),
                one(5, "c"),
                one(6, "for ((i=0; i<3; i++))"),
                one(6, "do d"),
                one(6, "done"),
            ]
        );
    }

    #[test]
    fn a_condition_stays_whole_and_lines_go_on_as_in_other_shells() {
        assert_eq!(
            texts("if [[ $A == 1 && ( $B == 2 || $C ) ]]; then d; fi"),
            [one(1, "if [[ $A == 1 && ( $B == 2 || $C ) ]]"), one(1, "then d"), one(1, "fi")]
        );
        assert_eq!(texts("a `\n  --b `\r\n  --c\nd ^\n  --e"), [one(1, "a    --b    --c"), one(4, "d    --e")]);
        assert_eq!(texts("A=`b\n c`\nd"), [one(1, "A=`b\n c`"), one(3, "d")]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_reported_with_its_line() {
        assert_eq!(split("a\nb 'c\n"), Err(2));
        assert_eq!(split("a $(b"), Err(1));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_splitting_panic_or_adds_a_letter(text in "[a-z<>&|;()'\"`$#\\\\ \n0-9-]{0,60}") {
            if let Ok(commands) = split(&text) {
                let texts = commands.iter().flat_map(|command| command.text.chars());
                let letters: usize = texts.filter(char::is_ascii_lowercase).count();
                proptest::prop_assert!(letters <= text.chars().filter(char::is_ascii_lowercase).count());
            }
        }
    }

    #[test]
    fn a_substitution_ends_behind_what_is_nested_in_it() {
        for (text, expected) in [
            ("$(a b | c) d", "$(a b | c)"),
            ("$(a $(b \")\") `c )`) d", "$(a $(b \")\") `c )`)"),
            ("$((A*(B+1))) d", "$((A*(B+1)))"),
            ("${A:-$(b \"}\")} d", "${A:-$(b \"}\")}"),
            ("${A:-don't} d", "${A:-don't}"),
            ("`a 'b` c", "`a 'b`"),
            ("$(cd \"$(dirname \"$0\")\" && pwd)/x", "$(cd \"$(dirname \"$0\")\" && pwd)"),
        ] {
            let chars: Vec<char> = text.chars().collect();
            let length = substitution(&chars).expect(text);
            assert_eq!(chars[..length].iter().collect::<String>(), expected);
        }
        for open in ["$(a", "${a", "`a", "a", "$a", "$(a 'b)"] {
            assert_eq!(substitution(&open.chars().collect::<Vec<_>>()), None, "{open}");
        }
    }

    #[test]
    fn substitutions_in_each_other_stay_bounded() {
        let deep: Vec<char> = "\"$(".repeat(50_000).chars().collect();
        assert_eq!(quoted(&deep), None);
    }
}
