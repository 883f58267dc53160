//! Submitting a job, and knowing what a failure to submit means.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::queue::{Environment, PendingReason, error_text, run_query};
use exec::process::{ProbeOutput, ProbeResult};

/// How long `sbatch` may take. Its own time-outs and repetitions add up to about a minute.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);

/// A job to be.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Nothing else has it.
    pub name: String,
    /// Where it starts; must be on a filesystem that its nodes share.
    pub folder: PathBuf,
    pub script: PathBuf,
    /// What the batch system and the script print. `%a` in it is an element's index.
    pub output: PathBuf,
    /// It is an array: of which elements, as `0-3,7`, and how many of them may run at the same time.
    pub array: Option<(String, Option<u32>)>,
    /// Seconds before the time limit at which the script gets USR2.
    pub warn_s: u64,
    /// The user's own: account, partition, nodes and so on.
    pub flags: Vec<String>,
    pub env: Environment,
}

/// The outcome of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitOutcome {
    /// The job's number.
    Number(String),
    /// It will never be taken like this: why.
    Refused(String),
    /// Unknown: the job may be there, or not. Look for it by its name before it is submitted again.
    Unknown(String),
    /// It is not there, and may be taken later: why.
    RetryLater(String),
    /// The same, because the user's limit of concurrent jobs is reached: fewer of an array may be taken.
    TooMany(String),
    /// There is no `sbatch`.
    Absent(String),
}

impl Submission {
    /// The arguments of `sbatch`. Of two equal flags the last one counts, so ours come last.
    pub fn sbatch_argv(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = self.flags.iter().map(OsString::from).collect();
        let with = |flag: &str, value: &std::path::Path| {
            let mut word = OsString::from(flag);
            word.push(value);
            word
        };
        words.extend(
            ["--parsable", "--export=ALL", "--no-requeue", "--kill-on-invalid-dep=yes", "--open-mode=append"]
                .map(OsString::from),
        );
        words.push(format!("--signal=B:USR2@{}", self.warn_s).into());
        words.push(format!("--job-name={}", self.name).into());
        if let Some((elements, at_once)) = &self.array {
            let at_once = at_once.map(|at_once| format!("%{at_once}")).unwrap_or_default();
            words.push(format!("--array={elements}{at_once}").into());
        }
        words.push(with("--chdir=", &self.folder));
        words.push(with("--output=", &literal_folder(&self.output)));
        words.push(self.script.clone().into());
        words
    }
}

/// Slurm puts values in the place of `%x`, of which only those in the file's name are meant.
fn literal_folder(pattern: &Path) -> PathBuf {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else { return pattern.to_owned() };
    let doubled: Vec<u8> =
        folder.as_os_str().as_bytes().iter().flat_map(|byte| vec![*byte; if *byte == b'%' { 2 } else { 1 }]).collect();
    PathBuf::from(OsString::from_vec(doubled)).join(name)
}

/// Why no job can be submitted from a folder.
pub fn folder_problem(folder: &Path) -> Option<String> {
    let is_escape = folder.as_os_str().as_bytes().contains(&b'\\');
    is_escape.then(|| format!("{} cannot be a job's folder: Slurm takes a backslash for an escape", folder.display()))
}

/// Submits once.
pub async fn submit(submission: &Submission) -> SubmitOutcome {
    parse_outcome(&run_query("sbatch", submission.sbatch_argv(), submission.env.clone(), COMMAND_TIMEOUT).await)
}

