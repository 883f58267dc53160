//! `nvidia-smi --query-gpu=…`: the queries, and how their output is parsed.
//!
//! The time of a reading is the one that nvidia-smi stamps, so that buffering of its output does not matter. It
//! stamps local time without a zone; its environment therefore has `TZ=UTC0`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::gpu::{GpuDevice, GpuLimits, GpuReading};
use base::event::GpuId;

/// Columns that do not change, or not during a run. Queried once.
const STILL: [&str; 8] = [
    "index",
    "uuid",
    "name",
    "driver_version",
    "memory.total",
    "enforced.power.limit",
    "clocks.max.sm",
    "clocks.max.memory",
];
/// Columns that are queried repeatedly. The index identifies the GPU of a line.
const MOVING: [&str; 9] = [
    "timestamp",
    "index",
    "power.draw",
    "utilization.gpu",
    "memory.used",
    "temperature.gpu",
    "clocks.sm",
    "clocks.mem",
    REASONS,
];
/// Since driver 535; before, the older name.
const REASONS: &str = "clocks_event_reasons.active";
const REASONS_BEFORE: &str = "clocks_throttle_reasons.active";

/// The columns that this nvidia-smi supports, found by probing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvidiaSmi {
    constant_columns: Vec<&'static str>,
    varying_columns: Vec<&'static str>,
}

impl Default for NvidiaSmi {
    fn default() -> Self {
        Self { constant_columns: STILL.to_vec(), varying_columns: MOVING.to_vec() }
    }
}

/// Why nvidia-smi did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmiError {
    /// A column is unknown to it; a query without it, or with its older name, may succeed.
    Column,
    /// The message of nvidia-smi.
    Message(String),
}

/// One line of the sampler.
#[derive(Clone, Debug, PartialEq)]
pub struct SmiReading {
    pub at: Timestamp,
    pub index: u32,
    /// `at_s` and `gpu` are not set.
    pub reading: GpuReading,
}

impl NvidiaSmi {
    /// The query that runs once: which GPUs there are, and whether the columns are supported. `gpus` empty means all.
    pub fn probe(&self, gpus: &[GpuId]) -> Vec<String> {
        let columns: Vec<&str> = self
            .constant_columns
            .iter()
            .chain(self.varying_columns.iter().filter(|column| !self.constant_columns.contains(column)))
            .copied()
            .collect();
        query_argv(&columns, gpus)
    }

    /// The query that repeats every `interval_ms`, until it is stopped.
    pub fn sampler(&self, gpus: &[GpuId], interval_ms: u64) -> Vec<String> {
        let mut argv = query_argv(&self.varying_columns, gpus);
        argv.extend(["-lms".to_owned(), interval_ms.to_string()]);
        argv
    }

    /// The GPUs that the probe reported, in its order.
    pub fn identities(&self, text: &str) -> Vec<GpuDevice> {
        let identity = |line: &str| {
            let lines: Vec<&str> = line.split(',').map(str::trim).collect();
            let field = |column: &str| {
                let at = self.constant_columns.iter().position(|still| *still == column)?;
                known(lines.get(at)?)
            };
            Some(GpuDevice {
                index: Some(field("index")?.parse().ok()?),
                uuid: field("uuid")?.to_owned(),
                name: field("name").map(str::to_owned),
                driver: field("driver_version").map(str::to_owned),
                memory_total_mib: field("memory.total").and_then(number),
                limits: GpuLimits {
                    power_limit_w: field("enforced.power.limit").and_then(number),
                    max_sm_clock_mhz: field("clocks.max.sm").and_then(number),
                    max_memory_clock_mhz: field("clocks.max.memory").and_then(number),
                },
            })
        };
        text.lines().filter_map(identity).collect()
    }

