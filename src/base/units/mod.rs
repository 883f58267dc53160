//! Numbers, arguments and paths as text: sizes, counts, durations, digests, quoting for a shell, credentials in URLs.

mod digits;
mod duration;
mod shell;
mod url_credentials;

pub use digits::{
    counted, digits_of_interval, distinct_decimals, four_digit_scale, four_digits, grouped, three_digits,
};
pub use duration::{DurationError, MOST_FILES_BYTES, first_beyond_limit, parse_duration, size};
pub use shell::{is_identifier, is_reserved_name, plain_path, replace_folder, shell_word, unquoted};
pub use url_credentials::{UrlParts, credentials, has_secret_parameter, userinfo, without_credentials};