fn parse_outcome(result: &ProbeResult) -> SubmitOutcome {
    let complaint = error_text("sbatch", result);
    match result {
        ProbeResult::Missing | ProbeResult::Failed(_) => SubmitOutcome::Absent(complaint),
        ProbeResult::TimedOut => SubmitOutcome::Unknown(complaint),
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => {
            // `123`, or `123;cluster`; a plug-in may have printed something before.
            let number = out.lines().filter_map(|line| line.trim().split(';').next()).rfind(|word| is_number(word));
            number.map_or(SubmitOutcome::Unknown(complaint), |number| SubmitOutcome::Number(number.to_owned()))
        }
        ProbeResult::Answered(answer) if was_cut_off(answer.code, &answer.err) => SubmitOutcome::Unknown(complaint),
        ProbeResult::Answered(_) => {
            let mentions = |words: &[&str]| words.iter().any(|word| complaint.contains(word));
            let is_limit = mentions(&[POLICY]);
            if mentions(&UNKNOWN) {
                SubmitOutcome::Unknown(complaint)
            } else if mentions(&TOO_MANY) || is_limit && !names_another_limit(&complaint) {
                SubmitOutcome::TooMany(complaint)
            } else if is_limit {
                SubmitOutcome::Refused(complaint)
            } else if mentions(&LATER) {
                SubmitOutcome::RetryLater(complaint)
            } else {
                SubmitOutcome::Refused(complaint)
            }
        }
    }
}

/// Whether it ended in the middle of its work: by a signal, or with an exit code that `sbatch` has for none of its own
/// errors. With 255 it refuses options that it does not understand; a wrapper over ssh ends with 255, too, when it
/// loses its connection.
fn was_cut_off(code: i32, stderr: &str) -> bool {
    let is_own = || stderr.lines().any(|line| line.starts_with("sbatch: error: ") || line.contains("sbatch --help"));
    code > 128 && !(code == 255 && is_own())
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Slurm's messages (`slurm_errno.c`) for a request that may have arrived and an answer that did not.
const UNKNOWN: [&str; 15] = [
    "Socket timed out",
    "Connection timed out",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "(send failure)",
    "(receive failure)",
    "(shutdown failure)",
    "Message send failure",
    "Message receive failure",
    "Communication shutdown failure",
    "Unexpected message received",
    "Process is shutting down",
    "Connection reset",
    "Broken pipe",
    "Insane message length",
];
/// Its messages for what may be different in a while.
const LATER: [&str; 10] = [
    "Unable to contact slurm controller",
    "Communication connection failure",
    "Connection refused",
    "Rate limit exceeded",
    "Slurm backup controller in standby mode",
    "Resource temporarily unavailable",
    "temporarily unable to accept job",
    "Slurm temporarily",
    "System call interrupted",
    "Unable to resolve",
];

/// The same for a limit of jobs per user: in the names of limits (`AssocMaxSubmitJobLimit`, `QOSGrpSubmitJobsLimit`),
/// and in words.
const TOO_MANY: [&str; 3] = ["SubmitJob", "max jobs", "MaxJobCount"];

/// What it adds for any limit of an account or quality of service, with all that it may be.
const POLICY: &str = "Job violates accounting/QOS policy";

/// Which limit it was, of those that no waiting changes. Older versions do not name it.
fn names_another_limit(complaint: &str) -> bool {
    let mut words = complaint.split([';', ' ', ',', ':']);
    words.any(|word| {
        let is_limit = ["Max", "Grp", "Min"].iter().any(|kind| word.contains(kind));
        let is_name = word.starts_with("QOS") || word.starts_with("Assoc");
        is_name && is_limit || matches!(PendingReason::read(word), PendingReason::Never(..))
    })
}

// What of our environment a job gets.
//
// `sbatch --export=NONE` would make the node load a login profile, which takes seconds and can fail; so the environment
// is scrubbed here, and `sbatch` takes all of what is left.

/// What belongs to where we are: another allocation, another MPI world, another session, another run of ours.
const NOT_OURS_TO_GIVE: &str = "SLURM_ SLURMD_ PMIX_ PMI_ OMPI_ PRTE_ REGATTA_ CUDA_VISIBLE_DEVICES SSH_ DISPLAY XDG_";
/// Needed to find programs and files, and to be let in by Slurm, whatever else is left out.
const ALWAYS: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "SLURM_CONF", "SLURM_JWT"];

/// Defaults of `sbatch` with which it would not return before its job has ended, or a job's messages would not be
/// found.
const NOT_FOR_SBATCH: [&str; 2] = ["SBATCH_WAIT", "SBATCH_ERROR"];

/// Names the clusters of the jobs. Slurm's own name for it: it is never exported.
const CLUSTERS: &str = "SLURM_CLUSTERS";

