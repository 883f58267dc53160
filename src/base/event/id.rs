//! Names of tasks and runs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::diag::ErrorText;
use crate::files::Digest;

/// A name that is cheap to copy.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A task's name: the stage, then one part for each `foreach` value, joined by `/`:
    /// `clone_trt_llm`, `run_harness/server`. Safe as a relative path (no `..`, no empty part).
    TaskId
}

name! {
    /// A run's name: local start time and process, `20261120-224301.017-4711`. Sorts by time (`store::name_run`).
    RunId
}

impl TaskId {
    /// The name of its log in runs of programs that wrote no digests into names.
    pub fn undigested_file_name(&self) -> String {
        self.0.replace('/', ".")
    }

    /// One file name for this task, for logs and work folders, that no other task of its plan has:
    /// `run_harness.server`. A digest keeps `m/1/2.3` and `m/1.2/3` apart. Names of stages have no dots: `m/0.5` needs
    /// none.
    pub fn file_name(&self) -> String {
        let name = self.undigested_file_name();
        if self.0.contains('.') && self.0.matches('/').count() > 1 {
            return format!("{name}-{}", Digest::hash(self.0.as_bytes()).short());
        }
        name
    }
}

// A name that a user gives to a run.

/// Letters, digits, `.`, `_` and `-`; at most 64. Not only digits and `-`, which the names of runs are made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RunTag(String);

/// The text cannot be used as a tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}",
    ErrorText::new(format_args!("`{}` cannot be a tag", .0))
        .hint("at most 64 letters, digits, `.`, `_` and `-`, including a letter: `before-upgrade`, `v1.2`")
)]
pub struct NotTag(String);

impl FromStr for RunTag {
    type Err = NotTag;

    fn from_str(text: &str) -> Result<Self, NotTag> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_good = (1..=64).contains(&text.len())
            && text.chars().all(is_allowed)
            && text.contains(|c: char| c.is_ascii_alphabetic())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_good { Ok(Self(text.to_owned())) } else { Err(NotTag(text.to_owned())) }
    }
}

impl RunTag {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

// One GPU that a run may lease: by its number on the machine or its UUID, or an instance of a divided GPU (MIG) by its
// UUID.

/// As `CUDA_VISIBLE_DEVICES` takes it: `3`, `GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f`,
/// `MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuId {
    Index(u32),
    /// A whole GPU: the bytes of its UUID.
    Gpu([u8; 16]),
    /// An instance: the bytes of its UUID.
    Mig([u8; 16]),
}

/// The text names no GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a number nor GPU-<uuid> or MIG-<uuid>, as `nvidia-smi -L` prints it")]
pub struct GpuIdError(String);

const GPU: &str = "GPU-";
const MIG: &str = "MIG-";
/// Hexadecimal digits in the parts of a UUID.
const PARTS: [usize; 5] = [8, 4, 4, 4, 12];

impl GpuId {
    /// Whether the text is a UUID and no number, by its beginning.
    pub fn is_uuid(text: &str) -> bool {
        text.starts_with(GPU) || text.starts_with(MIG)
    }

    /// The GPUs of a `CUDA_VISIBLE_DEVICES`. As CUDA reads it, the list ends at what names no GPU, such as `-1` or
    /// `NoDevFiles`.
    ///
    /// # Errors
    /// A UUID in another form, such as its first digits: CUDA may know the GPU.
    pub fn visible(list: &str) -> Result<Vec<Self>, GpuIdError> {
        let mut gpus = Vec::new();
        for entry in list.split(',').map(str::trim) {
            match entry.parse() {
                Ok(gpu) if gpus.contains(&gpu) => {}
                Ok(gpu) => gpus.push(gpu),
                Err(error) if Self::is_uuid(entry) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(gpus)
    }

    /// `0,1,3`
    pub fn list(gpus: &[Self]) -> String {
        gpus.iter().map(Self::to_string).collect::<Vec<_>>().join(",")
    }
}

impl From<u32> for GpuId {
    fn from(index: u32) -> Self {
        Self::Index(index)
    }
}

impl FromStr for GpuId {
    type Err = GpuIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || GpuIdError(text.to_owned());
        let (uuid, of_bytes): (&str, fn([u8; 16]) -> Self) = match (text.strip_prefix(GPU), text.strip_prefix(MIG)) {
            (Some(uuid), _) => (uuid, Self::Gpu),
            (_, Some(uuid)) => (uuid, Self::Mig),
            _ => return text.parse().map(Self::Index).map_err(|_| wrong()),
        };
        let is_uuid =
            uuid.split('-').map(str::len).eq(PARTS) && uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
        let digits: String = uuid.chars().filter(|c| *c != '-').collect();
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid).ok_or_else(wrong)?;
        Ok(of_bytes(number.to_be_bytes()))
    }
}

