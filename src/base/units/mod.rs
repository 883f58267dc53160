//! Numbers, arguments and paths as text: sizes, counts, durations, digests, quoting for a shell, credentials in URLs.

mod byte_size;
mod counted;
mod digit_grouping;
mod digits_of_interval;
mod distinct_decimals;
mod duration;
mod folder_in_text;
mod four_digits;
mod identifier;
mod plain_path;
mod shell;
mod three_digits;
mod unquoted;
mod url_credentials;

pub use byte_size::{MOST_FILES_BYTES, first_beyond_limit, size};
pub use counted::counted;
pub use digit_grouping::grouped;
pub use digits_of_interval::digits_of_interval;
pub use distinct_decimals::distinct_decimals;
pub use duration::{DurationError, parse_duration};
pub use folder_in_text::replace_folder;
pub use four_digits::{four_digit_scale, four_digits};
pub use identifier::{is_identifier, is_reserved_name};
pub use plain_path::plain_path;
pub use shell::shell_word;
pub use three_digits::three_digits;
pub use unquoted::unquoted;
pub use url_credentials::{UrlParts, credentials, has_secret_parameter, userinfo, without_credentials};