    /// Why the probe had no answer; with [`SmiError::Column`] the next query leaves that column out.
    pub fn refusal(&mut self, text: &str) -> SmiError {
        let unknown = text.lines().find_map(|line| {
            let (before, _) = line.split_once("is not a valid field to query")?;
            before.split('"').nth(1)
        });
        let column = unknown
            .and_then(|name| self.varying_columns.iter().chain(&self.constant_columns).find(|known| **known == name))
            .copied();
        match column {
            // Without these a line cannot be assigned to a GPU.
            Some(column) if !["timestamp", "index", "uuid"].contains(&column) => {
                let other = (column == REASONS).then_some(REASONS_BEFORE);
                for columns in [&mut self.constant_columns, &mut self.varying_columns] {
                    if let Some(at) = columns.iter().position(|known| *known == column) {
                        match other {
                            Some(other) => columns[at] = other,
                            None => drop(columns.remove(at)),
                        }
                    }
                }
                SmiError::Column
            }
            _ => {
                let first_line = text.lines().map(str::trim).find(|line| !line.is_empty());
                SmiError::Message(first_line.unwrap_or("it printed nothing").to_owned())
            }
        }
    }

    /// Parses one line of the sampler. `None`: it is not a reading.
    pub fn answer(&self, line: &str) -> Option<SmiReading> {
        let lines: Vec<&str> = line.split(',').map(str::trim).collect();
        if lines.len() != self.varying_columns.len() {
            return None;
        }
        let mut answer = SmiReading { at: Timestamp::UNIX_EPOCH, index: 0, reading: GpuReading::default() };
        let reading = &mut answer.reading;
        for (column, text) in self.varying_columns.iter().zip(lines) {
            match *column {
                "timestamp" => answer.at = stamp(text)?,
                "index" => answer.index = text.parse().ok()?,
                REASONS | REASONS_BEFORE => {
                    reading.throttle_mask = match known(text) {
                        Some(text) => Some(u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?),
                        None => None,
                    };
                }
                _ => {
                    let value = match known(text) {
                        Some(text) => Some(number(text)?),
                        None => None,
                    };
                    *place(column, reading)? = value;
                }
            }
        }
        Some(answer)
    }
}

/// The query for the versions of the driver and of CUDA.
pub fn versions_query_argv() -> Vec<String> {
    vec!["nvidia-smi".to_owned(), "--version".to_owned()]
}

/// `CUDA Version        : 12.8`
pub fn cuda_version(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("CUDA Version")?.split_once(':'));
    let version = line?.1.trim();
    let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.') && version.len() < 16;
    (is_version && !version.is_empty()).then(|| version.to_owned())
}

fn place<'r>(column: &str, reading: &'r mut GpuReading) -> Option<&'r mut Option<f64>> {
    Some(match column {
        "power.draw" => &mut reading.power_w,
        "utilization.gpu" => &mut reading.utilization_percent,
        "memory.used" => &mut reading.memory_used_mib,
        "temperature.gpu" => &mut reading.temperature_c,
        "clocks.sm" => &mut reading.sm_clock_mhz,
        "clocks.mem" => &mut reading.memory_clock_mhz,
        _ => return None,
    })
}

fn query_argv(columns: &[&str], gpus: &[GpuId]) -> Vec<String> {
    let mut argv = vec![
        "nvidia-smi".to_owned(),
        format!("--query-gpu={}", columns.join(",")),
        "--format=csv,noheader,nounits".to_owned(),
    ];
    if !gpus.is_empty() {
        argv.push(format!("--id={}", GpuId::list(gpus)));
    }
    argv
}

