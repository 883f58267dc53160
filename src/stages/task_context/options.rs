//! Numbers that stand on a command line: `--kv_cache_free_gpu_mem_fraction 0.95`, `--max-batch-size=640`.

use std::ffi::OsStr;

use base::event::ReducedSetting;

/// Where a number stands: in its option's argument behind the `=`, or in the next argument.
fn place<S: AsRef<OsStr>>(words: &[S], name: &str) -> Option<(usize, usize)> {
    let same = |option: &str| option.replace('-', "_") == name.replace('-', "_");
    for (at, word) in words.iter().enumerate() {
        let Some(option) = word.as_ref().to_str().and_then(|word| word.strip_prefix("--")) else { continue };
        match option.split_once('=') {
            Some((option, value)) if same(option) && value.parse::<f64>().is_ok() => {
                return Some((at, 2 + option.len() + 1));
            }
            None if same(option) => {
                let next = words.get(at + 1)?.as_ref().to_str()?;
                return next.parse::<f64>().is_ok().then_some((at + 1, 0));
            }
            _ => {}
        }
    }
    None
}

/// The number of an option, whether its name is written with `_` or with `-`.
pub fn value<S: AsRef<OsStr>>(words: &[S], name: &str) -> Option<f64> {
    let (at, from) = place(words, name)?;
    words[at].as_ref().to_str()?.get(from..)?.parse().ok()
}

/// Puts the lowered number in its place; false: there is none.
pub fn lower(words: &mut [String], lowered: &ReducedSetting) -> bool {
    let Some((at, from)) = place(words, &lowered.setting) else { return false };
    words[at].replace_range(from.., &lowered.to.to_string());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_and_lowered_in_every_spelling() {
        for (line, after) in [
            ("serve --kv_cache_free_gpu_mem_fraction 0.95 x", "serve --kv_cache_free_gpu_mem_fraction 0.9 x"),
            ("serve --kv-cache-free-gpu-mem-fraction=.95", "serve --kv-cache-free-gpu-mem-fraction=0.9"),
        ] {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(value(&words, "kv_cache_free_gpu_mem_fraction"), Some(0.95));
            let lowered = ReducedSetting { setting: "kv_cache_free_gpu_mem_fraction".to_owned(), from: 0.95, to: 0.9 };
            assert!(lower(&mut words, &lowered));
            assert_eq!(words.join(" "), after);
        }
        let words = ["a", "--tp", "x", "--b"];
        assert_eq!((value(&words, "tp"), value(&words, "b"), value(&words, "c")), (None, None, None));
    }
}
