//! Regatta turns a YAML manifest into a reproducible LLM-serving benchmark.
//!
//! # From a manifest to a report
//!
//! ```text
//!  text ─load→ Manifest ─expand→ Plan ─run→ Event, Event, … ─fold→ RunState ─→ terminal · JSON · HTML
//!                                       │            └─ the journal first, then the other consumers
//!                             runner ─→ TaskExecutor  ─→ exec │ triton │ harness │ mlperf │ sim
//!                             (compute the key, look it up in the cache, take the output or make it)
//!  regatta bench TARGET   writes a manifest and goes the same way; regatta bulk FILE goes it once for each entry
//!  host: slurm            a job starts this program on a node; it runs the one stage there and sends its events back
//!  host: ssh              a connection to each host starts this program there; it ends with the connection
//!  resume                 the records in the store say what is finished; then the same run()
//! ```
//!
//! Data flows in this one direction.
//!
//! # Rooms
//!
//! A room is a folder of `src` with one door: its `mod.rs` re-exports what other rooms may use (larger rooms have a few doors more,
//! listed below). `tests/it/architecture.rs` checks every `crate::…` path against this table.
//!
//! | room | what it does | may use |
//! |---|---|---|
//! | `diag` | errors that point at a place in a text, with hints; panics of libraries as errors | – |
//! | `files` | reads files: whole, bounded and only where they have an end; their digests, made by all cores; when one counts as absent | units |
//! | `event` | what can happen in a run: ids, events, outcomes | files |
//! | `units` | numbers, arguments and paths as text: sizes, counts, durations, quoting for a shell, credentials in URLs | – |
//! | `spec` | the settings of a manifest that the harness and the launch of servers act on: one type for each | units |
//! | `stats` | statistics of several runs and of one: tests, intervals, effective sample sizes, searches; pure | units |
//! | `manifest` | text → a checked `Manifest`; the JSON Schema | spec, diag, files, event, units |
//! | `plan` | manifest and parameters → a frozen graph of tasks; pure data | manifest, triton, rules, spec, diag, files, event, units |
//! | `runner` | what may start and what must stop; `store`: durable state on this machine; `shared_store`: outputs shared between machines, and the keys that sign them; owns `trait TaskExecutor` | plan, diag, files, event, units |
//! | `exec` | where and how a command runs, is confined and followed, and is stopped for certain: `process`, `container` | spec, files, event, units |
//! | `tokenizer` | a model's `tokenizer.json`: text to token ids and back | diag |
//! | `triton` | talks to Triton servers (KServe v2, metrics); reads, writes and checks model repositories and engines; plans launches | exec, spec, diag, files, event, units |
//! | `harness` | sends requests on schedule over KServe v2, `generate` or OpenAI's interfaces, measures the answers, and gives a verdict | triton, tokenizer, stats, spec, diag, files, event, units |
//! | `rules` | MLPerf's rules: rounds, benchmarks, LoadGen's settings and logs, fields of a system; pure | spec, diag, files, units |
//! | `mlperf` | what MLPerf's runs are worth: accuracy, audits, packages and their check; `loadgen`: its own LoadGen, driving the harness in a process of its own | harness, rules, tokenizer, spec, diag, files, event, units |
//! | `interop` | other tools: their command lines, their result files, what their metrics mean | triton, harness, spec, diag, files, event, units |
//! | `sim` | simulated servers: same files, protocols and metrics, no GPU; their step times, fitted to real ones; load in virtual time, on one server or a fleet | triton, tokenizer, spec, files |
//! | `stages` | executes each kind of task: on this machine, or elsewhere (`remote`: in a Slurm job, on hosts over ssh) | manifest, plan, runner, exec, triton, harness, interop, mlperf, rules, sim, report, stats, spec, diag, files, event, units |
//! | `report` | events and results → terminal, JSON, HTML, comparisons | plan, triton, harness, interop, mlperf, rules, sim, stats, spec, files, event, units |
//! | `cli` | arguments → an `Invocation`; exit codes; what a shell completes | spec, event |
//! | `app` | runs each command; `doctor`, `lockfile`; the only room that knows all others | all |
//!
//! Doors of their own: `exec::container`, `exec::process`, `harness::gpu`, `harness::preflight`, `manifest::model`,
//! `mlperf::accuracy`, `mlperf::audit`, `mlperf::dataset`, `mlperf::loadgen`, `plan::loadgen`,
//! `report::compare`, `report::explain`, `report::history`, `report::html`, `report::mlperf`, `report::server`, `rules::conf`, `rules::log`, `rules::system`, `runner::shared_store`,
//! `runner::store`, `triton::launch`, `triton::memory`, `triton::pbtxt`, `triton::proto`, `triton::repository`. They are used
//! with the room's name in front.
//!
//! Four parts are Cargo features, all on by default: `buckets` (`runner::shared_store`), `otlp` (`app`), `parquet` (`interop`, `mlperf`)
//! and `tokenizers` (`tokenizer`). A file `…left_out.rs` stands in for a part that a program was built without, and reports that.
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | stage, task | a stage is an entry under `stages:`; a task is one instance of it (`foreach` makes several) |
//! | action | the one thing that a stage does: `shell`, `engine`, `serve`, `bench`, … |
//! | service | a task with a lifetime: a server that runs while a task needs it |
//! | key | digest of everything that decides a task's output |
//! | cache record, request record | the sealed line that accepts an output into the cache; what was measured of one request (a line of `requests.jsonl`) |
//! | job | a job of the batch system; `-j` counts slots for tasks |
//! | cache, store | the outputs of this project on this machine; the outputs that machines share (`--store`, `regatta store`) |
//! | settled | of a need: its output is known, cached or made (a service's: its key); of an attempt in a Slurm job: its end was seen |
//! | event, journal | a fact of a run; the file with all of them |
//! | system | hardware and tuning of one machine type: `manifests/<workload>/<system>.yaml` |
//! | scenario, load pattern | how requests arrive: offline, server (a rate), concurrency (users), or as LoadGen issues them; the same with its numbers |
//! | setting | what a manifest sets and a room acts on, as one type in `spec`; what is resolved from it has a name of its own |
//! | scheduled, issued | when a request is due; when it was handed to its connection |
//! | chunk, token | one piece of a streamed answer; a chunk may have several tokens |
//! | verdict, reason | VALID, VALID WITH WARNINGS or INVALID(client, load, server); a finding that led to it |
//! | repeat, probe | one of several runs of a measurement; one rate tried by a search |
//! | identity | what a result was measured on, as servers and machine report it |
//! | twin | the simulated counterpart of a real system: `sim-h200-x8` |

pub mod app;
pub mod cli;
pub mod diag;
pub mod event;
pub mod exec;
pub mod files;
pub mod harness;
pub mod interop;
pub mod manifest;
pub mod mlperf;
pub mod plan;
pub mod report;
pub mod rules;
pub mod runner;
pub mod sim;
pub mod spec;
pub mod stages;
pub mod stats;
pub mod tokenizer;
pub mod triton;
pub mod units;