impl fmt::Display for GpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            Self::Index(index) => return write!(f, "{index}"),
            Self::Gpu(bytes) => ("GPU", bytes),
            Self::Mig(bytes) => ("MIG", bytes),
        };
        let digits = format!("{:032x}", u128::from_be_bytes(*bytes));
        let mut from = 0;
        f.write_str(kind)?;
        for digits_of_part in PARTS {
            write!(f, "-{}", &digits[from..from + digits_of_part])?;
            from += digits_of_part;
        }
        Ok(())
    }
}

impl Serialize for GpuId {
    /// A number, or a UUID as text.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Index(index) => to.serialize_u32(*index),
            Self::Gpu(_) | Self::Mig(_) => to.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for GpuId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Index(u32),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Index(index) => Ok(Self::Index(index)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tasks_whose_values_have_dots_have_file_names_of_their_own() {
        let file = |id: &str| TaskId::new(id).file_name();
        let values = ["1", "1.2", "2", "2.3", "3"];
        let ids = values.iter().flat_map(|v| values.iter().map(move |w| format!("m/{v}/{w}")));
        assert_eq!(ids.map(|id| file(&id)).collect::<HashSet<_>>().len(), 25);
        let usual = ["clone", "bench/server", "bench/0.5", "m/1/2@3"];
        assert_eq!(usual.map(file), ["clone", "bench.server", "bench.0.5", "m.1.2@3"]);
    }

    #[test]
    fn a_tag_is_a_short_word_that_is_no_run() {
        for good in ["v1.2", "before-upgrade", "a"] {
            assert_eq!(good.parse::<RunTag>().map(|tag| tag.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "20261120-224301.017-4711", "a b", "../x", "-x", &"a".repeat(65)] {
            assert!(bad.parse::<RunTag>().is_err(), "{bad}");
        }
    }

    const WHOLE: &str = "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";
    const INSTANCE: &str = "MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";

    #[test]
    fn numbers_and_uuids_are_read_and_written_as_nvidia_does() {
        for text in ["0", "13", WHOLE, INSTANCE] {
            let id: GpuId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::from_str::<GpuId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        }
        assert_eq!(serde_json::to_string(&GpuId::Index(3)).unwrap(), "3");
        for wrong in ["", "-1", "MIG-", "MIG-1", "GPU-8f9b3c5e", &INSTANCE[4..], &INSTANCE[..20]] {
            assert!(wrong.parse::<GpuId>().is_err(), "{wrong}");
        }
        assert_eq!(GpuId::list(&[GpuId::Index(1), INSTANCE.parse().unwrap()]), format!("1,{INSTANCE}"));
    }

    #[test]
    fn a_list_of_visible_gpus_ends_where_cuda_ends_it() {
        let visible = |list: &str| GpuId::visible(list).map(|gpus| GpuId::list(&gpus));
        for (list, gpus) in [
            ("0,1", "0,1"),
            (" 2 , 0", "2,0"),
            ("2,-1,3", "2"),
            ("0,x,1", "0"),
            ("1,1", "1"),
            ("", ""),
            ("NoDevFiles", ""),
        ] {
            assert_eq!(visible(list).as_deref(), Ok(gpus), "{list}");
        }
        let both = format!("{WHOLE},{INSTANCE}");
        assert_eq!(visible(&both), Ok(both));
        // CUDA takes the first digits, and older drivers name instances by their GPU.
        assert_eq!(visible("0,GPU-8f9b"), Err(GpuIdError("GPU-8f9b".to_owned())));
        assert!(visible("MIG-GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f/1/0").is_err());
    }
}
