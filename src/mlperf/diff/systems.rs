//! Which system of one submission is compared with which of another: the one of its name, else one of the same accelerators.

use std::collections::BTreeMap;

/// What a system is: its accelerator and how many there are in all. None: its description does not give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SystemKind(Option<(String, u64)>);

impl SystemKind {
    /// From the fields of a system's JSON.
    pub(super) fn of(fields: &BTreeMap<String, String>) -> Self {
        let count = |name: &str| fields.get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let per_node = count("accelerators_per_node").filter(|count| *count > 0);
        // `NVIDIA H200-SXM-141GB`, `H200 SXM`: the part with a number is the model.
        let model = fields.get("accelerator_model_name").and_then(|name| {
            let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
            parts.find(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.contains(char::is_numeric))
        });
        let nodes = count("number_of_nodes").unwrap_or(1);
        Self(model.zip(per_node).map(|(model, per_node)| (model.to_ascii_lowercase(), per_node * nodes)))
    }
}

/// The systems of both sides, paired.
pub(super) struct SystemPairs {
    /// Of `a`, each with its partner in `b`.
    pairs: Vec<(String, Option<String>)>,
    /// Of `b`, without a partner.
    alone: Vec<String>,
}

impl SystemPairs {
    pub(super) fn of(a: &BTreeMap<String, SystemKind>, b: &BTreeMap<String, SystemKind>) -> Self {
        let mut alone: Vec<String> = b.keys().filter(|name| !a.contains_key(*name)).cloned().collect();
        let mut pairs = Vec::new();
        for (name, kind) in a {
            let same = |other: &String| kind.0.is_some() && b.get(other) == Some(kind);
            let only = a.len() == 1 && b.len() == 1;
            let partner = if b.contains_key(name) {
                Some(name.clone())
            } else {
                let at = alone.iter().position(|other| only || same(other));
                at.map(|at| alone.remove(at))
            };
            pairs.push((name.clone(), partner));
        }
        Self { pairs, alone }
    }

    /// One on each side: there is nothing to distinguish.
    fn is_one(&self) -> bool {
        matches!(&self.pairs[..], [(_, Some(_))]) && self.alone.is_empty()
    }

    /// What a system of `a` is called in the comparison; None: there is only one.
    pub(super) fn name_of_a(&self, system: &str) -> Option<String> {
        self.name(|(name, _)| name == system, system)
    }

    pub(super) fn name_of_b(&self, system: &str) -> Option<String> {
        self.name(|(_, partner)| partner.as_deref() == Some(system), system)
    }

    fn name(&self, is_it: impl Fn(&&(String, Option<String>)) -> bool, system: &str) -> Option<String> {
        if self.is_one() {
            return None;
        }
        Some(match self.pairs.iter().find(is_it) {
            Some((name, Some(partner))) if name != partner => format!("{name} ↔ {partner}"),
            _ => system.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn systems(all: &[(&str, &str, u64)]) -> BTreeMap<String, SystemKind> {
        let one = |(name, model, count): &(&str, &str, u64)| {
            let fields =
                [("accelerator_model_name", (*model).to_owned()), ("accelerators_per_node", count.to_string())];
            let fields = fields.map(|(name, value)| (name.to_owned(), value));
            ((*name).to_owned(), SystemKind::of(&BTreeMap::from(fields)))
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn systems_are_paired_by_name_then_by_accelerators() {
        let a = systems(&[("dell", "NVIDIA H200-SXM-141GB", 8), ("box", "NVIDIA B200", 8), ("old", "NVIDIA H100", 8)]);
        let b = systems(&[("sim", "H200 SXM", 8), ("box", "NVIDIA B200", 4), ("half", "NVIDIA H100", 4)]);
        let pairs = SystemPairs::of(&a, &b);
        assert_eq!(pairs.name_of_a("dell").as_deref(), Some("dell ↔ sim"));
        assert_eq!(pairs.name_of_b("sim").as_deref(), Some("dell ↔ sim"));
        assert_eq!(pairs.name_of_b("box").as_deref(), Some("box"));
        assert_eq!(pairs.name_of_a("old").as_deref(), Some("old"));
        assert_eq!(pairs.name_of_b("half").as_deref(), Some("half"));
    }

    #[test]
    fn one_system_on_each_side_needs_no_name() {
        let pairs = SystemPairs::of(&systems(&[("a", "NVIDIA H200", 8)]), &systems(&[("b", "", 8)]));
        assert_eq!((pairs.name_of_a("a"), pairs.name_of_b("b")), (None, None));
    }
}
