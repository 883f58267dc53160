//! A failure on a disk that is full: often the stage could not even log why.

use base::event::Failure;

/// What the failure itself says of its cause is more exact. `is_removed`: the unfinished output.
pub fn note_full_disk(failure: &mut Failure, is_removed: bool) {
    let end = if is_removed { "; the unfinished output was removed" } else { "" };
    failure.cause.get_or_insert_with(|| format!("the disk is full{end}"));
    let hint = "`regatta gc` lists what can be removed; finished outputs are kept";
    failure.hint.get_or_insert_with(|| hint.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::FailureKind;

    #[test]
    fn a_full_disk_is_the_cause_of_what_has_no_other() {
        let mut failure = Failure::new(FailureKind::Exit(1), "exit code 1");
        note_full_disk(&mut failure, false);
        assert_eq!(failure.cause.as_deref(), Some("the disk is full"));
        let known =
            Failure::new(FailureKind::System, "it does not come").cause("the hub broke off").hint("run it again");
        let mut failure = known.clone();
        note_full_disk(&mut failure, true);
        assert_eq!(failure, known);
    }
}
