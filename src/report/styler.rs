//! How text looks on a terminal: color, durations, numbers, tables, long lines. Text from outside never brings
//! control codes along.

use anstyle::{AnsiColor, Style};
use base::event::Verdict;
use base::units::is_invisible;
use serde::Serialize;

/// Color, or none; and how wide lines may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Styler {
    on: bool,
    /// Of the terminal, in characters; `None` without a terminal: a file or a pipe gets whole lines.
    width: Option<usize>,
}

base::named! {
    /// What a text is, not how it looks. Serialized as its class on a page.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub enum TextRole {
        Good = "good",
        Bad = "bad",
        Warning = "odd",
        Quiet = "soft",
        Strong = "strong",
        Name = "nw",
        #[default]
        Plain = "",
    }
}

impl From<Verdict> for TextRole {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Valid => Self::Good,
            Verdict::ValidWithWarnings => Self::Warning,
            _ => Self::Bad,
        }
    }
}

impl Styler {
    pub const OFF: Self = Self { on: false, width: None };
    pub const ON: Self = Self { on: true, width: None };

    /// As requested; `Auto` looks at stdout and at the environment (`NO_COLOR` and similar variables).
    pub fn chosen(choice: anstream::ColorChoice) -> Self {
        let on = match choice {
            anstream::ColorChoice::Never => false,
            anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => true,
            anstream::ColorChoice::Auto => {
                anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
            }
        };
        let width = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
        Self { on, width }
    }

    /// This styler on a terminal of another width.
    #[cfg(test)]
    #[must_use]
    pub const fn of_width(self, width: usize) -> Self {
        Self { width: Some(width), ..self }
    }

    /// Of the terminal, in characters.
    pub const fn width(self) -> Option<usize> {
        self.width
    }

    /// Lines that are wider than the terminal, broken.
    pub fn fit(self, text: String) -> String {
        match self.width {
            Some(width) => wrapped(&text, width),
            None => text,
        }
    }

