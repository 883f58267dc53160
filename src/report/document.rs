//! A report as data, drawn once. [`Document::terminal`] and [`Document::html`] render it; they know no comparison,
//! sweep or history.
//!
//! ```text
//!  results, events ─run_page · compare · sweep · what_if · …→ Document (facts, tables, charts, texts) ─┬→ terminal
//!                                                                                                      └→ HTML page
//! ```

mod table;

use std::borrow::Cow;
use std::fmt::Write as _;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};
use serde::Serialize;

use crate::styler::{Styler, TextRole, clean, clean_lines, wrapped};
use base::units::is_invisible;

pub(crate) use table::TableColumn;
pub use table::{Cell, Table};

const PAGE: &str = include_str!("../../templates/report/document.html");
const HEAD: &str = include_str!("../../templates/report/head.html");
const BLOCKS: &str = include_str!("../../templates/report/blocks.html");
const STYLE: &str = include_str!("../../templates/report/style.css");

/// A report.
#[derive(Debug, Default, Serialize)]
pub struct Document {
    /// The title of the browser's window.
    pub(crate) name: String,
    /// On a page alone: what was asked on a terminal is in the line above.
    pub(crate) title: Cow<'static, str>,
    pub(crate) badges: Vec<Badge>,
    /// Below the title.
    pub(crate) head: Vec<Block>,
    /// On a page alone.
    pub(crate) tops: Vec<Top>,
    pub(crate) sections: Vec<Section>,
    pub(crate) footer: &'static str,
}

/// Name, value, and what was counted.
pub(crate) type Fact = [String; 3];

/// A result in a sentence, with its most important numbers and a picture beside each other.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Top {
    /// Which of several results it is of.
    pub task: String,
    pub sentence: String,
    pub facts: Vec<Fact>,
    /// SVG.
    pub picture: Option<String>,
}

/// A text in a frame: a verdict, `SIMULATED`.
#[derive(Clone, Debug, Serialize)]
pub struct Badge {
    pub role: TextRole,
    pub text: String,
}

/// A part with a heading.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    pub heading: String,
    pub role: TextRole,
    /// Where it is on a page; the contents have each section with one.
    pub anchor: String,
    /// A page shows it when its heading is clicked; whether it is open at first.
    pub is_open: Option<bool>,
    /// Of the parts of one group one is open.
    pub group: String,
    /// Its CSS class in HTML.
    pub look: &'static str,
    /// A terminal leaves it out.
    pub is_on_page: bool,
    /// A terminal shows the blocks without the heading and without an indent.
    pub is_titled_on_page: bool,
    pub badges: Vec<Badge>,
    /// What it is about: beside the heading on a terminal.
    pub about: String,
    pub blocks: Vec<Block>,
    /// Each with a heading of its own, below the blocks.
    pub parts: Vec<Self>,
}

/// A piece of a section.
#[derive(Debug, Serialize)]
pub struct Block {
    #[serde(skip)]
    is_on_page: bool,
    fold: Option<Fold>,
    #[serde(flatten)]
    content: Content,
}

/// A page shows the block when its summary is clicked.
#[derive(Debug, Serialize)]
struct Fold {
    summary: String,
    is_open: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", content = "content", rename_all = "snake_case")]
enum Content {
    Text(Badge),
    Items(Vec<Item>),
    Table(Table),
    Facts(Vec<Fact>),
    /// A name and a text, which may have several lines, and is never broken.
    Pairs(Vec<[String; 2]>),
    /// Lines of a log or a file as they are.
    Lines(Vec<String>),
    /// Commands to paste: never broken.
    Commands(Vec<String>),
    Charts(Vec<Figure>),
    /// The letter, the color and the name of each curve.
    Legend(Vec<[String; 3]>),
}

/// A picture, and what to know about it.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub svg: String,
    pub notes: Vec<String>,
}

/// One line of a list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Item {
    pub role: TextRole,
    /// `≠1`: what refers to it.
    pub mark: String,
    pub text: String,
    pub below: Vec<String>,
}

impl Section {
    /// Without blocks.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    pub(crate) fn page(heading: impl Into<String>) -> Self {
        Self { is_on_page: true, ..Self::new(heading) }
    }

    /// Its heading is on a page alone.
    pub(crate) fn titled_on_page(heading: impl Into<String>) -> Self {
        Self { is_titled_on_page: true, ..Self::new(heading) }
    }

    /// With these blocks.
    #[must_use]
    pub fn with(mut self, blocks: impl IntoIterator<Item = Block>) -> Self {
        self.blocks.extend(blocks);
        self
    }

    fn has_title(&self) -> bool {
        !self.heading.is_empty() && !self.is_titled_on_page
    }

    pub(crate) fn write(&self, styler: Styler, out: &mut String) {
        let indent = if self.has_title() { "  " } else { "" };
        if self.has_title() {
            let role = if self.role == TextRole::Plain { TextRole::Strong } else { self.role };
            let mut line = styler.tone(role, clean(&self.heading));
            for badge in &self.badges {
                let _ = write!(line, "  {}", styler.tone(badge.role, clean(&badge.text)));
            }
            if !self.about.is_empty() {
                let _ = write!(line, "  {}", clean(&self.about));
            }
            let _ = writeln!(out, "{}", styler.fit(line));
        }
        for block in &self.blocks {
            block.write(styler, indent, out);
        }
    }
}

