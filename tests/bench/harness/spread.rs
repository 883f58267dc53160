//! Some numbers in a few words.

/// Sorted.
pub struct Spread(Vec<f64>);

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The element floor(N·p).
    pub fn at(&self, p: f64) -> f64 {
        let rank = ((self.0.len() as f64 * p) as usize).min(self.0.len().saturating_sub(1));
        self.0.get(rank).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// `median (least to most)`.
    pub fn summary(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$} to {:.digits$})", self.median(), self.at(0.0), self.at(1.0))
    }
}
