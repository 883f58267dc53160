//! The GPU memory that serving an engine takes, and which setting to lower to which value when it does not fit.
//!
//! Arithmetic that can be checked by hand, shown with its numbers. For one GPU, with tp × pp ranks:
//!
//! ```text
//! weights      the size of rank0.engine, or from the log, or parameters × bytes / (tp × pp)
//! KV of token  2 (key and value) × layers / pp × ⌈kv_heads / tp⌉ × head size × bytes
//! activations  max_num_tokens × 2 bytes × (4 × hidden + 3 × intermediate / tp)            an estimate
//! buffers      max_batch_size × max_beam_width × vocabulary × 8 bytes (logits in 32 bits, and a copy)   an estimate
//! free         memory − weights − activations, or from the log
//! KV pool      fraction × free; what is left, (1 − fraction) × free, must hold the buffers and what the runtime takes
//! ```
//!
//! Unknown numbers are not made up: they are named, and the advice does without them.

mod advise;
mod model_dimensions;

pub use advise::{Advice, MemorySetting, advise};
pub use model_dimensions::{Fit, KvFractionBase, ModelSplit, bytes_of};
