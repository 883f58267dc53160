//! Rows of cells under columns that are declared once, with unit and digits: as a terminal shows them, without the
//! least important columns where it is narrow, and as a page's template reads them.

use std::fmt::Write as _;

use serde::Serialize;

use crate::styler::{Styler, TextRole, clean, rows_with};
use base::units::three_digits;

/// Rows of cells under columns that are declared once.
#[derive(Debug, Serialize)]
pub struct Table {
    /// For screen readers.
    label: &'static str,
    /// Its class on a page.
    look: &'static str,
    columns: Vec<TableColumn>,
    rows: Vec<Row>,
    /// Any cell but the first may be a sentence: the next cell follows it directly.
    #[serde(skip)]
    is_ragged: bool,
}

/// A column: its title with the unit, how its numbers look, and who needs it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TableColumn {
    pub title: String,
    /// Shown on a page; on a terminal the notes have it.
    pub unit: &'static str,
    /// Numbers end under each other.
    pub is_number: bool,
    #[serde(skip)]
    pub digits: fn(f64) -> String,
    #[serde(skip)]
    pub is_on_page: bool,
    /// A terminal too narrow for all columns leaves out the highest first; 0 stays.
    #[serde(skip)]
    pub priority: u8,
    /// The color of a curve that the column is of.
    pub color: String,
}

#[derive(Debug, Serialize)]
struct Row {
    /// Its class on a page.
    look: &'static str,
    cells: Vec<Cell>,
}

/// A cell. The last one of a row that has fewer than there are columns is as wide as those that are missing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    role: TextRole,
    text: String,
    /// To be written with the digits of its column.
    #[serde(skip)]
    is_number: bool,
    #[serde(skip)]
    number: Option<f64>,
    /// What it refers to.
    marks: Vec<String>,
    /// Its definition: a terminal has it below the row, a page behind a `?`.
    help: String,
    /// Where it leads on a page.
    link: String,
    svg: Option<String>,
}

impl TableColumn {
    /// Of texts.
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: "",
            is_number: false,
            digits: three_digits,
            is_on_page: false,
            priority: 0,
            color: String::new(),
        }
    }

    /// Of numbers with three digits.
    pub(crate) fn number(title: impl Into<String>) -> Self {
        Self { is_number: true, ..Self::new(title) }
    }

    #[must_use]
    pub(crate) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    #[must_use]
    pub(crate) const fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// A terminal leaves it out.
    #[must_use]
    pub(crate) const fn on_page(mut self) -> Self {
        self.is_on_page = true;
        self
    }
}

impl Cell {
    /// A text in this role.
    pub fn new(role: TextRole, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), ..Self::default() }
    }

    /// The name of a thing.
    pub fn name(text: impl Into<String>) -> Self {
        Self::new(TextRole::Name, text)
    }

    /// A remark.
    pub fn quiet(text: impl Into<String>) -> Self {
        Self::new(TextRole::Quiet, text)
    }

    /// A number with the digits of its column; `n/a` for `None`.
    pub(crate) fn number(role: TextRole, number: Option<f64>) -> Self {
        Self { role, is_number: true, number, ..Self::default() }
    }

    pub(crate) fn picture(svg: String) -> Self {
        Self { svg: Some(svg), ..Self::default() }
    }

    #[must_use]
    pub(crate) fn help(mut self, help: String) -> Self {
        self.help = help;
        self
    }

    #[must_use]
    pub(crate) fn link(mut self, link: String) -> Self {
        self.link = link;
        self
    }

    #[must_use]
    pub(crate) fn marks(mut self, marks: Vec<String>) -> Self {
        self.marks = marks;
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(TextRole::Plain, text)
    }
}

impl Table {
    pub(crate) fn new(label: &'static str, columns: impl IntoIterator<Item = TableColumn>) -> Self {
        Self { label, look: "deltas", columns: columns.into_iter().collect(), rows: Vec::new(), is_ragged: false }
    }

