//! Speaks to a Triton server and reads and writes its files: KServe v2, config.pbtxt, model repository, engine
//! `config.json`. Uses `diag` and `event`; never starts a process, never measures, never prints.

pub mod proto;
