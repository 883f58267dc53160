//! `compare:` — the tables of the field: results of stages as ratios, in terminal, JSON and HTML.

use std::fs;

use serde_json::Value;

use crate::campaign::no_process_left;
use crate::services::{ENGINE, SERVE, scripted, world};

fn bench(name: &str, clients: u32) -> String {
    format!(
        r#"  {name}:
    foreach: {{ requests: [16, 32] }}
    bench:
      target: "{{{{ stages.server }}}}"
      scenario: offline
      stop: {{ requests: "{{{{ requests }}}}" }}
      input_tokens: {{ fixed: 16 }}
      output_tokens: {{ fixed: 8 }}
      vocab_size: 1000
      preflight: "off"
      triton_num_clients_per_frontend: {clients}
"#
    )
}

const TABLE: &str = r#"  table:
    compare:
      results: { custom: "{{ stages.run_custom.outs }}", triton: "{{ stages.run_triton.outs }}" }
      rows: [short, long]
      metrics: [output_tokens, ttft_mean]
      published:
        - { row: H200x1 Offline, values: { custom: 3757, triton: 3753 }, source: "README of v4.1" }
"#;

#[test]
fn two_ways_to_measure_are_held_against_each_other_row_by_row() {
    let world =
        world(&[&scripted(SERVE, "ready: { timeout: 1m }"), &bench("run_custom", 1), &bench("run_triton", 2), TABLE]);
    let ended = world.good(&["run", "m"]);
    // Both columns are of the simulator, which is said before the ratio and in every file.
    ended.shows("SIMULATED  triton / custom, output tokens: short ");
    for name in ["comparison.json", "comparison.html", "table.txt"] {
        let text = world.read(format!("latest/table/{name}"));
        assert!(text.contains("SIMULATED") || text.contains("\"simulated\": true"), "{name}: {text}");
    }
    ended.shows("triton / custom, output tokens: short ").shows("published: README of v4.1");
    let comparison: Value = serde_json::from_str(&world.read("latest/table/comparison.json")).unwrap();
    let rows = comparison["rows"].as_array().unwrap();
    let names: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", row["row"].as_str().unwrap(), row["metric"].as_str().unwrap()))
        .collect();
    assert_eq!(
        names,
        [
            "short output_tokens",
            "short ttft_mean",
            "long output_tokens",
            "long ttft_mean",
            "H200x1 Offline output_tokens"
        ]
    );
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
        let ratio = number("other") / number("base") * 100.0;
        assert!((number("percent") - ratio).abs() < 1e-6, "{row}");
    }
    let result = |stage: &str| -> f64 {
        let result: Value = serde_json::from_str(&world.read(format!("latest/{stage}/result.json"))).unwrap();
        result["rates"]["output_tokens"].as_f64().unwrap()
    };
    assert!((rows[2]["base"].as_f64().unwrap() - result("run_custom/32")).abs() < 1e-9);
    assert!((rows[2]["other"].as_f64().unwrap() - result("run_triton/32")).abs() < 1e-9);
    assert!(world.read("latest/table/comparison.html").contains("H200x1 Offline"));
    assert!(world.read("latest/table/table.txt").contains("99.89 %"), "{}", world.read("latest/table/table.txt"));
    let report = fs::read_to_string(world.path("latest/report.html")).unwrap();
    assert!(report.contains("published: README of v4.1"), "the table is in the run's report");
    assert!(world.will_run(&[]).is_empty());
    no_process_left(&world);
}

#[test]
fn columns_of_different_lengths_are_refused_with_their_numbers() {
    let world = crate::world::World::new();
    world.manifest(
        "m",
        &format!(
            "{ENGINE}  a: {{ shell: 'echo 1 > result.json' }}\n  b: {{ foreach: {{ x: [1, 2] }}, shell: 'echo 1 > result.json' }}\n  c: {{ compare: {{ results: {{ one: \"{{{{ stages.a.outs }}}}\", two: \"{{{{ stages.b.outs }}}}\" }} }} }}\n"
        ),
    );
    let ended = world.regatta(&["run", "m", "--until", "c"]);
    assert_ne!(ended.code, 0);
    ended.shows("the columns do not have the same rows: one has 1, two has 2");
}

#[test]
fn the_shipped_table_puts_any_two_results_beside_what_was_published() {
    let mut world = crate::world::World::new();
    world.copy("tests/manual/concepts/numbers.in");
    let folder = "tests/manual/concepts/numbers.in";
    let (before, after) = (format!("custom={folder}/before"), format!("triton={folder}/after"));
    let words = ["run", "ratio", &before, &after, "rows=Server"];
    world.env("NO_COLOR", "1").good(&words).shows("triton / custom, output tokens: Server ");
    let table = world.read("latest/ratio/table.txt");
    for published in ["3757.47", "3752.66", "99.87 %", "12.78", "98.4532", "97.71 %", "582", "README of NVIDIA's v4.1"]
    {
        assert!(table.contains(published), "{published} in\n{table}");
    }
    let rate = |name: &str| -> f64 {
        let result: Value = serde_json::from_str(&world.read(format!("{folder}/{name}/result.json"))).unwrap();
        result["rates"]["output_tokens"].as_f64().unwrap()
    };
    let comparison: Value = serde_json::from_str(&world.read("latest/ratio/comparison.json")).unwrap();
    let row = &comparison["rows"][0];
    let percent = row["percent"].as_f64().unwrap_or_else(|| panic!("{row}"));
    assert!((percent - rate("after") / rate("before") * 100.0).abs() < 1e-6, "{row}");
    // Another number has no published rows, and nothing is made up for it.
    world.good(&["run", "ratio", &before, &after, "rows=Server", "metrics=ttft_mean"]);
    assert!(!world.read("latest/ratio/table.txt").contains("README"));
}
