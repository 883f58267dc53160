//! A submission rehearsed from one command: LoadGen built, performance, accuracy and audit runs, scored, verified, packed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use crate::loadgen;
use crate::world::World;

/// The scenario of the round with the tightest limits; the manual's chapter has Offline. All three in one package take five minutes:
/// `regatta run llama2-70b package=true --rehearse scenarios=offline,server,interactive system=sim-h200-x8`.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_rehearsal_of_a_submission_is_one_command_and_the_second_time_nothing_is_left_to_do() {
    let mut world = World::new();
    world.env("REGATTA_STORE", loadgen::store());
    let arguments = ["llama2-70b", "package=true", "--rehearse", "scenarios=interactive", "system=sim-h200-x8"];
    let ended = world.good(&[&["run"], &arguments[..]].concat());
    ended.shows("LoadGen Interactive: VALID");
    ended.shows("LoadGen Interactive TEST06: n=100").shows("TEST06 passes: 100 answers looked at");
    ended.shows("REHEARSAL, not for submission: 1 result in closed/Example");

    let packed = world.path("latest/package/closed/Example");
    assert!(packed.join("documentation/REHEARSAL.md").is_file());
    let result = packed.join("results/sim-h200-x8/llama2-70b-99.9/Interactive");
    let summary = fs::read_to_string(result.join("performance/run_1/mlperf_log_summary.txt")).unwrap();
    assert!(summary.contains("Result is : VALID"), "{summary}");
    let accuracy = fs::read_to_string(result.join("accuracy/accuracy.txt")).unwrap();
    assert!(accuracy.contains("hash="), "{accuracy}");

    // Looked at as a submission it is refused, and the first reason is what it is.
    let checked = world.regatta(&["mlperf", "check", "latest/package", "--json"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    let examined: Value = serde_json::from_str(&checked.stdout).unwrap();
    let findings = examined["examined"]["findings"].as_array().unwrap();
    let has = |check: &str| findings.iter().any(|finding| finding["check"] == check);
    assert!(has("rehearsal") && has("synthetic data"), "{examined:#}");
    assert!(has("missing scenario") && !has("counts"), "{examined:#}");

    // Without a manifest it is that of the last run.
    world.good(&["mlperf", "status"]).shows("done");
    let again = world.good(&[&["run"], &arguments[..]].concat());
    assert!(again.ran().is_empty() && again.stdout.contains(" cached"), "{}", again.stdout);

    // Unpacked on a bare folder, the README's line makes the same keys, down to the package; and a test of it is rehearsed from there.
    let readme = fs::read_to_string(result.join("README.md")).unwrap();
    let lines: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("regatta ")).collect();
    let [whole, .., audit] = lines[..] else { panic!("{readme}") };
    let mut bare = World::new();
    for item in
        walkdir::WalkDir::new(packed.join("src/sim-h200-x8")).into_iter().flatten().filter(|item| item.path().is_file())
    {
        let name = item.path().strip_prefix(packed.join("src/sim-h200-x8")).unwrap();
        bare.file(name.to_str().unwrap(), &fs::read_to_string(item.path()).unwrap());
    }
    bare.env("REGATTA_STORE", loadgen::store());
    bare.good(&audit.split(' ').collect::<Vec<_>>()).shows("LoadGen Interactive TEST06: n=100");
    let home = world.path(".regatta").display().to_string();
    let made = bare.good(&[&whole.split(' ').collect::<Vec<_>>()[..], &["--home", &home]].concat());
    assert!(made.ran().is_empty() && made.stdout.contains("10 cached"), "{}", made.stdout);
}

