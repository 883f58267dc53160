//! Repeated loads of vLLM 0.24 on H200s of two hosts, and the twin's answers: `tests/golden/vllm-h200/loads.csv`.

use std::fmt::Write as _;

use regatta::sim::{
    EngineServing, EngineSpec, GpuTiming, VirtualBenchmark, VirtualResult, VirtualWorkload, served_limits, with_users,
};
use regatta::spec::{Length, LimitedMetric, ModelShape, SimCalibration, Statistic};

use super::calibration::{golden, shipped, target};

/// `host` of the faster host: least squares of the logarithms of TTFT p50 and TPOT p50 at 5 and 20 requests a second.
const FASTER: f64 = 0.62;

/// A number of a load: the runs on each host, and the largest error of the twin, percent.
struct Row<'a> {
    model: &'a str,
    is_rate: bool,
    level: f64,
    requests: usize,
    lengths: [u32; 2],
    number: &'a str,
    role: &'a str,
    runs: [Vec<f64>; 2],
    most: [f64; 2],
}

fn row(line: &str) -> Row<'_> {
    let cells: [&str; 12] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
    let [model, arrivals, level, requests, input, output, number, role, slower, faster, most_slower, most_faster] =
        cells;
    let runs = |cell: &str| cell.split_whitespace().map(|run| run.parse().unwrap()).collect::<Vec<f64>>();
    Row {
        model,
        is_rate: arrivals == "rate",
        level: level.parse().unwrap(),
        requests: requests.parse().unwrap(),
        lengths: [input, output].map(|length| length.parse().unwrap()),
        number,
        role,
        runs: [slower, faster].map(runs),
        most: [most_slower, most_faster].map(|most| most.parse().unwrap()),
    }
}

impl Row<'_> {
    fn load(&self) -> String {
        let arrivals = match (self.is_rate, self.level) {
            (true, rate) => format!("{rate}/s"),
            (false, 1.0) => "one user".to_owned(),
            (false, users) => format!("{users} users"),
        };
        let [input, output] = self.lengths.map(|length| regatta::units::grouped(f64::from(length), 0));
        if self.lengths == [512, 128] { arrivals } else { format!("{arrivals}, {input} to {output}") }
    }

    fn simulated(&self, host: f64) -> f64 {
        let small = ModelShape { ..super::ground::engine_spec().model };
        let model = match self.model {
            "8B" => small,
            _ => ModelShape {
                name: "14b".into(),
                parameters: 14_769_689_600,
                active_parameters: None,
                num_hidden_layers: 48,
                hidden_size: 5120,
                intermediate_size: 13_824,
                num_attention_heads: 40,
                vocab_size: 152_064,
                ..small
            },
        };
        let flags = serde_json::json!({"max_batch_size": 1024, "max_input_len": 4095, "max_seq_len": 4096,
            "max_num_tokens": 8192, "tokens_per_block": 16});
        let spec = EngineSpec {
            model,
            gpu: GpuTiming { link_gbs: Some(450.0), ..target().gpu },
            calibration: SimCalibration { host: Some(host), ..shipped("vllm-h200.yaml") },
            precision: "bf16".into(),
            build_flags: flags.as_object().unwrap().clone(),
            ..super::ground::engine_spec()
        };
        let server = served_limits(&spec, &EngineServing::default()).unwrap();
        let [input_tokens, output_tokens] = self.lengths.map(Length::Fixed);
        let workload = VirtualWorkload { input_tokens, output_tokens, adapters: Vec::new(), seed: 1 };
        let result = if self.is_rate {
            VirtualBenchmark::new(&server, 1, &workload).served((self.level * 100.0) as usize, Some(self.level))
        } else {
            with_users(&server, 1, &workload, self.requests, self.level as usize)
        };
        self.of(&result.unwrap())
    }

    fn of(&self, result: &VirtualResult) -> f64 {
        let Some((metric, statistic)) = self.number.split_once(' ') else { return result.tokens_per_second() };
        let metric = if metric == "TTFT" { LimitedMetric::Ttft } else { LimitedMetric::Tpot };
        let statistic = if statistic == "p50" { Statistic::P50 } else { Statistic::Mean };
        result.statistic(metric, statistic).unwrap().unwrap()
    }
}

fn median(runs: &[f64]) -> f64 {
    let mut runs = runs.to_vec();
    runs.sort_by(f64::total_cmp);
    f64::midpoint(runs[(runs.len() - 1) / 2], runs[runs.len() / 2])
}

/// `38.1 (34.6 to 52.0)`
fn shown(runs: &[f64]) -> String {
    let number = |number: f64| regatta::units::grouped(number, usize::from(median(runs) < 100.0));
    let ends = [f64::min, f64::max].map(|end| number(runs.iter().copied().reduce(end).unwrap()));
    let range = if runs.len() > 1 { format!(" ({} to {})", ends[0], ends[1]) } else { String::new() };
    format!("{}{range}", number(median(runs)))
}

#[test]
fn repeated_loads_on_two_hosts_come_out_near_their_medians() {
    let mut table = String::from(
        "| vLLM 0.24, one H200 | | slower host: measured | error, % | faster host: measured | error, % | with `host: 0.62` | |\n\
        |---|---|---|---|---|---|---|---|\n",
    );
    let file = golden("loads.csv");
    let (mut wrong, mut last) = (Vec::new(), String::new());
    for row in file.lines().skip(1).map(row) {
        let load = format!("{}, {}", row.model, row.load());
        let _ = write!(table, "| {} | {} ", if load == last { "" } else { &load }, row.number);
        let as_shipped = row.simulated(1.0);
        let percent = |simulated: f64, runs: &[f64]| 100.0 * (simulated / median(runs) - 1.0);
        for (place, runs) in row.runs.iter().enumerate() {
            if runs.is_empty() {
                let _ = write!(table, "| {}", "| ".repeat(1 + place));
                continue;
            }
            let _ = write!(table, "| {} | {:+.1} ", shown(runs), percent(as_shipped, runs));
            let error = if place == 0 { percent(as_shipped, runs) } else { percent(row.simulated(FASTER), runs) };
            if place == 1 {
                let _ = write!(table, "| {error:+.1} ");
            }
            if error.abs() > row.most[place] {
                wrong.push(format!("{load}, {}, host {place}: {error:+.1} %", row.number));
            }
        }
        let role = if row.role == "held out" { "" } else { "not held out" };
        let _ = writeln!(table, "| {} |", if row.most.iter().any(|most| *most > 15.0) { "a miss" } else { role });
        last = load;
    }
    super::on_the_page("../golden/vllm-h200/README.md", &table);
    assert!(wrong.is_empty(), "{table}{wrong:#?}");
}
