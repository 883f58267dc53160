//! Submitting a job, and knowing what a failure to submit means.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::query::{Environment, QueryResult, run_query};
use super::state::PendingReason;

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

fn parse_outcome(query_result: &QueryResult) -> SubmitOutcome {
    let complaint = query_result.error_text("sbatch");
    match query_result {
        QueryResult::Absent(why) => SubmitOutcome::Absent(why.clone()),
        QueryResult::TimedOut => SubmitOutcome::Unknown(complaint),
        QueryResult::Answered { code: 0, stdout, .. } => {
            // `123`, or `123;cluster`; a plug-in may have printed something before.
            let number = stdout.lines().filter_map(|line| line.trim().split(';').next()).rfind(|word| is_number(word));
            number.map_or(SubmitOutcome::Unknown(complaint), |number| SubmitOutcome::Number(number.to_owned()))
        }
        QueryResult::Answered { code, stderr, .. } if was_cut_off(*code, stderr) => SubmitOutcome::Unknown(complaint),
        QueryResult::Answered { .. } => {
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

/// Whether it ended in the middle of its work: by a signal, or with an exit code that `sbatch` has for none of its own errors. With 255 it
/// refuses options that it does not understand; a wrapper over ssh ends with 255, too, when it loses its connection.
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

/// The same for a limit of jobs per user: in the names of limits (`AssocMaxSubmitJobLimit`, `QOSGrpSubmitJobsLimit`), and in words.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_reply(code: i32, stdout: &str, stderr: &str) -> SubmitOutcome {
        parse_outcome(&QueryResult::Answered { code, stdout: stdout.to_owned(), stderr: stderr.to_owned() })
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
        let full = "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        assert!(matches!(parse_reply(1, "", full), SubmitOutcome::TooMany(_)));
        let unnamed = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        assert!(matches!(parse_reply(1, "", unnamed), SubmitOutcome::TooMany(_)));
        let long = format!("sbatch: error: QOSMaxWallDurationPerJobLimit\n{unnamed}");
        assert!(matches!(parse_reply(1, "", &long), SubmitOutcome::Refused(_)), "it will never be taken");
        let wrong = "sbatch: error: invalid partition specified: gpuu\nsbatch: error: Batch job submission failed: Invalid partition name specified";
        assert_eq!(
            parse_reply(1, "", wrong),
            SubmitOutcome::Refused(
                "invalid partition specified: gpuu; Batch job submission failed: Invalid partition name specified"
                    .to_owned()
            )
        );
        assert!(matches!(parse_outcome(&QueryResult::TimedOut), SubmitOutcome::Unknown(_)));
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
}