/// `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `[GPU requires reset]`, `N/A` carry no value.
fn known(text: &str) -> Option<&str> {
    (!text.is_empty() && !text.starts_with('[') && text != "N/A").then_some(text)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// `2026/11/21 19:20:00.123`, in UTC.
fn stamp(text: &str) -> Option<Timestamp> {
    let time = DateTime::strptime("%Y/%m/%d %H:%M:%S%.f", text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_line_is_one_gpu_at_one_moment_and_what_it_does_not_tell_is_absent() {
        let smi = NvidiaSmi::default();
        let line = "2026/11/21 19:20:00.250, 1, 412.55, 97, 70123, 61, 1980, 2619, 0x0000000000000004";
        let SmiReading { at, index, reading } = smi.answer(line).unwrap();
        assert_eq!((at.to_string().as_str(), index), ("2026-11-21T19:20:00.25Z", 1));
        let gpu_reading = GpuReading {
            power_w: Some(412.55),
            utilization_percent: Some(97.0),
            memory_used_mib: Some(70_123.0),
            temperature_c: Some(61.0),
            sm_clock_mhz: Some(1_980.0),
            memory_clock_mhz: Some(2_619.0),
            throttle_mask: Some(4),
            ..GpuReading::default()
        };
        assert_eq!(reading, gpu_reading);

        let line = "2026/11/21 19:20:00.250, 0, [N/A], [Not Supported], 12, [Unknown Error], [N/A], N/A, [N/A]";
        let quiet = GpuReading { memory_used_mib: Some(12.0), ..GpuReading::default() };
        assert_eq!(smi.answer(line).unwrap().reading, quiet);
    }

    #[test]
    fn an_unknown_line_is_ignored() {
        let smi = NvidiaSmi::default();
        for line in [
            "",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            // Cut off in the middle.
            "2026/11/21 19:20:00.250, 1, 412.55, 97, 701",
            "2026/11/21 19:20:00.250, one, 412.55, 97, 70123, 61, 1980, 2619, 0x4",
            "yesterday, 1, 412.55, 97, 70123, 61, 1980, 2619, 0x4",
            "2026/11/21 19:20:00.250, 1, 412.55 W, 97, 70123, 61, 1980, 2619, 0x4",
            "2026/11/21 19:20:00.250, 1, 412.55, 97, 70123, 61, 1980, 2619, four",
            "2026/11/21 19:20:00.250, 1, inf, 97, 70123, 61, 1980, 2619, 0x4",
        ] {
            assert_eq!(smi.answer(line), None, "{line}");
        }
    }

    #[test]
    fn the_questions_are_these() {
        let smi = NvidiaSmi::default();
        let probe = smi.probe(&[]);
        assert_eq!(
            probe,
            [
                "nvidia-smi",
                "--query-gpu=index,uuid,name,driver_version,memory.total,enforced.power.limit,clocks.max.sm,\
                    clocks.max.memory,timestamp,power.draw,utilization.gpu,memory.used,temperature.gpu,clocks.sm,\
                    clocks.mem,clocks_event_reasons.active",
                "--format=csv,noheader,nounits"
            ]
        );
        let sampler = smi.sampler(&[2, 3].map(GpuId::Index), 500);
        assert_eq!(
            sampler,
            [
                "nvidia-smi",
                "--query-gpu=timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu,clocks.sm,\
                    clocks.mem,clocks_event_reasons.active",
                "--format=csv,noheader,nounits",
                "--id=2,3",
                "-lms",
                "500"
            ]
        );
        let text = "0, GPU-8fe3, NVIDIA H200, 570.86.15, 143771, 700.00, 1980, 3201, 2026/11/21 19:20:00.250, 77.1, 0, \
                    4, 30, 345, 2619, 0x1";
        assert_eq!(
            smi.identities(text),
            [GpuDevice {
                index: Some(0),
                uuid: "GPU-8fe3".to_owned(),
                name: Some("NVIDIA H200".to_owned()),
                driver: Some("570.86.15".to_owned()),
                memory_total_mib: Some(143_771.0),
                limits: GpuLimits {
                    power_limit_w: Some(700.0),
                    max_sm_clock_mhz: Some(1_980.0),
                    max_memory_clock_mhz: Some(3_201.0),
                },
            }]
        );
    }

    #[test]
    fn an_older_nvidia_smi_gets_its_column_names() {
        let mut smi = NvidiaSmi::default();
        let unknown = |name: &str| format!("Field \"{name}\" is not a valid field to query.\n");
        assert_eq!(smi.refusal(&unknown("clocks_event_reasons.active")), SmiError::Column);
        assert!(smi.probe(&[])[1].ends_with(",clocks.mem,clocks_throttle_reasons.active"), "{smi:?}");
        assert_eq!(smi.refusal(&unknown("clocks_throttle_reasons.active")), SmiError::Column);
        assert!(smi.probe(&[])[1].ends_with(",clocks.mem"), "{smi:?}");
        assert_eq!(smi.answer("2026/11/21 19:20:00.250, 1, 412.55, 97, 70123, 61, 1980, 2619").unwrap().index, 1);
        // Without these there is nothing to report, and retries would never end.
        for message in [unknown("index"), unknown("something.else"), "\nNVIDIA-SMI has failed\nbecause".to_owned()] {
            assert!(matches!(smi.refusal(&message), SmiError::Message(_)), "{message}");
        }
        assert_eq!(smi.refusal("\n NVIDIA-SMI has failed \n"), SmiError::Message("NVIDIA-SMI has failed".to_owned()));
    }
}
