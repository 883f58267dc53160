//! One test binary: the manual by example. Each file is a chapter.

#![allow(clippy::disallowed_methods, reason = "tests start programs to see what becomes of them")]

mod architecture;
mod arrivals;
mod asking;
mod attach;
mod bench_command;
#[allow(dead_code, reason = "`tests/bench/kill.rs` uses the rest")]
mod campaign;
mod cli;
mod compare;
mod containers;
mod crash;
mod data;
mod diagnostics;
mod faults;
mod files;
mod genai_perf;
mod git;
mod harness;
mod language;
mod launch;
mod lifecycle;
mod loadgen;
mod manual;
mod metrics;
mod mlperf_score;
mod mpi;
mod openai;
mod preflight;
mod processes;
mod real;
mod rehearsal;
mod report;
mod repository;
mod requests;
mod retokenized;
mod review;
mod rules;
mod scripted;
mod search;
mod sending;
mod services;
mod simulator;
mod slurm;
mod stages;
mod standstill;
mod submission;
mod supervision;
mod telemetry;
mod tls;
mod triton;
mod triton_cpu;
mod vectors;
mod world;
