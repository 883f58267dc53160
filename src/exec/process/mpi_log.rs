//! The log of an MPI world is split by rank: which rank printed what, and which failed first.
//!
//! Open MPI's `--tag-output` writes `[JOB,RANK]<stdout>:` in front of each line.

use super::log::AttemptLog;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The rank that a line comes from, and the line without its tag.
pub fn untagged(line: &str) -> (Option<u32>, &str) {
    let tagged = || {
        let (tag, rest) = line.strip_prefix('[')?.split_once(']')?;
        let rank = tag.split_once(',')?.1.parse().ok()?;
        let rest = rest.strip_prefix('<')?.split_once(">:")?.1;
        Some((rank, rest))
    };
    tagged().map_or((None, line), |(rank, rest)| (Some(rank), rest))
}

/// The rank that `mpirun` names as the first to fail.
pub fn first_to_fail(lines: &[String]) -> Option<u32> {
    lines.iter().find_map(|line| {
        let line = line.trim();
        // `Process name: [[12776,1],1]`,
        // `… noticed that process rank 1 with PID 0 on node x exited on signal 9 (Killed).`,
        // `MPI_ABORT was invoked on rank 2 in communicator …`
        let number = line
            .strip_prefix("Process name: [[")
            .and_then(|rest| rest.rsplit_once("],"))
            .map(|(_, rank)| rank.trim_end_matches(']'))
            .or_else(|| line.split_once("noticed that process rank ")?.1.split(' ').next())
            .or_else(|| line.split_once("MPI_ABORT was invoked on rank ")?.1.split(' ').next());
        number?.parse().ok()
    })
}

/// Writes what an attempt adds to a world's log, rank by rank, into `<log>.rank<k>.log`, in place of an earlier
/// attempt's; goes on where it stopped.
#[derive(Debug)]
pub struct Splitter {
    log: PathBuf,
    read: u64,
    ranks: BTreeMap<u32, File>,
}

impl Splitter {
    /// Removes the logs of an earlier attempt's ranks: a rank that prints nothing has none.
    pub fn new(log: &AttemptLog) -> Self {
        let log_path = log.path();
        let stem = log_path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let items = log_path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        for item in items {
            let name = item.file_name();
            let rank =
                name.to_str().and_then(|name| name.strip_prefix(&stem)?.strip_prefix(".rank")?.strip_suffix(".log"));
            if rank.is_some_and(|rank| rank.parse::<u32>().is_ok()) {
                let _ = fs::remove_file(item.path());
            }
        }
        Self { log: log_path.to_owned(), read: log.begin(), ranks: BTreeMap::new() }
    }

    /// Where a rank's own log is: `triton.log` → `triton.rank1.log`.
    pub fn path(log: &Path, rank: u32) -> PathBuf {
        log.with_extension(format!("rank{rank}.log"))
    }

    /// Takes the whole lines that came since.
    pub fn step(&mut self) -> std::io::Result<()> {
        let mut log = File::open(&self.log)?;
        log.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            if let (Some(rank), text) = untagged(&line) {
                self.rank(rank)?.write_all(text.as_bytes())?;
            }
        }
        self.read += whole as u64;
        Ok(())
    }

    fn rank(&mut self, rank: u32) -> std::io::Result<&mut File> {
        match self.ranks.entry(rank) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                Ok(entry.insert(File::create(Self::path(&self.log, rank))?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_taken_apart_as_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("triton.log");
        let mut file = File::create(&log).unwrap();
        file.write_all(b"[1,0]<stdout>:of an earlier attempt\n").unwrap();
        std::fs::write(folder.path().join("triton.rank7.log"), "of an earlier attempt\n").unwrap();
        let mut splitter = Splitter::new(&AttemptLog::from_now(&log));
        assert!(!folder.path().join("triton.rank7.log").exists());
        file.write_all(b"[1,0]<stdout>:one\n[1,1]<stderr>:two\n[1,0]<std").unwrap();
        splitter.step().unwrap();
        file.write_all(b"out>:three\nmpirun says\n").unwrap();
        splitter.step().unwrap();
        let read = |rank| std::fs::read_to_string(folder.path().join(format!("triton.rank{rank}.log"))).unwrap();
        assert_eq!((read(0), read(1)), ("one\nthree\n".to_owned(), "two\n".to_owned()));
    }

    #[test]
    fn the_first_to_fail_is_the_one_that_mpirun_names() {
        let first = |line: &str| first_to_fail(&["x".to_owned(), line.to_owned()]);
        assert_eq!(first("  Process name: [[12776,1],3]"), Some(3));
        assert_eq!(
            first("mpirun noticed that process rank 6 with PID 0 on node n1 exited on signal 9 (Killed)."),
            Some(6)
        );
        assert_eq!(first("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD"), Some(2));
        assert_eq!(first("[1,0]<stdout>:fine"), None);
    }

    #[test]
    fn a_line_without_a_tag_is_left_alone() {
        assert_eq!(untagged("[TensorRT-LLM][INFO] MPI size: 2"), (None, "[TensorRT-LLM][INFO] MPI size: 2"));
        assert_eq!(untagged("[1,2]<stderr>:[TensorRT-LLM][INFO] x"), (Some(2), "[TensorRT-LLM][INFO] x"));
    }
}
