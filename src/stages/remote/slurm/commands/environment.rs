//! What of our environment a job gets.
//!
//! `sbatch --export=NONE` would make the node load a login profile, which takes seconds and can fail; so the environment is
//! scrubbed here, and `sbatch` takes all of what is left.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// What belongs to where we are: another allocation, another MPI world, another session, another run of ours.
const NOT_OURS_TO_GIVE: [&str; 11] = [
    "SLURM_",
    "SLURMD_",
    "PMIX_",
    "PMI_",
    "OMPI_",
    "PRTE_",
    "REGATTA_",
    "CUDA_VISIBLE_DEVICES",
    "SSH_",
    "DISPLAY",
    "XDG_",
];
/// Needed to find programs and files, whatever else is left out.
const ALWAYS: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "SLURM_CONF"];

/// The environment for Slurm's programs, which is also what a job of theirs gets. `only` are names beside the ever needed ones;
/// `None` is all that is not another allocation's or session's. `SBATCH_*`, with which users set their defaults, stay for
/// `sbatch`; the job's script takes them away.
pub fn environment(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    only: Option<&[String]>,
) -> BTreeMap<OsString, OsString> {
    ours.into_iter().filter(|(name, _)| is_exported(name, only)).collect()
}

fn is_exported(name: &OsStr, only: Option<&[String]>) -> bool {
    let Some(name) = name.to_str() else { return only.is_none() };
    if ALWAYS.contains(&name) || name.starts_with("SBATCH_") {
        return true;
    }
    if let Some(only) = only {
        return only.iter().any(|wanted| wanted == name);
    }
    !NOT_OURS_TO_GIVE.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(names: &[&str], only: Option<&[String]>) -> Vec<String> {
        let ours = names.iter().map(|name| (OsString::from(name), OsString::from("x")));
        environment(ours, only).into_keys().map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_job_inherits_no_other_allocation() {
        let names =
            ["SLURM_JOB_ID", "SLURM_CONF", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "HF_HOME", "PATH", "SBATCH_ACCOUNT"];
        assert_eq!(left(&names, None), ["HF_HOME", "PATH", "SBATCH_ACCOUNT", "SLURM_CONF"]);
        assert_eq!(left(&["REGATTA_RUN", "CUDA_VISIBLE_DEVICES", "SSH_TTY"], None), [""; 0]);
    }

    #[test]
    fn a_list_lets_nothing_else_through() {
        let names = ["HF_HOME", "HF_TOKEN", "HOME", "SBATCH_ACCOUNT", "SLURM_JOB_ID"];
        assert_eq!(left(&names, Some(&["HF_HOME".to_owned()])), ["HF_HOME", "HOME", "SBATCH_ACCOUNT"]);
    }
}