    pub fn tone(self, tone: TextRole, text: impl AsRef<str>) -> String {
        let text = text.as_ref();
        let style = match tone {
            TextRole::Good => AnsiColor::Green.on_default(),
            TextRole::Bad => AnsiColor::Red.on_default().bold(),
            TextRole::Warning => AnsiColor::Yellow.on_default(),
            TextRole::Quiet => Style::new().dimmed(),
            TextRole::Strong => Style::new().bold(),
            TextRole::Name => AnsiColor::Cyan.on_default(),
            TextRole::Plain => Style::new(),
        };
        if self.on && style != Style::new() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// A text from outside, safe to print: escape sequences removed, tabs widened, characters that are not shown as
/// themselves removed or replaced by `·`.
pub fn clean(text: &str) -> String {
    // Most texts, and a plan may have many.
    if !text.contains(is_invisible) {
        return text.to_owned();
    }
    anstream::adapter::strip_str(text)
        .to_string()
        .chars()
        .flat_map(|c| match c {
            '\t' => ['\u{20}'; 4].into_iter().take(4),
            c if is_invisible(c) => ['·'; 4].into_iter().take(1),
            c => [c; 4].into_iter().take(1),
        })
        .collect()
}

/// Like `clean`, for a text of several lines, which stay lines; without the empty end of a script.
pub fn clean_lines(text: &str) -> String {
    text.trim_end().lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// One line of at most `most` characters; `…` marks a cut.
pub fn cut(text: &str, most: usize) -> String {
    let first = clean(text.lines().next().unwrap_or_default());
    if first.chars().count() <= most && text.lines().nth(1).is_none() {
        return first;
    }
    let kept: String = first.chars().take(most.saturating_sub(2)).collect();
    format!("{} …", kept.trim_end())
}

/// `8 ms`, `1.2 s`, `42 s`, `3m 07s`, `2h 05m`.
pub fn duration_text(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".to_owned();
    }
    if seconds < 0.9995 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 9.95 {
        format!("{seconds:.1} s")
    } else if seconds < 59.5 {
        format!("{seconds:.0} s")
    } else if seconds < 3599.5 {
        let whole = seconds.round() as u64;
        format!("{}m {:02}s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{}h {:02}m", minutes / 60, minutes % 60)
    }
}

/// A parameter as a user would type it: a list with commas; nothing for one that was left out.
pub fn as_typed(value: &str) -> Option<String> {
    match serde_json::from_str(value) {
        Ok(serde_json::Value::Null) => None,
        Ok(serde_json::Value::Array(items)) => {
            let text = |item: &serde_json::Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            Some(items.iter().map(text).collect::<Vec<_>>().join(","))
        }
        _ => Some(value.to_owned()),
    }
}

/// An RFC 3339 time without fractions of a second.
pub fn to_the_second(time: &str) -> String {
    match (time.split_once('.'), time.ends_with('Z')) {
        (Some((whole, _)), true) => format!("{whole}Z"),
        _ => time.to_owned(),
    }
}

/// A cell with its role.
type Cell = (TextRole, String);

/// A text of more characters than this is a sentence.
const SENTENCE: usize = 40;

fn is_sentence((_, text): &Cell) -> bool {
    text.chars().count() > SENTENCE
}

/// The last cell with a text.
fn last_of(row: &[Cell]) -> Option<usize> {
    row.iter().rposition(|(_, text)| !text.is_empty())
}

/// Rows of cells under each other, two spaces between columns, `indent` before; numbers end under each other. Widths
/// are counted before painting. A sentence at the end of a row, or anywhere but at its beginning where `is_ragged`,
/// makes no column wider. The last cell of a row that has fewer cells than there are `columns` is as wide as those that
/// are missing.
pub(crate) fn rows_with(
    styler: Styler,
    indent: &str,
    rows: &[Vec<Cell>],
    columns: usize,
    is_ragged: bool,
    is_number: impl Fn(usize) -> bool,
) -> Vec<String> {
    let is_rest = |row: &[Cell], column: usize| row.len() < columns && column + 1 == row.len();
    let may_be_wide = |row: &[Cell], column: usize| {
        let may_be_sentence = if is_ragged { column > 0 } else { Some(column) == last_of(row) };
        is_rest(row, column) || may_be_sentence && is_sentence(&row[column])
    };
    let is_right = |row: &[Cell], column| is_number(column) && !is_rest(row, column);
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (column, (_, text)) in row.iter().enumerate() {
            let width = if may_be_wide(row, column) { 0 } else { text.chars().count() };
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let mut starts = vec![indent.chars().count()];
    for width in &widths {
        starts.push(starts[starts.len() - 1] + width + 2);
    }
    let lines: Vec<String> =
        rows.iter().map(|row| line_of(styler, indent, row, &widths, |column| is_right(row, column))).collect();
    let narrow = styler.width().filter(|width| lines.iter().any(|line| shown_width(line) > *width));
    let layout = narrow.map(|width| NarrowLayout::new(styler, width, starts));
    let laid_out = rows.iter().zip(lines).map(|(row, line)| match &layout {
        Some(layout) if is_ragged || shown_width(&line) > layout.width || layout.moves(row) => layout.text(row),
        _ => line,
    });
    laid_out.map(|text| text + "\n").collect()
}

/// A row with each cell in its column.
fn line_of(styler: Styler, indent: &str, row: &[Cell], widths: &[usize], is_right: impl Fn(usize) -> bool) -> String {
    let mut out = indent.to_owned();
    for (column, (tone, text)) in row.iter().enumerate() {
        let gap = widths[column].saturating_sub(text.chars().count());
        let (before, after) = if is_right(column) { (gap, 0) } else { (0, gap) };
        out.push_str(&" ".repeat(before));
        out.push_str(&styler.tone(*tone, text));
        if Some(column) >= last_of(row) {
            break;
        }
        out.push_str(&" ".repeat(after + 2));
    }
    out
}

/// Where the cells of rows begin that are too long for the terminal.
struct NarrowLayout {
    styler: Styler,
    width: usize,
    /// Of each column, where there is room for all.
    starts: Vec<usize>,
    /// Where lines go on, of all rows alike.
    hang: usize,
}

impl NarrowLayout {
    /// Lines go on in the last column that leaves room for two fifths of a line, and for some words on a narrow
    /// terminal.
    fn new(styler: Styler, width: usize, starts: Vec<usize>) -> Self {
        let room = (width * 3 / 5).min(width.saturating_sub(32).max(width / 4));
        // Behind the last column there is nothing.
        let columns = starts.iter().skip(1).rev().skip(1);
        let hang = columns.copied().find(|start| *start <= room).unwrap_or_else(|| (starts[0] + 4).min(width / 2));
        Self { styler, width, starts, hang }
    }

    /// A row that only goes on with the cells of the one above it goes on where that one does.
    fn moves(&self, row: &[Cell]) -> bool {
        let first = row.iter().position(|(_, text)| !text.is_empty());
        first.is_some_and(|first| self.starts[first] > self.hang)
    }

    /// Columns up to that in which lines go on keep their place, the others come together.
    fn text(&self, row: &[Cell]) -> String {
        let mut out = String::new();
        let mut at = 0;
        for (column, (tone, text)) in row.iter().enumerate().filter(|(_, (_, text))| !text.is_empty()) {
            let gap = if at == 0 { 0 } else { at + 2 };
            let mut next = gap.max(self.starts[column].min(self.hang));
            let mut part = String::new();
            for word in unbroken(text, self.width.saturating_sub(self.hang)) {
                let length = word.chars().count();
                if at > self.hang && next + length > self.width {
                    self.put(*tone, &mut part, &mut out);
                    out.push('\n');
                    at = 0;
                    next = self.hang;
                }
                if part.is_empty() {
                    out.push_str(&" ".repeat(next.saturating_sub(at)));
                } else {
                    part.push(' ');
                }
                part.push_str(word);
                at = next + length;
                next = at + 1;
            }
            self.put(*tone, &mut part, &mut out);
        }
        out
    }

    fn put(&self, tone: TextRole, part: &mut String, out: &mut String) {
        if !part.is_empty() {
            out.push_str(&self.styler.tone(tone, &*part));
            part.clear();
        }
    }
}

/// The parts of a text between which a line may be broken: at its ` · `, where it has any, else between words. A part
/// for which a line has no `room` is broken between words, too.
fn unbroken(text: &str, room: usize) -> impl Iterator<Item = &str> {
    let has_parts = text.contains(" · ");
    text.split_inclusive(" · ").flat_map(move |part| {
        let part = part.strip_suffix(' ').unwrap_or(part);
        let is_whole = has_parts && part.chars().count() <= room;
        part.split(if is_whole { '\n' } else { ' ' })
    })
}

/// A text for stderr: lines that are wider than its terminal are broken, but not those of a file with their carets, nor
/// the usage of a command, as in its help.
pub fn fit_stderr(text: &str) -> String {
    let Some((width, _)) = terminal_size::terminal_size_of(std::io::stderr()) else { return text.to_owned() };
    let width = |line: &str| if line.contains(" |") || line.contains("Usage:") { usize::MAX } else { width.0.into() };
    text.split_inclusive('\n').map(|line| wrapped(line, width(line))).collect()
}

/// Breaks lines of more than `width` characters between words. A part goes on where the cell that was broken begins
/// (cells are two or more spaces apart), or where the last one did that leaves room. Escape sequences of colors take
/// no room; a word that is longer than a line stays whole.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if shown_width(line) > width {
            wrap_line(line, width, &mut out);
        } else {
            out.push_str(line);
        }
        out.push_str(end);
    }
    out
}