/// The environment for Slurm's programs and for the jobs that they start. `only` names variables to pass besides those
/// that are always needed; `None` is all that is not another allocation's or session's. `SBATCH_*`, with which users
/// set their defaults, stay for `sbatch`, and so does the user's token `SLURM_JWT`; the job's script takes them away.
pub fn environment(ours: impl IntoIterator<Item = (OsString, OsString)>, only: Option<&[String]>) -> Environment {
    ours.into_iter().filter(|(name, _)| is_exported(name, only)).collect()
}

/// Where the jobs of these flags go, if that is not this machine's own cluster: a list, or `all`.
fn clusters(flags: &[String], env: &Environment) -> Option<OsString> {
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
pub fn at_clusters(mut env: Environment, flags: &[String]) -> Environment {
    if let Some(clusters) = clusters(flags, &env) {
        env.insert(CLUSTERS.into(), clusters);
    }
    env
}

/// The clusters that [`at_clusters`] has set.
pub fn clusters_of(env: &Environment) -> Option<&OsStr> {
    env.get(OsStr::new(CLUSTERS)).map(OsString::as_os_str)
}

/// A number alone may be a job of another one of them, too.
pub fn has_many_clusters(env: &Environment) -> bool {
    clusters_of(env).is_some_and(|list| list == "all" || list.as_encoded_bytes().contains(&b','))
}

/// For one of Slurm's programs: its first arguments, and the environment without the user's defaults for it, by which
/// `squeue` would leave out some jobs.
pub(super) fn query_environment(program: &str, mut env: Environment) -> (Option<OsString>, Environment) {
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
    !NOT_OURS_TO_GIVE.split(' ').any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_reply(code: i32, stdout: &str, stderr: &str) -> SubmitOutcome {
        parse_outcome(&ProbeResult::Answered(ProbeOutput { code, out: stdout.to_owned(), err: stderr.to_owned() }))
    }

    #[test]
    fn the_number_is_read_with_and_without_a_cluster() {
        assert_eq!(parse_reply(0, "123\n", ""), SubmitOutcome::Number("123".to_owned()));
        assert_eq!(parse_reply(0, "welcome to lab\n123;lab\n", ""), SubmitOutcome::Number("123".to_owned()));
        assert!(matches!(parse_reply(0, "", ""), SubmitOutcome::Unknown(_)));
    }

    #[test]
    fn a_lost_answer_is_not_a_refusal_and_a_refusal_is_final() {
        let lost = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
        assert_eq!(
            parse_reply(1, "", lost),
            SubmitOutcome::Unknown("Batch job submission failed: Socket timed out on send/recv operation".to_owned())
        );
        let down = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)";
        assert!(matches!(parse_reply(1, "", down), SubmitOutcome::RetryLater(_)));
        let full = "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates \
            accounting/QOS policy (job submit limit, user's size and/or time limits)";
        assert!(matches!(parse_reply(1, "", full), SubmitOutcome::TooMany(_)));
        let unnamed = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit \
            limit, user's size and/or time limits)";
        assert!(matches!(parse_reply(1, "", unnamed), SubmitOutcome::TooMany(_)));
        let long = format!("sbatch: error: QOSMaxWallDurationPerJobLimit\n{unnamed}");
        assert!(matches!(parse_reply(1, "", &long), SubmitOutcome::Refused(_)), "it will never be taken");
        let wrong = "sbatch: error: invalid partition specified: gpuu\nsbatch: error: Batch job submission failed: \
            Invalid partition name specified";
        assert_eq!(
            parse_reply(1, "", wrong),
            SubmitOutcome::Refused(
                "invalid partition specified: gpuu; Batch job submission failed: Invalid partition name specified"
                    .to_owned()
            )
        );
        assert!(matches!(parse_outcome(&ProbeResult::TimedOut), SubmitOutcome::Unknown(_)));
        assert!(matches!(parse_reply(130, "", ""), SubmitOutcome::Unknown(_)), "it was interrupted");
    }

    #[test]
    fn an_option_that_it_does_not_understand_is_a_refusal() {
        let value = "sbatch: error: Invalid --mem specification\n";
        assert_eq!(parse_reply(255, "", value), SubmitOutcome::Refused("Invalid --mem specification".to_owned()));
        let option = "sbatch: unrecognized option '--nonsense'\nTry \"sbatch --help\" for more information\n";
        assert!(matches!(parse_reply(255, "", option), SubmitOutcome::Refused(_)));
        let lost = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
        assert!(matches!(parse_reply(255, "", lost), SubmitOutcome::Unknown(_)));
        let wrapper = "client_loop: send disconnect: Broken pipe\n";
        assert!(matches!(parse_reply(255, "", wrapper), SubmitOutcome::Unknown(_)), "ssh lost its connection");
    }

    #[test]
    fn a_request_that_may_have_arrived_is_looked_for() {
        let reply = |why: &str| parse_reply(1, "", &format!("sbatch: error: Batch job submission failed: {why}"));
        let contact = "Unable to contact slurm controller";
        for why in ["send", "receive", "shutdown"].map(|step| format!("{contact} ({step} failure)")) {
            assert!(matches!(reply(&why), SubmitOutcome::Unknown(_)), "{why}");
        }
        for why in ["Unexpected message received", "Communication shutdown failure", "Connection timed out reading"] {
            assert!(matches!(reply(why), SubmitOutcome::Unknown(_)), "{why}");
        }
        for why in ["Communication connection failure", "Rate limit exceeded, please retry momentarily"] {
            assert!(matches!(reply(why), SubmitOutcome::RetryLater(_)), "{why}");
        }
    }

    #[test]
    fn the_words_are_these() {
        let submission = Submission {
            name: "regatta-it-1".to_owned(),
            folder: "/p/.regatta/jobs/k-0".into(),
            script: "/p/.regatta/jobs/k-0/script".into(),
            output: "/p/.regatta/jobs/k-0/output".into(),
            array: None,
            warn_s: 60,
            flags: vec!["--partition=gpu".to_owned(), "--requeue".to_owned()],
            env: Environment::new(),
        };
        let words: Vec<_> = submission.sbatch_argv().into_iter().map(|word| word.into_string().unwrap()).collect();
        insta::assert_snapshot!(words.join("\n"), @r"
        --partition=gpu
        --requeue
        --parsable
        --export=ALL
        --no-requeue
        --kill-on-invalid-dep=yes
        --open-mode=append
        --signal=B:USR2@60
        --job-name=regatta-it-1
        --chdir=/p/.regatta/jobs/k-0
        --output=/p/.regatta/jobs/k-0/output
        /p/.regatta/jobs/k-0/script
        ");
        let array =
            |at_once| Submission { array: Some(("0-3,7".to_owned(), at_once)), ..submission.clone() }.sbatch_argv();
        assert!(array(None).contains(&"--array=0-3,7".into()));
        assert!(array(Some(8)).contains(&"--array=0-3,7%8".into()));
        let percent = Submission { output: "/at-50%util/arrays/a-%a.output".into(), ..submission };
        assert!(percent.sbatch_argv().contains(&"--output=/at-50%%util/arrays/a-%a.output".into()));
        assert_eq!(folder_problem(Path::new("/at-50%util")), None);
        assert!(folder_problem(Path::new("/a\\b")).is_some());
    }

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
        let env = |names: &[(&str, &str)]| -> Environment {
            names.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let environment_of = |flags: &[&str], names: &[(&str, &str)]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let (argument, env) = query_environment("squeue", at_clusters(env(names), &flags));
            (argument.map(|argument| argument.into_string().unwrap()), env.len())
        };
        let clusters = |list: &str| Some(format!("--clusters={list}"));
        assert_eq!(environment_of(&["--mem=0"], &[("PATH", "x")]), (None, 1));
        assert_eq!(environment_of(&[], &[("SBATCH_CLUSTERS", "a")]).0, clusters("a"));
        assert_eq!(environment_of(&["--clusters=b"], &[("SBATCH_CLUSTERS", "a")]).0, clusters("b"));
        assert_eq!(environment_of(&["-M", "b,c", "--mem=0"], &[]).0, clusters("b,c"));
        assert_eq!(environment_of(&["-Mb"], &[]).0, clusters("b"));
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
