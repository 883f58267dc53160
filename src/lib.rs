//! Regatta turns a YAML manifest into a reproducible LLM-serving benchmark.
//!
//! # The line
//!
//! ```text
//!  text ─load→ Manifest ─expand→ Plan ─run→ Event, Event, … ─fold→ Story ─→ terminal · JSON · HTML
//!                                       │            └─ journal first, then everybody else
//!                             runner ─→ Stages ─→ process │ container │ triton │ harness │ loadgen │ mlperf │ sim
//!                             (key, look on the shelf, take it or make it)
//!  regatta bench TARGET: writes a manifest, and then the same line; regatta bulk FILE: the same line, one run after another
//!  host: slurm: a job starts this program on a node, which does the one stage and tells its events to the run
//!  host: ssh:   a connection to each host starts this program there, which does the one stage and ends with the connection
//!  resume:   the store's records ─→ what is already done ─→ the same run()
//! ```
//!
//! One direction, no way back.
//!
//! # The rooms
//!
//! Each room has one door: its `mod.rs` re-exports what others may use. `tests/it/architecture.rs` reads the
//! `use crate::…` lines and holds them against this table.
//!
//! | room | in one sentence | may use |
//! |---|---|---|
//! | `diag` | points at a place in a text and says what is wrong and what to try | – |
//! | `event` | the words for what can happen in a run (ids, digests, events, outcomes) | – |
//! | `manifest` | turns text into a `Manifest` that needs no further checking; owns the JSON Schema | diag, event |
//! | `plan` | expands a manifest and its parameters into a frozen graph of tasks; pure data | manifest, triton, mlperf, diag, event |
//! | `runner` | decides what may start and what must stop (pure schedule + one async loop); owns `trait Work` | plan, store, event |
//! | `share` | what machines share: takes from a folder or bucket what another machine has made, and puts there what was made here | plan, runner, store, event |
//! | `store` | the only hand that writes durable state: keys, output folders, records, journal, digests | event |
//! | `stage` | what each kind of task does: one closed enum, one `match`; here, in a job of Slurm's, or on several hosts | manifest, plan, runner, store, process, container, triton, harness, loadgen, mlperf, sim, report, stats, event |
//! | `process` | starts a command, streams it, stops it for certain | event |
//! | `container` | turns a command and what it may see into the words of docker, podman, enroot or apptainer; pure | – |
//! | `triton` | speaks to a Triton server (KServe v2 over gRPC and HTTP, metrics), reads, writes and checks its files (config.pbtxt, templates, model repositories, engines), and plans how it is launched | diag, event, container |
//! | `harness` | makes requests arrive on schedule, over KServe v2, `generate` or OpenAI's interfaces, and measures the answers; ends in a verdict | event, triton, stats |
//! | `loadgen` | MLPerf's own LoadGen, driving the harness in a process of its own | mlperf, harness, event |
//! | `mlperf` | MLPerf's rule book: rounds, LoadGen's settings and logs, accuracy, audits, the package and its gate; pure | diag |
//! | `sim` | a Triton/TensorRT-LLM that needs no GPU: same files, same protocol and metrics, simulated time | triton |
//! | `stats` | what several runs say about a difference, and one run about itself: tests, intervals, effective sample sizes; pure | – |
//! | `lockfile` | what the last good runs were asked for and what became of it, as a file that people commit, and how two such differ; pure | plan, store, event |
//! | `doctor` | says what a plan needs of a machine, what the machine has, and what to do about the difference | manifest, plan, stage, process, report |
//! | `report` | folds events and results into a story and tells it: terminal, JSON, HTML, plans, comparisons, other tools' words and files | event, plan, triton, harness, mlperf, lockfile, stats |
//! | `translate` | other tools' command lines and configs, read as text: what each word means here, and what has no place; pure | diag, triton |
//! | `cli` | what was typed → what it means; exit codes | event |
//! | `app` | the only place that knows every room | all |
//!
//! Doors of their own: `harness::gpu`, `harness::preflight`, `manifest::model`, `mlperf::accuracy`, `mlperf::audit`,
//! `mlperf::conf`, `mlperf::dataset`, `mlperf::log`, `plan::loadgen`, `process::slurm`, `report::bulk`, `report::compare`, `report::compat`,
//! `report::decisions`, `report::doctor`, `report::explain`, `report::export`, `report::graph`, `report::html`, `report::import`,
//! `report::launch`, `report::lock`, `report::mlperf`, `report::server`, `report::tables`, `triton::launch`, `triton::memory`, `triton::pbtxt`,
//! `triton::proto`, `triton::repository`. They are named with their room in front, so that a reader knows where a word
//! comes from.

pub mod app;
pub mod cli;
pub mod container;
pub mod diag;
pub mod doctor;
pub mod event;
pub mod harness;
pub mod loadgen;
pub mod lockfile;
pub mod manifest;
pub mod mlperf;
pub mod plan;
pub mod process;
pub mod report;
pub mod runner;
pub mod share;
pub mod sim;
pub mod stage;
pub mod stats;
pub mod store;
pub mod translate;
pub mod triton;