fn wrap_line(line: &str, width: usize, out: &mut String) {
    // One that leaves no room is not kept.
    let leading = line.chars().take_while(|c| *c == ' ').count();
    let indent = if leading <= width * 3 / 5 { leading } else { 4.min(width / 5) };
    out.push_str(&" ".repeat(indent));
    // `hang`: where the cell that is being written begins.
    let (mut column, mut hang, mut cells, mut gap) = (indent, indent + 4, 1, 0);
    // A command stays whole.
    let mut is_code = false;
    let is_break = |c: char| {
        is_code ^= c == '`';
        c == ' ' && !is_code
    };
    for part in line[leading..].split(is_break) {
        if part.is_empty() {
            gap += 1;
            continue;
        }
        let begins_cell = gap > 0 && column > indent;
        cells += usize::from(begins_cell);
        // The second column keeps its place; behind it a line that is too long has no room for columns.
        let spaces = match (column > indent, begins_cell) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) if cells == 2 => gap + 1,
            (true, true) => 2,
        };
        let length = shown_width(part);
        if column + spaces + length <= width || column == indent {
            out.push_str(&" ".repeat(spaces));
            column += spaces;
        } else if column < hang {
            let spaces = spaces.min(2).max(hang - column);
            out.push_str(&" ".repeat(spaces));
            column += spaces;
        } else {
            out.push('\n');
            out.push_str(&" ".repeat(hang));
            column = hang;
        }
        // A cell in the right half would go on in too narrow a column.
        if begins_cell && column <= width * 3 / 5 {
            hang = column;
        }
        out.push_str(part);
        column += length;
        gap = 0;
    }
}

