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
//! Each folder of `src` is a crate, and its `lib.rs` is its door and first page: other crates see what it re-exports,
//! and a crate may use those that its `Cargo.toml` lists. A room is a crate or, where small rooms share a crate, a
//! module of it. This package holds no code: it re-exports every room under its name for tests, benchmarks and the
//! fuzzer.
//!
//! A crate uses only those to the left of it:
//!
//! ```text
//!  base ← exec  rules  tokenizer ← triton ← harness  plan  sim ← interop  mlperf  runner ← report ← stages ← app
//! ```
//!
//! | room | crate | what it does |
//! |---|---|---|
//! | | `attributes` | attributes for types that serde writes |
//! | `diag` | `base` | errors that point at a place in a text, with hints; panics of libraries as errors |
//! | `files` | `base` | reads files, whole and bounded; their digests; which errors mean that a file is absent |
//! | `event` | `base` | what can happen in a run: ids, events, outcomes |
//! | `units` | `base` | numbers and arguments as text: sizes, durations, shell quoting, credentials in URLs |
//! | `spec` | `base` | one type for each setting that the harness and the launch of servers act on |
//! | `stats` | `base` | statistics of one run and of several: tests, intervals, searches; pure |
//! | `manifest` | `plan` | text → a checked `Manifest`; the JSON Schema |
//! | `plan` | `plan` | manifest and parameters → a frozen graph of tasks; pure data |
//! | `runner` | `runner` | what may start and what must stop; `store`, `shared_store`; owns `trait TaskExecutor` |
//! | `exec` | `exec` | runs a command in a `process` or `container`: confines, follows and reliably stops it |
//! | `tokenizer` | `tokenizer` | a model's `tokenizer.json`: text to token ids and back |
//! | `triton` | `triton` | talks to Triton (KServe v2, metrics); model repositories and engines; plans launches |
//! | `harness` | `harness` | sends requests on schedule over KServe v2 or OpenAI's API, measures, judges |
//! | `rules` | `rules` | MLPerf's rules: rounds, benchmarks, LoadGen's settings and logs, fields of a system; pure |
//! | `mlperf` | `mlperf` | accuracy, audits, packages and their check; `loadgen`: MLPerf's own LoadGen |
//! | `interop` | `interop` | other tools: their command lines, their result files, what their metrics mean |
//! | `sim` | `sim` | simulated servers, without a GPU; step times fitted to real servers; load in virtual time |
//! | `stages` | `stages` | executes each kind of task: on this machine or `remote` (in a Slurm job, over ssh) |
//! | `report` | `report` | events and results → terminal, JSON, HTML, comparisons |
//! | `cli` | `app` | arguments → an `Invocation`; exit codes; what a shell completes |
//! | `app` | `app` | runs each command; `doctor`, `lockfile`; the only room that knows all others |
//!
//! Three parts are Cargo features, all on by default: `buckets` (`runner::shared_store`), `parquet` (`mlperf`) and
//! `tokenizers` (`tokenizer`). A file `…_stub.rs` takes the place of a part that the program was built without, and
//! reports that.
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | stage, task | a stage is an entry under `stages:`; a task is one instance of it (`foreach` makes several) |
//! | action | the one thing that a stage does: `shell`, `engine`, `serve`, `bench`, … |
//! | service | a task with a lifetime: a server that runs while a task needs it |
//! | key | digest of everything that decides a task's output |
//! | cache record | the sealed line that accepts an output into the cache |
//! | request record | what was measured of one request: a line of `requests.jsonl` |
//! | job | a job of the batch system; `-j` counts slots for tasks |
//! | cache, store | outputs of this project on this machine; outputs that machines share (`--store`, `regatta store`) |
//! | settled | of a need: its output is cached or made (a service's: its key is known); of a job: its end was seen |
//! | event, journal | a fact of a run; the file with all of them |
//! | system | hardware and tuning of one machine type: `manifests/<workload>/<system>.yaml` |
//! | scenario | how requests arrive: offline, server (a rate), concurrency (users), or as LoadGen issues them |
//! | load pattern | a scenario with its numbers |
//! | setting | what a manifest sets and a room acts on, as one type in `spec`; its resolved form has another name |
//! | scheduled, issued | when a request is due; when it was handed to its connection |
//! | chunk, token | one piece of a streamed answer; a chunk may have several tokens |
//! | verdict | VALID, VALID WITH WARNINGS, LIMIT MISSED, OVERLOADED, INVALID(client) or INVALID(server) |
//! | reason | a finding that led to a verdict |
//! | repeat, probe | one of several runs of a measurement; one rate tried by a search |
//! | identity | what a result was measured on, as servers and machine report it |
//! | twin | the simulated counterpart of a real system: `sim-h200-x8` |

pub use app;
pub use app::cli;
pub use base::{diag, event, files, spec, stats, units};
pub use exec;
pub use harness;
pub use interop;
pub use mlperf;
pub use plan;
pub use plan::manifest;
pub use report;
pub use rules;
pub use runner;
pub use sim;
pub use stages;
pub use tokenizer;
pub use triton;
