//! One sample on its way.

use super::columns::{ColumnRole, Columns};
use super::error::ColumnError;

/// One row of a data set, as it was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatasetRow {
    pub ids: Option<Vec<i64>>,
    pub reference: Option<String>,
    pub task: Option<String>,
    pub id: Option<String>,
    /// Of a made-up sample: the length of its answer.
    pub output_tokens: Option<u32>,
    /// How good the names were that the values came by.
    ranks: [Option<usize>; 4],
}

/// What takes the rows of a data set.
pub(super) type RowSink<'s> = dyn FnMut(DatasetRow) + 's;

/// A value of a row.
pub enum RowValue {
    Ids(Vec<i64>),
    Text(String),
    Nothing,
}

impl DatasetRow {
    pub fn new(ids: Vec<i64>) -> Self {
        Self { ids: Some(ids), ..Self::default() }
    }

    /// Takes a column's value, unless a better name has been there. Err: it is of another kind.
    pub fn take(&mut self, columns: &Columns, name: &str, value: RowValue) -> Result<(), ColumnError> {
        let Some((slot, rank)) = columns.slot(name) else { return Ok(()) };
        let best = &mut self.ranks[slot as usize];
        if matches!(value, RowValue::Nothing) || best.is_some_and(|best| best < rank) {
            return Ok(());
        }
        *best = Some(rank);
        match (slot, value) {
            (ColumnRole::Tokens, RowValue::Ids(ids)) => self.ids = Some(ids),
            (ColumnRole::Reference, RowValue::Text(text)) => self.reference = Some(text),
            (ColumnRole::Task, RowValue::Text(text)) => self.task = Some(text),
            (ColumnRole::Id, RowValue::Text(text)) => self.id = Some(text),
            (ColumnRole::Tokens, _) => return Err(ColumnError::NotIds(name.to_owned())),
            _ => return Err(ColumnError::NotText(name.to_owned())),
        }
        Ok(())
    }
}