/// Characters, without those of escape sequences.
pub fn shown_width(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(|part| part.chars().count()).sum()
}

/// With its sign and one digit. What rounds to nothing has no sign: `-0.0 %` reads like a difference.
pub fn signed_percent(percent: f64) -> String {
    let rounded = (percent * 10.0).round() / 10.0;
    if rounded == 0.0 { "0.0".to_owned() } else { format!("{rounded:+.1}") }
}

/// `722 ±31`, half of the interval; `68.3 (0 … 445)` where it is not of equal length on both sides, because it ends
/// at 0.
pub(crate) fn mean_text(value: f64, (low, high): (f64, f64), number: impl Fn(f64) -> String) -> String {
    let (below, above) = (value - low, high - value);
    if (above - below).abs() > 1e-6 * above.abs() {
        return format!("{} ({} … {})", number(value), number(low), number(high));
    }
    format!("{} ±{}", number(value), number(above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::three_digits;

    fn table(styler: Styler, indent: &str, rows: &[Vec<Cell>]) -> String {
        rows_with(styler, indent, rows, 0, false, |_| false).concat()
    }

    #[test]
    fn durations_read_well_at_every_scale() {
        let shown: Vec<String> =
            [0.0, 0.0084, 0.9996, 1.24, 9.96, 59.6, 187.0, 3599.6, 7_512.0, f64::NAN].map(duration_text).to_vec();
        assert_eq!(shown.join(" | "), "0 ms | 8 ms | 1.0 s | 1.2 s | 10 s | 1m 00s | 3m 07s | 1h 00m | 2h 05m | ?");
    }

    #[test]
    fn parameters_are_shown_as_they_are_typed() {
        let shown = [r#"["a","b"]"#, "[1,2]", "null", "12s", "[", "7"].map(as_typed);
        assert_eq!(
            shown,
            [Some("a,b"), Some("1,2"), None, Some("12s"), Some("["), Some("7")].map(|v| v.map(str::to_owned))
        );
    }

    #[test]
    fn a_time_has_no_fraction() {
        let shown = ["2026-11-20T22:43:01.638906061Z", "2026-11-20T22:43:01Z", "soon"].map(to_the_second);
        assert_eq!(shown, ["2026-11-20T22:43:01Z", "2026-11-20T22:43:01Z", "soon"]);
    }

    #[test]
    fn a_log_line_cannot_move_the_cursor() {
        assert_eq!(clean("\u{1b}[2J\u{1b}[31mred\u{1b}[0m\ta\rb\u{7}"), "red    a·b");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("exactly 10", 10), "exactly 10");
        assert_eq!(cut("more than ten", 10), "more tha …");
        assert_eq!(cut("one\ntwo", 10), "one …");
        assert_eq!(cut("", 10), "");
    }

    #[test]
    fn a_script_keeps_its_lines() {
        assert_eq!(clean_lines("set -e\nmake\u{1b}[1m\n'\n\n"), "set -e\nmake\n'");
    }

    #[test]
    fn a_table_lines_up_whatever_the_color() {
        let row = |a: &str, b: &str| vec![(TextRole::Good, a.to_owned()), (TextRole::Plain, b.to_owned())];
        let rows = [row("a", "one"), row("long", ""), row("", "two")];
        assert_eq!(table(Styler::OFF, "  ", &rows), "  a     one\n  long\n        two\n");
        let painted = table(Styler::ON, "  ", &rows);
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), table(Styler::OFF, "  ", &rows));
    }

    fn row(cells: &[&str]) -> Vec<Cell> {
        cells.iter().map(|text| (TextRole::Plain, (*text).to_owned())).collect()
    }

    #[test]
    fn rows_that_are_too_long_go_on_in_one_column() {
        let rows = [
            row(&["failed", "run_harness/offline", "12 s", "the server died before the first answer came"]),
            row(&["", "", "", "warning: core_wait: workers waited for a core, 1.2 %"]),
            row(&["ran", "engine", "3 s", "built"]),
        ];
        assert_eq!(
            table(Styler::OFF.of_width(66), "  ", &rows),
            "  failed  run_harness/offline  12 s  the server died before the\n\
             \x20                              first answer came\n\
             \x20                              warning: core_wait: workers waited\n\
             \x20                              for a core, 1.2 %\n\
             \x20 ran     engine               3 s   built\n"
        );
        assert_eq!(
            table(Styler::OFF.of_width(40), "  ", &rows),
            "  failed  run_harness/offline  12 s  the\n\
             \x20         server died before the first\n\
             \x20         answer came\n\
             \x20         warning: core_wait: workers\n\
             \x20         waited for a core, 1.2 %\n\
             \x20 ran     engine  3 s  built\n"
        );
        let painted = table(Styler::ON.of_width(40), "  ", &rows);
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), table(Styler::OFF.of_width(40), "  ", &rows));
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_stays_whole() {
        let rows = [row(&["log", "/a/path/that/is/long"]), row(&["why", "because of that"])];
        assert_eq!(
            table(Styler::OFF.of_width(15), "", &rows),
            "log  /a/path/that/is/long\nwhy  because of\n    that\n"
        );
    }

    #[test]
    fn a_line_of_several_parts_is_broken_between_them() {
        let workload = "toy @ 127.0.0.1:18200 (OpenAI chat) · 5 req/s Poisson · 100 requests · 550 → 128 tokens";
        let row = ["load", "workload", workload].map(|text| (TextRole::Plain, text.to_owned())).to_vec();
        insta::assert_snapshot!(table(Styler::OFF.of_width(60), "  ", std::slice::from_ref(&row)), @r"
          load  workload  toy @ 127.0.0.1:18200 (OpenAI chat) ·
                          5 req/s Poisson · 100 requests ·
                          550 → 128 tokens
        ");
        // A part that is too long is broken between words.
        insta::assert_snapshot!(table(Styler::OFF.of_width(36), "  ", &[row]), @r"
          load  workload  toy @
                127.0.0.1:18200 (OpenAI
                chat) · 5 req/s Poisson ·
                100 requests ·
                550 → 128 tokens
        ");
    }

    #[test]
    fn a_sentence_goes_on_under_its_cell() {
        let text = "  name    text      what the key is for, in a sentence\n  n2      whole\n";
        let expected = "  name    text  what the key is for, in\n                a sentence\n  n2      whole\n";
        assert_eq!(wrapped(text, 40), expected);
        assert_eq!(wrapped(text, 60), text);
    }

    #[test]
    fn columns_behind_the_second_come_together_where_a_line_is_too_long() {
        let text = "name    one | two | three          [one]  which of them\n";
        assert_eq!(wrapped(text, 30), "name    one | two | three\n        [one]  which of them\n");
        assert_eq!(wrapped(text, 50), "name    one | two | three  [one]  which of them\n");
        assert_eq!(wrapped("a                    right/b\n", 20), "a   right/b\n");
    }

    #[test]
    fn colors_take_no_room_and_a_long_word_stays_whole() {
        assert_eq!(wrapped("\u{1b}[2mone two\u{1b}[0m", 7), "\u{1b}[2mone two\u{1b}[0m");
        assert_eq!(wrapped("log  /a/path/that/is/long", 10), "log  /a/path/that/is/long");
        let hint = "it is text; `jq -Rc . FILE` makes it JSON";
        assert_eq!(wrapped(hint, 20), "it is text;\n    `jq -Rc . FILE`\n    makes it JSON");
    }

    #[test]
    fn nothing_has_no_sign() {
        let shown = [-0.04, 0.04, -0.0, 0.05, -0.06, 12.34].map(signed_percent);
        assert_eq!(shown, ["0.0", "0.0", "0.0", "+0.1", "-0.1", "+12.3"]);
    }

    #[test]
    fn an_interval_that_was_cut_has_its_ends() {
        assert_eq!(mean_text(722.0, (691.0, 753.0), three_digits), "722 ±31.0");
        assert_eq!(mean_text(68.3, (0.0, 444.9), three_digits), "68.3 (0.00 … 445)");
        assert_eq!(mean_text(5.0, (5.0, 5.0), three_digits), "5.00 ±0.00");
    }
}