impl Block {
    const fn new(content: Content) -> Self {
        Self { is_on_page: false, fold: None, content }
    }

    /// Rows under each other.
    pub fn list<R: IntoIterator<Item = Cell>>(rows: impl IntoIterator<Item = R>) -> Self {
        Self::table(Table::list([], rows))
    }

    /// Names and what they stand for.
    pub(crate) fn pairs<N: Into<String>>(pairs: impl IntoIterator<Item = (N, String)>) -> Self {
        Self::new(Content::Pairs(pairs.into_iter().map(|(name, text)| [name.into(), clean_lines(&text)]).collect()))
    }

    pub(crate) const fn lines(lines: Vec<String>) -> Self {
        Self::new(Content::Lines(lines))
    }

    /// A line of text.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::text(TextRole::Plain, text)
    }

    pub(crate) fn text(role: TextRole, text: impl Into<String>) -> Self {
        Self::new(Content::Text(Badge { role, text: text.into() }))
    }

    /// Each a line: how numbers were made.
    pub(crate) fn notes<T: Into<String>>(notes: impl IntoIterator<Item = T>) -> impl Iterator<Item = Self> {
        notes.into_iter().map(|note| Self::text(TextRole::Quiet, note))
    }

    pub(crate) const fn items(items: Vec<Item>) -> Self {
        Self::new(Content::Items(items))
    }

    /// Rows of cells.
    pub const fn table(table: Table) -> Self {
        Self::new(Content::Table(table))
    }

    pub(crate) const fn facts(facts: Vec<Fact>) -> Self {
        Self::new(Content::Facts(facts))
    }

    pub(crate) const fn commands(commands: Vec<String>) -> Self {
        Self::new(Content::Commands(commands))
    }

    pub(crate) const fn legend(curves: Vec<[String; 3]>) -> Self {
        Self::new(Content::Legend(curves)).on_page()
    }

    /// Charts are only in HTML.
    pub(crate) fn charts(pictures: impl IntoIterator<Item = String>) -> Self {
        Self::figures(pictures.into_iter().map(|svg| Figure { svg, notes: Vec::new() }))
    }

    pub(crate) fn figures(figures: impl IntoIterator<Item = Figure>) -> Self {
        Self::new(Content::Charts(figures.into_iter().collect())).on_page()
    }

    /// A terminal leaves it out.
    #[must_use]
    pub(crate) const fn on_page(mut self) -> Self {
        self.is_on_page = true;
        self
    }

    /// On a page below a summary.
    #[must_use]
    pub(crate) fn folded(mut self, summary: impl Into<String>, is_open: bool) -> Self {
        self.fold = Some(Fold { summary: summary.into(), is_open });
        self
    }

    pub(crate) fn write(&self, styler: Styler, indent: &str, out: &mut String) {
        if self.is_on_page {
            return;
        }
        match &self.content {
            Content::Text(Badge { role, text }) => {
                out.push_str(&styler.fit(format!("{indent}{}\n", styler.tone(*role, clean(text)))));
            }
            Content::Items(items) => {
                for Item { role, mark, text, below } in items {
                    let mark = if mark.is_empty() { String::new() } else { format!("{mark} ") };
                    let mark = styler.tone(TextRole::Warning, mark);
                    out.push_str(&styler.fit(format!("{indent}{mark}{}\n", styler.tone(*role, clean(text)))));
                    for line in below {
                        out.push_str(&styler.fit(format!("{indent}    {}\n", clean(line))));
                    }
                }
            }
            Content::Table(table) => table.write(styler, indent, out),
            Content::Facts(facts) => {
                let columns = [TableColumn::new(""), TableColumn::number(""), TableColumn::new("")];
                let mut table = Table::new("", columns);
                for [name, value, about] in facts {
                    table.row([Cell::name(name), value.into(), Cell::quiet(about)]);
                }
                table.write(styler, indent, out);
            }
            Content::Pairs(pairs) => {
                let mut before = "";
                for [name, text] in pairs {
                    let room = styler
                        .width()
                        .filter(|_| !["command", "log", "kept"].contains(&name.as_str()))
                        .unwrap_or(usize::MAX);
                    for line in wrapped(text, room.saturating_sub(indent.len() + 9)).lines() {
                        let shown = if name == before { "" } else { name };
                        let _ = writeln!(out, "{indent}{} {line}", styler.tone(TextRole::Quiet, format!("{shown:<8}")));
                        before = name;
                    }
                }
            }
            Content::Lines(lines) => {
                for line in lines {
                    let _ = writeln!(out, "{indent}{} {}", styler.tone(TextRole::Quiet, "│"), clean(line));
                }
            }
            Content::Commands(commands) => {
                for command in commands {
                    let _ = writeln!(out, "{indent}{}", clean(command));
                }
            }
            Content::Charts(_) | Content::Legend(_) => {}
        }
    }
}

