//! Whether a state folder was made by this user on this machine.
//!
//! A state folder can come with an archive or a clone, and then its journals hold what another person wrote. They name
//! what a crashed run has left: containers, shared memory, locked clocks. These are only removed where the folder has
//! the mark that a run leaves in it: a digest over the machine, the user, and the inode of the folder with the time at
//! which that was made, which no person can choose. A folder that is moved keeps it, a copy does not.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::StateFolder;
use super::durable::{PathError, replace_cache};
use base::files::{Digest, read_text};

impl StateFolder {
    /// Whether a run of this user on this machine has left its mark in it.
    pub fn is_made_here(&self) -> bool {
        self.mark().is_some_and(|mark| read_text(self.binding()).is_ok_and(|text| text == mark))
    }

    /// Leaves the mark, for the runs that follow.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn mark_as_made_here(&self) -> Result<(), PathError> {
        match self.mark() {
            Some(mark) if !self.is_made_here() => replace_cache(&self.binding(), mark.as_bytes()),
            _ => Ok(()),
        }
    }

    /// `None`: the folder cannot be looked at.
    fn mark(&self) -> Option<String> {
        let folder = statx(CWD, self.state(), AtFlags::empty(), StatxFlags::INO | StatxFlags::BTIME).ok()?;
        let machine = read_text("/etc/machine-id").unwrap_or_default();
        let user = rustix::process::geteuid().as_raw();
        let made = format!("{} {} {}", folder.stx_ino, folder.stx_btime.tv_sec, folder.stx_btime.tv_nsec);
        Some(Digest::hash(format!("{machine} {user} {made}").as_bytes()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_that_is_moved_keeps_its_mark_and_a_copy_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let home = |name: &str| StateFolder::new(folder.path().to_owned(), folder.path().join(name));
        for name in ["made", "copied"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert!(!home("made").is_made_here(), "as one of an older program or from elsewhere");
        home("made").mark_as_made_here().unwrap();
        assert!(home("made").is_made_here());
        fs::copy(home("made").binding(), home("copied").binding()).unwrap();
        assert!(!home("copied").is_made_here());
        rustix::fs::rename(folder.path().join("made"), folder.path().join("moved")).unwrap();
        assert!(home("moved").is_made_here());
        assert!(!home("absent").is_made_here());
    }
}
