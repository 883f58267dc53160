//! How much disk checkpoints take that are still to be fetched.

use base::units;
use std::path::Path;
use std::time::Duration;

use super::needs::Needs;
use report::{DoctorFinding, FindingLevel};
use stages::weights_size;

/// How long a hub may take for its index.
const LIMIT: Duration = Duration::from_secs(10);

/// Queries the hub for the size of each checkpoint that is not here yet, and adds that to the disk that is needed; `latest` has
/// the outputs that are here. Returns a finding for each checkpoint of unknown size.
pub fn sized(needs: &mut Needs, latest: &Path) -> Vec<DoctorFinding> {
    let mut unknown = Vec::new();
    let mut counted = Vec::new();
    for (task, weights) in std::mem::take(&mut needs.weights) {
        if latest.join(&task).join("weights.json").is_file() {
            continue;
        }
        let name = weights.hf.clone().unwrap_or_default();
        match weights_size(&weights, LIMIT) {
            Ok(Some(size)) => {
                needs.disk.push((format!("{task}: {name}, {}", units::size(size)), size));
                counted.push((task, weights));
            }
            Ok(None) => {}
            Err(failure) => {
                let finding = DoctorFinding::fact(name, "size not known")
                    .needed("room on the disk", &[task], FindingLevel::Doubtful)
                    .fix(format!(
                        "{}{}",
                        failure.what,
                        failure.hint.map_or_else(String::new, |hint| format!("; {hint}"))
                    ));
                unknown.push(finding);
            }
        }
    }
    needs.weights = counted;
    unknown
}
