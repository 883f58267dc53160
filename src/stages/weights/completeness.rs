//! Whether a checkpoint is whole: every shard that its index names is there, and no safetensors file is cut off.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::list::Checked;

/// The index of a checkpoint in several files.
const SHARDS: &str = "model.safetensors.index.json";

/// Holds the shards against the index, where both are there. A choice of files without any weights is whole.
pub(super) fn check(folder: &Path, files: &[Checked]) -> Result<(), String> {
    let there: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    if !there.contains(SHARDS) {
        return Ok(());
    }
    let named = shards(&folder.join(SHARDS))?;
    let missing: Vec<&str> = named.iter().map(String::as_str).filter(|name| !there.contains(name)).collect();
    if missing.is_empty() || missing.len() == named.len() {
        return Ok(());
    }
    Err(lacking(&missing))
}

/// The same for a folder that was filled elsewhere: here all of them must be there.
pub(super) fn check_strictly(folder: &Path) -> Result<(), String> {
    let index = folder.join(SHARDS);
    if !index.is_file() {
        return Ok(());
    }
    let named = shards(&index)?;
    let missing: Vec<&str> = named.iter().map(String::as_str).filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() { Ok(()) } else { Err(lacking(&missing)) }
}

fn lacking(missing: &[&str]) -> String {
    format!("{SHARDS} names {}, which {} not there", missing.join(", "), if missing.len() == 1 { "is" } else { "are" })
}

fn shards(index: &Path) -> Result<BTreeSet<String>, String> {
    let wrong = |why: String| format!("{SHARDS} cannot be read: {why}");
    let text = fs::read_to_string(index).map_err(|error| wrong(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let map = value.get("weight_map").and_then(Value::as_object).ok_or_else(|| wrong("no `weight_map`".to_owned()))?;
    Ok(map.values().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Whether a safetensors file has as many bytes as its header states. It reads the header only.
pub(super) fn is_cut_off(path: &Path) -> Result<(), String> {
    /// A header is some KB for each thousand tensors.
    const LARGEST: u64 = 256 << 20;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wrong = |why: String| format!("{name} is no safetensors file: {why}");
    let mut file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let size = file.metadata().map_err(|error| wrong(error.to_string()))?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| wrong(format!("it has {size} bytes")))?;
    let length = u64::from_le_bytes(length);
    if length > LARGEST || 8 + length > size {
        return Err(wrong(format!("its header would have {length} bytes, and it has {size}")));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(|error| wrong(error.to_string()))?;
    let header: Value = serde_json::from_slice(&header).map_err(|error| wrong(format!("its header: {error}")))?;
    let ends =
        header.as_object().into_iter().flatten().filter_map(|(_, tensor)| tensor.pointer("/data_offsets/1")?.as_u64());
    let expected = 8 + length + ends.max().unwrap_or(0);
    if expected == size {
        return Ok(());
    }
    Err(format!("{name} has {size} bytes, and {expected} by its header: it is truncated, or data was appended"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::weights::file_digest::FileDigest;

    fn file(path: &str) -> Checked {
        Checked { path: path.to_owned(), size: 0, sum: FileDigest::GitBlob(String::new()) }
    }

    #[test]
    fn every_shard_of_the_index_must_be_there_once_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let index = r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "1.safetensors"}}"#;
        fs::write(folder.path().join(SHARDS), index).unwrap();
        let check = |names: &[&str]| check(folder.path(), &names.iter().map(|name| file(name)).collect::<Vec<_>>());
        assert_eq!(check(&[SHARDS, "1.safetensors", "2.safetensors"]), Ok(()));
        // Only the tokenizer was wanted.
        assert_eq!(check(&[SHARDS, "tokenizer.json"]), Ok(()));
        let missing = format!("{SHARDS} names 2.safetensors, which is not there");
        assert_eq!(check(&[SHARDS, "1.safetensors"]), Err(missing));
        assert!(check_strictly(folder.path()).is_err());
    }

    #[test]
    fn a_safetensors_file_says_how_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let header = br#"{"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend([0; 4]);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(is_cut_off(&path), Ok(()));
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(
            is_cut_off(&path),
            Err("m.safetensors has 64 bytes, and 65 by its header: it is truncated, or data was appended".to_owned())
        );
        fs::write(&path, "x").unwrap();
        assert!(is_cut_off(&path).is_err());
    }
}