impl Document {
    /// Sections alone.
    pub fn of_sections(sections: impl IntoIterator<Item = Section>) -> Self {
        Self { sections: sections.into_iter().collect(), ..Self::default() }
    }

    /// For a terminal of the width of `styler`. Commands stay whole.
    pub fn terminal(&self, styler: Styler) -> String {
        let mut out = String::new();
        for block in &self.head {
            block.write(styler, "", &mut out);
        }
        let sections = self.sections.iter().flat_map(|section| std::iter::once(section).chain(&section.parts));
        for section in sections.filter(|section| !section.is_on_page) {
            if !out.is_empty() && section.has_title() {
                out.push('\n');
            }
            section.write(styler, &mut out);
        }
        out
    }

    /// One self-contained page.
    ///
    /// # Errors
    /// A template that does not fit: a bug.
    pub fn html(&self) -> Result<String, minijinja::Error> {
        render_page(PAGE, context! { document => Serde(self) })
    }
}

// What HTML and XML texts need: the head and style that all pages have, and escaping.

/// Renders `template` with `context`. What it writes is escaped, and an unknown name is an error.
fn render_page(template: &'static str, context: Value) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    environment.add_template("head.html", HEAD)?;
    environment.add_template("blocks.html", BLOCKS)?;
    environment.add_template("page.html", template)?;
    let page = environment.get_template("page.html")?.render(context)?;
    // Control characters are not allowed in a document, escaped or not.
    Ok(page.replace(|c: char| is_invisible(c) && !matches!(c, '\n' | '\t'), "·"))
}

/// Safe inside an element and inside a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in a document at all, escaped or not.
            c if is_invisible(c) && c != '\n' => out.push('·'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(
            "points",
            [
                TableColumn::new("users"),
                TableColumn::number("tok/s"),
                TableColumn::number("TTFT p50").unit("ms"),
                TableColumn::number("TTFT p99").unit("ms").priority(1),
                TableColumn::number("E2E mean").unit("ms").priority(2),
                TableColumn::new("verdict"),
            ],
        );
        let numbers =
            [Some(189.0), Some(26.2), Some(1_281.4), None].map(|number| Cell::number(TextRole::Plain, number));
        table.row([Cell::from("4")].into_iter().chain(numbers).chain([Cell::from("VALID")]));
        table.row([Cell::from("8"), Cell::new(TextRole::Bad, "it does not fit <b>")]);
        table
    }

    fn document() -> Document {
        let section = Section { about: "two points".to_owned(), ..Section::new("load") };
        let marked = Item { mark: "≠1".to_owned(), text: "load".to_owned(), ..Item::default() };
        let blocks = [Block::table(table()), Block::items(vec![marked]), Block::charts(["<svg/>".to_owned()])];
        Document { title: "Points".into(), sections: vec![section.with(blocks)], ..Document::default() }
    }

    #[test]
    fn numbers_end_under_each_other_and_a_latency_is_named_once() {
        insta::assert_snapshot!(document().terminal(Styler::OFF), @r"
        load  two points
          users  tok/s  TTFT p50    p99  E2E mean  verdict
          4        189      26.2  1,281       n/a  VALID
          8      it does not fit <b>
          ≠1 load
        ");
    }

    #[test]
    fn a_narrow_terminal_does_without_what_is_least_needed() {
        let shown = |width: usize| document().terminal(Styler::OFF.of_width(width));
        assert!(shown(45).contains("left out to fit this terminal: E2E mean\n"), "{}", shown(45));
        assert!(shown(30).contains("left out to fit this terminal: E2E mean, TTFT p99\n"), "{}", shown(30));
        assert!(!shown(80).contains("left out"));
    }

    #[test]
    fn pairs_are_broken_between_words_and_commands_stay_whole() {
        let pairs =
            [("cause", "it speaks HTTP, not gRPC".to_owned()), ("command", "sleep 1; sleep 2; exit".to_owned())];
        let mut out = String::new();
        Block::pairs(pairs).write(Styler::OFF.of_width(24), "  ", &mut out);
        let expected =
            "  cause    it speaks\n               HTTP, not\n               gRPC\n  command  sleep 1; sleep 2; exit\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn a_page_has_units_pictures_and_no_markup_from_outside() {
        let page = document().html().expect("a page");
        for part in ["TTFT p99, ms", "<svg/>", "it does not fit &lt;b&gt;", "colspan=\"5\"", "<h2>load"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
