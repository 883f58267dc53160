//! audit.config: settings that an audit test puts over user.conf. Values are those of mlcommons/inference,
//! `compliance/`.

use std::fmt::Write as _;

use super::test_request::ResolvedTest;
use base::spec::TestMode;

/// The seed with which LoadGen draws the samples that it logs; the same for all tests.
pub const LOG_SEED: u64 = 720_381_539_243_781_796;
/// TEST06 logs and issues this many.
const TEST06_SAMPLES: u64 = 100;

/// An audit test by its name, in any case.
pub fn audit_test(name: &str) -> Option<TestMode> {
    let mut tests = [TestMode::Test06, TestMode::Test07, TestMode::Test09].into_iter();
    tests.find(|test| test.as_str().eq_ignore_ascii_case(name))
}

/// What an audit test demands of LoadGen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The file.
    pub text: String,
    pub min_query_count: u64,
    pub sampling_target: u64,
    pub issue_unique: bool,
}

/// audit.config of a test of a benchmark. `None`: the mode is not an audit test of this benchmark. `rehearsed`: the
/// samples that a rehearsal loads, of which TEST07 and TEST09 issue each once.
pub fn audit_config(found: &ResolvedTest, mode: TestMode, rehearsed: Option<u64>) -> Option<AuditConfig> {
    let (samples, target, issue_unique) = match mode {
        TestMode::Performance | TestMode::Accuracy => return None,
        TestMode::Test06 => (TEST06_SAMPLES, TEST06_SAMPLES, false),
        TestMode::Test07 | TestMode::Test09 => {
            let audit = found.benchmark.audits.get(&mode)?;
            (
                rehearsed.map_or(audit.samples, |loaded| loaded.min(audit.samples)),
                audit.sampling_target,
                audit.issue_unique,
            )
        }
    };
    let mut text = format!("# {} of MLPerf Inference {}\n", mode.as_str().to_uppercase(), found.round.name);
    let mut set = |key: &str, value: u64| {
        let _ = writeln!(text, "*.*.{key} = {value}");
    };
    // 2: performance mode.
    set("mode", 2);
    set("accuracy_log_rng_seed", LOG_SEED);
    set("accuracy_log_sampling_target", target);
    set("min_query_count", samples);
    set("min_duration", 0);
    if issue_unique {
        set("performance_issue_unique", 1);
    }
    set("sample_concatenate_permutation", 0);
    // Those of TEST09, which its script reads and LoadGen does not.
    let bounds = found.benchmark.audits.get(&mode).and_then(|audit| audit.output_tokens).unwrap_or_default();
    for (name, bound) in [("min", bounds.min), ("max", bounds.max)] {
        if let Some(bound) = bound {
            let _ = writeln!(text, "*.*.test09_{name}_output_tokens = {bound}");
        }
    }
    Some(AuditConfig { text, min_query_count: samples, sampling_target: target, issue_unique })
}
