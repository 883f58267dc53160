//! The arguments about the shared store (`regatta store …`, `--store`) and about the lock file (`regatta lock`, and
//! the options of a run).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::values::{HOW, KeyValueArg, Subject};
use base::diag::ErrorText;
use base::units::parse_duration;

/// The shared store and its keys, as given. What is `None` may be set in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct StoreSelection {
    /// Share outputs with other machines: a folder, s3://bucket/prefix, gs://… or az://…; `off`: do not [env:
    /// REGATTA_STORE].
    #[arg(help_heading = HOW, long = "store", value_name = "URL")]
    pub address: Option<String>,
    /// Sign outputs sent to the store with this Ed25519 key, a PEM file, and accept only signed ones [env:
    /// REGATTA_SIGN_KEY, a file or its text].
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub sign_key: Option<PathBuf>,
    /// Accept from the store only outputs signed with one of the public keys in this PEM file [env:
    /// REGATTA_TRUSTED_KEYS].
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trusted_keys: Option<PathBuf>,
}

/// What to do with the shared store.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum StoreRequest {
    /// Show what is in the store; with a manifest, where each of its outputs is.
    Status {
        /// A manifest [default: none, the store alone].
        #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
        manifest: Option<String>,
        /// Parameters of the manifest.
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<KeyValueArg>,
        /// Check every file of the manifest's outputs there against its digest; exit code 1 if one is damaged.
        #[arg(long, requires = "manifest")]
        verify: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreSelection,
    },
    /// Upload finished outputs of a manifest.
    Push {
        #[command(flatten)]
        subject: Subject,
        /// This stage alone. Repeatable.
        #[arg(long, value_name = "STAGE")]
        only: Vec<String>,
        /// Also read existing outputs, and repair damaged ones.
        #[arg(long)]
        verify: bool,
        #[command(flatten)]
        store: StoreSelection,
    },
    /// Fetch all outputs that a manifest needs and that are in the store; run nothing.
    Pull {
        #[command(flatten)]
        subject: Subject,
        /// Stop after this stage. Repeatable.
        #[arg(long, value_name = "STAGE")]
        until: Vec<String>,
        #[command(flatten)]
        store: StoreSelection,
    },
    /// Remove old outputs from the store (prints what would be removed; --yes removes it).
    Gc(StoreGc),
}

impl StoreRequest {
    /// The store that was named, with its keys.
    pub const fn selection(&self) -> &StoreSelection {
        match self {
            Self::Status { store, .. } | Self::Push { store, .. } | Self::Pull { store, .. } => store,
            Self::Gc(gc) => &gc.store,
        }
    }
}

/// What stays in the shared store.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct StoreGc {
    /// Remove outputs that were stored longer ago: `30d`, `12h`.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Keep the newest outputs up to this total size: `500GiB`.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub keep: Option<u64>,
    /// Keep unreferenced files that are newer than this: their output may still be uploading.
    #[arg(long, value_name = "AGE", value_parser = age, default_value = "1d")]
    pub grace: Duration,
    /// Remove it.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub store: StoreSelection,
}

/// `30d`, `12h`, `90m`, `45s`.
fn age(text: &str) -> Result<Duration, ErrorText> {
    parse_duration(text).map_err(|error| ErrorText::new(error).hint("write 30d, 12h, 90m or 45s"))
}

/// `500GiB`, `1.5TiB`, `2GB`, `4096`.
fn bytes(text: &str) -> Result<u64, ErrorText> {
    const UNITS: [(&str, f64); 9] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("B", 1.0),
    ];
    let unit = UNITS.iter().find(|(name, _)| text.ends_with(name));
    let number = unit.map_or(text, |(name, _)| &text[..text.len() - name.len()]);
    let value = number.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    let wrong = || ErrorText::new(format_args!("`{text}` is not a size; write 500GiB, 2TB or a number of bytes"));
    let value = value.ok_or_else(wrong)?;
    Ok((value * unit.map_or(1.0, |(_, size)| *size)) as u64)
}

/// The default path.
pub const LOCK_FILE: &str = "regatta.lock";

/// What a run does with the lock file, as given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct LockingArgs {
    /// Enforce the lock file: report differences before anything starts, and use the locked revisions. `exact` also
    /// enforces the bytes of builds and Regatta's version; `warn` only reports.
    #[arg(help_heading = HOW, long, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "inputs")]
    pub locked: Option<LockStrictness>,
    /// The lock file: written after success, or enforced with --locked [default: regatta.lock].
    #[arg(help_heading = HOW, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_lock")]
    pub lock: Option<PathBuf>,
    /// Do not write a lock file.
    #[arg(help_heading = HOW, long, conflicts_with = "locked")]
    pub no_lock: bool,
}

/// How strictly a lock file is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LockStrictness {
    // The requests, and what they name: commits, images, weights, versions.
    Inputs,
    // Bytes of outputs and this program's version, too.
    Exact,
    // Nothing; everything is reported.
    Warn,
}

/// What to do with lock files.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum LockRequest {
    /// Print what is in a lock file.
    Show {
        /// The file; `FILE#RUN` is one of its runs.
        #[arg(value_name = "FILE", default_value = LOCK_FILE, value_hint = ValueHint::FilePath)]
        file: String,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
    /// Compare two lock files, or one with what a run would be now: exit code 1 when they differ.
    Diff {
        /// A lock file; `FILE#RUN` is one of its runs.
        #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
        a: String,
        /// Another, or a manifest: then what a run of it would be now.
        #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
        b: String,
        /// Parameters of the manifest.
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<KeyValueArg>,
        /// Print JSON.
        #[arg(help_heading = HOW, long)]
        json: bool,
    },
}

/// What a run does with the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Nothing.
    Ignore,
    /// Written when all has ended well. One that the user named has to be.
    Write { file: PathBuf, is_named: bool },
    /// Held to.
    Verify(PathBuf, LockStrictness),
}

impl LockingArgs {
    /// Of a run that does not touch the lock file.
    pub const NONE: Self = Self { locked: None, lock: None, no_lock: true };

    /// What the options mean together.
    pub fn mode(&self) -> LockMode {
        let file = self.lock.clone().unwrap_or_else(|| LOCK_FILE.into());
        match self.locked {
            _ if self.no_lock => LockMode::Ignore,
            None => LockMode::Write { file, is_named: self.lock.is_some() },
            Some(strictness) => LockMode::Verify(file, strictness),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_read_with_their_units() {
        assert_eq!(age("30d"), Ok(Duration::from_hours(720)));
        assert_eq!(age("45s"), Ok(Duration::from_secs(45)));
        for wrong in ["", "d", "3", "-1d", "1w", "99999999999999999999d"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        assert_eq!(bytes("1.5KiB"), Ok(1536));
        assert_eq!(bytes("2GB"), Ok(2_000_000_000));
        assert_eq!(bytes("17"), Ok(17));
        for wrong in ["", "GiB", "-1GB", "inf", "1 apple"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
