//! The settings that a manifest may have and that the harness and the launch of servers act on: one type for each, in the
//! manifest's form, with values already typed.
//!
//! Keys that a type does not know are reported by the walk over a manifest's YAML, which has places to point at. serde
//! ignores them here: a result of another version may have some, and is read all the same.

mod arrivals;
mod length;
mod prompts;
mod random_seed;
mod request;
mod response_limits;
mod stream_mode;
mod text_format;
mod time_span;

pub use arrivals::Arrivals;
pub use length::{Length, Weighted};
pub use prompts::{History, Prefixes, RecordOrder, Sessions};
pub use random_seed::RandomSeed;
pub use request::{Cancel, CancelBy, Interface, Request, Words};
pub use response_limits::ResponseLimits;
pub use stream_mode::StreamMode;
pub use text_format::TextFormat;
pub use time_span::TimeSpan;
