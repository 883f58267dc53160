//! Other tools' command lines and scripts, read as text: what each argument means here, and what has no place.
//!
//! Nothing is run and no file is opened. Every argument of a line ends in one of three places: in what is done here, in the
//! notes (carried over, and not quite the same), or in what was left, with why. An unknown argument is an error.

mod line;
pub(super) mod load;
pub(super) mod options;
pub(super) mod program;
pub(super) mod python;
mod script;
pub(super) mod translation;

pub use line::{TOOLS, read_line};
pub use script::read_script;
pub use translation::{
    GpuScale, RunLine, RunSetting, Sweep, SystemNeed, TranslatedBench, Translation, TranslationKind,
    UntranslatedOption, origin,
};