    /// Rows of texts under `heads`, where there are any. A row may have fewer cells than others.
    pub fn list<'h, R: IntoIterator<Item = Cell>>(
        heads: impl IntoIterator<Item = &'h str>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| row.into_iter().collect()).collect();
        let mut columns: Vec<TableColumn> = heads.into_iter().map(TableColumn::new).collect();
        let width = rows.iter().map(Vec::len).max().unwrap_or_default().max(columns.len());
        columns.resize_with(width, || TableColumn::new(""));
        let mut table = Self::new("list", columns);
        for row in rows {
            let missing = width - row.len();
            table.row(row.into_iter().chain(std::iter::repeat_n(Cell::default(), missing)));
        }
        table
    }

    /// For rows whose sentences are not at their ends.
    #[must_use]
    pub(crate) const fn ragged(mut self) -> Self {
        self.is_ragged = true;
        self
    }

    /// For a terminal, each line after `indent`.
    pub fn terminal(&self, styler: Styler, indent: &str) -> String {
        let mut out = String::new();
        self.write(styler, indent, &mut out);
        out
    }

    /// With another class on a page.
    #[must_use]
    pub(crate) const fn look(mut self, look: &'static str) -> Self {
        self.look = look;
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.row_like("", cells);
    }

    /// A row with a class on a page.
    pub(crate) fn row_like(&mut self, look: &'static str, cells: impl IntoIterator<Item = Cell>) {
        let cell = |(mut cell, column): (Cell, Option<&TableColumn>)| {
            if cell.is_number {
                let digits = column.map_or(three_digits as fn(f64) -> String, |column| column.digits);
                cell.text = cell.number.map_or_else(|| "n/a".to_owned(), digits);
            }
            cell
        };
        let columns = self.columns.iter().map(Some).chain(std::iter::repeat(None));
        self.rows.push(Row { look, cells: cells.into_iter().zip(columns).map(cell).collect() });
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn write(&self, styler: Styler, indent: &str, out: &mut String) {
        let mut columns: Vec<usize> =
            (0..self.columns.len()).filter(|column| !self.columns[*column].is_on_page).collect();
        let mut left_out = Vec::new();
        let mut text = self.lines(styler, indent, &columns);
        while styler.width().is_some_and(|width| self.is_wider(&columns, indent, width)) {
            let least = columns.iter().copied().filter(|column| self.columns[*column].priority > 0);
            let Some(least) = least.max_by_key(|column| self.columns[*column].priority) else { break };
            columns.retain(|column| *column != least);
            left_out.push(self.columns[least].title.as_str());
            text = self.lines(styler, indent, &columns);
        }
        out.push_str(&text);
        if !left_out.is_empty() {
            let line = format!("left out to fit this terminal: {}", left_out.join(", "));
            let _ = writeln!(out, "{indent}{}", styler.tone(TextRole::Quiet, line));
        }
    }

    /// Whether a row of these columns has more characters. One with fewer cells is text, which is broken.
    fn is_wider(&self, columns: &[usize], indent: &str, width: usize) -> bool {
        let rows = self.plain_rows(columns);
        let texts = self.rows_of_columns(Styler::OFF, indent, columns);
        let whole = texts.iter().zip(&rows).filter(|(_, row)| row.len() == columns.len());
        whole.map(|(text, _)| text.trim_end().chars().count()).any(|length| length > width)
    }

    /// Of each row its text, which has several lines where it is wider than the terminal.
    pub(crate) fn row_texts(&self, styler: Styler) -> Vec<String> {
        self.rows_of_columns(styler, "", &(0..self.columns.len()).collect::<Vec<_>>())
    }

    fn lines(&self, styler: Styler, indent: &str, columns: &[usize]) -> String {
        self.rows_of_columns(styler, indent, columns).concat()
    }

    fn rows_of_columns(&self, styler: Styler, indent: &str, columns: &[usize]) -> Vec<String> {
        let is_number = |column: usize| columns.get(column).is_some_and(|column| self.columns[*column].is_number);
        rows_with(styler, indent, &self.plain_rows(columns), columns.len(), self.is_ragged, is_number)
    }

    /// The heads, where there are any, and the cells of these columns.
    fn plain_rows(&self, columns: &[usize]) -> Vec<Vec<(TextRole, String)>> {
        let mut rows = Vec::new();
        if self.columns.iter().any(|column| !column.title.is_empty()) {
            let mut before = "";
            let head = |column: &usize| {
                let title = self.columns[*column].title.as_str();
                // `TTFT p50  TTFT p99` is `TTFT p50  p99`.
                let words = title.split_once(' ').filter(|(_, last)| is_statistic(last));
                let (metric, statistic) = words.unwrap_or((title, ""));
                let is_same = metric == before && !statistic.is_empty();
                before = metric;
                (TextRole::Quiet, clean(if is_same { statistic } else { title }))
            };
            rows.push(columns.iter().map(head).collect());
        }
        for row in &self.rows {
            let cells = columns.iter().filter_map(|column| row.cells.get(*column));
            let text = |cell: &Cell| {
                let text = cell.marks.iter().fold(clean(&cell.text), |text, mark| match text.as_str() {
                    "" => mark.clone(),
                    _ => format!("{text} {mark}"),
                });
                (cell.role, text)
            };
            rows.push(cells.map(text).collect());
            let help = row.cells.first().map(|cell| &cell.help).filter(|help| !help.is_empty());
            rows.extend(help.map(|help| vec![(TextRole::Plain, String::new()), (TextRole::Quiet, clean(help))]));
        }
        rows
    }
}

/// `mean`, `p99`: what a metric's name is followed by in a heading.
fn is_statistic(word: &str) -> bool {
    let is_percentile = word.strip_prefix('p').is_some_and(|digits| digits.parse::<f64>().is_ok());
    is_percentile || ["mean", "min", "max", "stddev"].contains(&word)
}