/// gpt-oss-120b has a data set of its own for accuracy and one for TEST07. What its made-up answers cannot show is not judged, and the
/// submission check takes it for no pass.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn test07_and_test09_are_rehearsed_and_packed_and_not_judged_on_made_up_data() {
    let mut world = World::new();
    world.env("REGATTA_STORE", loadgen::store());
    let arguments = ["run", "gpt-oss-120b", "package=true", "--rehearse", "scenarios=offline"];
    let ended = world.good(&arguments);
    ended.shows("; answers of 64 at most, where the benchmark's have thousands");
    ended.shows("LoadGen Offline TEST07: n=256").shows("TEST07 is NOT JUDGED, SIMULATED: exact match ");
    ended.shows("SIMULATED, not judged: exact match, ").shows("the samples are synthetic");
    ended.shows("LoadGen Offline TEST09: n=256").shows("TEST09 is NOT JUDGED, SIMULATED: ");
    ended.shows("language/gpt-oss-120b/eval_mlperf_accuracy.py of mlcommons/inference does that");
    ended.shows("REHEARSAL, not for submission: 1 result in closed/Example");
    let result = world.path("latest/package/closed/Example/results/sim-gb200-x1/gpt-oss-120b/Offline");
    for (test, file) in [("TEST07", "verify_accuracy.txt"), ("TEST09", "verify_output_len.txt")] {
        let text = fs::read_to_string(result.join(test).join(file)).unwrap();
        assert!(text.ends_with("TEST NOT JUDGED\n") && !text.contains("PASS"), "{text}");
        assert!(result.join(test).join("performance/run_1/mlperf_log_detail.txt").is_file());
        let hash = fs::read_to_string(result.join(test).join("accuracy/accuracy.txt")).unwrap();
        assert!(hash.starts_with("hash="), "{hash}");
    }
    let checked = world.regatta(&["mlperf", "check", "latest/package"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    checked.shows("refused test not judged: TEST07 was not judged: its answers are simulated");
    checked.shows("refused test not judged: TEST09 was not judged: its answers are simulated");
}

/// What is made up is refused before anything is built: the file, where it is, and the parameter.
#[test]
fn a_package_of_gpt_oss_names_each_data_set_that_it_needs() {
    let world = World::new();
    world.file("perf.parquet", "");
    let plan = |arguments: &[&str]| {
        let refused = world.regatta(&[&["plan", "gpt-oss-120b", "package=true"], arguments].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        refused
    };
    plan(&[])
        .shows("the package needs the data set of gpt-oss-120b")
        .shows("dataset_path=FILE, perf/perf_eval_ref.parquet of https:");
    plan(&["dataset_path=perf.parquet"])
        .shows("the package needs the data sets of gpt-oss-120b for accuracy and for TEST07, too")
        .shows("accuracy_dataset_path=FILE test07_dataset_path=FILE, the Parquet file of acc/ with 4395 samples and acc/acc_eval_compliance_gpqa.parquet of");
    world.good(&[
        "plan",
        "gpt-oss-120b",
        "package=true",
        "dataset_path=perf.parquet",
        "accuracy_dataset_path=perf.parquet",
        "test07_dataset_path=perf.parquet",
        "system=gb300-x1",
        "model_path=.",
        "image=a:1",
        "trt_llm_rev=0123456789abcdef0123456789abcdef01234567",
        "scenarios=offline,interactive",
    ]);
}

/// What `mlc-r2-downloader` fetches: `X.uri` holds where the files are, `X.md5` their checksums and names.
#[test]
fn a_data_set_is_fetched_from_its_uri_and_its_checksums_are_compared() {
    const MD5: &str = "3e052b77b9c6af3aa632e273688e47d2";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let at = origin.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            BufReader::new(&stream).read_line(&mut head).unwrap();
            let (status, body) = match head.split(' ').nth(1).unwrap() {
                // curl would ask for /left, and write what it got to the same place above the output.
                "/metadata/pattern.uri" => ("200 OK", format!("{at}/{{../../../left}}?")),
                "/metadata/pattern.md5" => ("200 OK", format!("{MD5}  #1\n")),
                "/metadata/unchecked.md5" => ("200 OK", format!("{MD5}  ./eval/cnn_eval.json\neval/cnn_eval.json\n")),
                "/metadata/endless.uri" => ("200 OK", "x".repeat(4 << 20)),
                path if path.rsplit_once('.').is_some_and(|(name, kind)| kind == "uri" && name != "/metadata/none") => {
                    ("200 OK", format!("{at}/data"))
                }
                path if path.starts_with("/left?") => ("200 OK", "[{}]\n".to_owned()),
                "/metadata/outside.md5" => ("200 OK", format!("{MD5}  ./eval/../../../cnn_eval.json\n")),
                "/metadata/absolute.md5" => ("200 OK", format!("{MD5}  /tmp/cnn_eval.json\n")),
                "/metadata/right.md5" => ("200 OK", format!("{MD5}  ./eval/cnn_eval.json\n")),
                "/metadata/wrong.md5" => ("200 OK", format!("{MD5}  ./eval/cnn_eval.json\n").replace('d', "e")),
                "/data/eval/cnn_eval.json" => ("200 OK", "[{}]\n".to_owned()),
                _ => ("404 Not Found", String::new()),
            };
            let length = body.len();
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").unwrap();
        }
    });
    let world = World::new();
    let fetch = |name: &str| {
        let uri = format!("dataset_uri={origin}/metadata/{name}.uri");
        let system = ["loadgen=true", "scenarios=offline", "system=sim-b200-x1", "--until", "preprocess_data"];
        world.regatta(&[&["run", "llama3.1-8b", &uri], &system[..]].concat())
    };
    let fetched = fetch("right");
    assert_eq!(
        (fetched.code, world.read("latest/preprocess_data/dataset.json").as_str()),
        (0, "[{}]\n"),
        "{fetched:?}"
    );
    let wrong = fetch("wrong");
    assert_eq!(wrong.code, 1, "{wrong:?}");
    wrong.shows("./eval/cnn_eval.json: FAILED");
    fetch("none").shows("cannot fetch ");
    fetch("pattern").shows("cannot fetch ");
    fetch("endless").shows("cannot fetch ");
    assert_eq!(fetch("unchecked").code, 1);
    // The server chooses the names of files, and none of them leads out of the stage's folder.
    for name in ["outside", "absolute"] {
        let outside = fetch(name);
        assert_eq!(outside.code, 1, "{outside:?}");
        outside.shows("which is not a path below the output");
    }
}
