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
/// Needed to find programs and files, and to be let in by Slurm, whatever else is left out.
const ALWAYS: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "SLURM_CONF", "SLURM_JWT"];

/// Defaults of `sbatch` with which it would not return before its job has ended, or a job's messages would not be found.
const NOT_FOR_SBATCH: [&str; 2] = ["SBATCH_WAIT", "SBATCH_ERROR"];

/// Names the clusters of the jobs. Slurm's own name for it: it is never exported.
const CLUSTERS: &str = "SLURM_CLUSTERS";

/// The environment for Slurm's programs, which is also what a job of theirs gets. `only` are names beside the ever needed ones;
/// `None` is all that is not another allocation's or session's. `SBATCH_*`, with which users set their defaults, stay for
/// `sbatch`, and so does the user's token `SLURM_JWT`; the job's script takes them away.
pub fn environment(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    only: Option<&[String]>,
) -> BTreeMap<OsString, OsString> {
    ours.into_iter().filter(|(name, _)| is_exported(name, only)).collect()
}

/// Where the jobs of these flags go, if that is not this machine's own cluster: a list, or `all`.
fn clusters(flags: &[String], env: &BTreeMap<OsString, OsString>) -> Option<OsString> {
    let mut named = env.get(OsStr::new("SBATCH_CLUSTERS")).cloned();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let joined = ["--clusters=", "--cluster=", "-M"].iter().find_map(|start| flag.strip_prefix(start));
        match joined {
            _ if ["--clusters", "--cluster", "-M"].contains(&flag.as_str()) => {
                named = flags.next().map(OsString::from).or(named);
            }
            Some(list) => named = Some(list.into()),
            None => {}
        }
    }
    named.filter(|list| !list.is_empty())
}

/// The environment for Slurm's programs, with the clusters that are meant for those that look at jobs, and end them.
pub fn at_clusters(mut env: BTreeMap<OsString, OsString>, flags: &[String]) -> BTreeMap<OsString, OsString> {
    if let Some(clusters) = clusters(flags, &env) {
        env.insert(CLUSTERS.into(), clusters);
    }
    env
}

/// The clusters that [`at_clusters`] has set.
pub fn clusters_of(env: &BTreeMap<OsString, OsString>) -> Option<&OsStr> {
    env.get(OsStr::new(CLUSTERS)).map(OsString::as_os_str)
}

/// A number alone may be a job of another one of them, too.
pub fn has_many_clusters(env: &BTreeMap<OsString, OsString>) -> bool {
    clusters_of(env).is_some_and(|list| list == "all" || list.as_encoded_bytes().contains(&b','))
}

/// For one of Slurm's programs: its first arguments, and the environment without the user's defaults for it, by which `squeue` would
/// leave out some jobs.
pub(super) fn query_environment(
    program: &str,
    mut env: BTreeMap<OsString, OsString>,
) -> (Option<OsString>, BTreeMap<OsString, OsString>) {
    let clusters = env.remove(OsStr::new(CLUSTERS));
    // It has its own option, or variable.
    if program == "sbatch" {
        env.retain(|name, _| !name.to_str().is_some_and(|name| NOT_FOR_SBATCH.contains(&name)));
        return (None, env);
    }
    let defaults = ["SQUEUE_", "SCANCEL_", "SCONTROL_"];
    env.retain(|name, _| !name.to_str().is_some_and(|name| defaults.iter().any(|start| name.starts_with(start))));
    let argument = clusters.map(|clusters| {
        let mut argument = OsString::from("--clusters=");
        argument.push(clusters);
        argument
    });
    (argument, env)
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
            ["SLURM_JOB_ID", "SLURM_JWT", "SLURM_CONF", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PATH", "SBATCH_ACCOUNT"];
        assert_eq!(left(&names, None), ["PATH", "SBATCH_ACCOUNT", "SLURM_CONF", "SLURM_JWT"]);
        assert_eq!(left(&["REGATTA_RUN", "CUDA_VISIBLE_DEVICES", "SSH_TTY"], None), [""; 0]);
    }

    #[test]
    fn jobs_are_looked_for_where_they_were_submitted() {
        let env = |names: &[(&str, &str)]| -> BTreeMap<OsString, OsString> {
            names.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let of = |flags: &[&str], names: &[(&str, &str)]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let (argument, env) = query_environment("squeue", at_clusters(env(names), &flags));
            (argument.map(|argument| argument.into_string().unwrap()), env.len())
        };
        let clusters = |list: &str| Some(format!("--clusters={list}"));
        assert_eq!(of(&["--mem=0"], &[("PATH", "x")]), (None, 1));
        assert_eq!(of(&[], &[("SBATCH_CLUSTERS", "a")]).0, clusters("a"));
        assert_eq!(of(&["--clusters=b"], &[("SBATCH_CLUSTERS", "a")]).0, clusters("b"));
        assert_eq!(of(&["-M", "b,c", "--mem=0"], &[]).0, clusters("b,c"));
        assert_eq!(of(&["-Mb"], &[]).0, clusters("b"));
        let (argument, env) = query_environment("sbatch", at_clusters(env(&[]), &["--clusters=b".to_owned()]));
        assert_eq!((argument, env.len()), (None, 0), "it has its own option, and the job gets none");
    }

    #[test]
    fn a_persons_defaults_hide_no_job() {
        let env: [(OsString, OsString); 4] =
            ["SQUEUE_PARTITION", "SCANCEL_STATE", "SBATCH_QOS", "PATH"].map(|name| (name.into(), "x".into()));
        let left = |program| {
            let (_, env) = query_environment(program, env.clone().into());
            env.into_keys().map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(left("squeue"), ["PATH", "SBATCH_QOS"]);
        assert_eq!(left("sbatch").len(), 4, "what the job inherits");
        let waits = [("SBATCH_WAIT", "1"), ("SBATCH_ERROR", "err"), ("SBATCH_QOS", "high")];
        let (_, env) = query_environment("sbatch", waits.map(|(name, value)| (name.into(), value.into())).into());
        assert_eq!(env.len(), 1, "it returns when it has submitted the job, which writes to one file");
    }

    #[test]
    fn a_list_lets_nothing_else_through() {
        let names = ["HF_HOME", "HF_TOKEN", "HOME", "SBATCH_ACCOUNT", "SLURM_JOB_ID"];
        assert_eq!(left(&names, Some(&["HF_HOME".to_owned()])), ["HF_HOME", "HOME", "SBATCH_ACCOUNT"]);
    }
}
