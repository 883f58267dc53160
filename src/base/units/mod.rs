//! Numbers, arguments and paths as text: sizes, counts, durations, digests, quoting for a shell, credentials in URLs.

mod digits;
mod duration;
mod foreign_text;
mod path;
mod shell;
mod url_credentials;

pub use digits::{
    MOST_FILES_BYTES, counted, digits_of_interval, distinct_decimals, first_beyond_limit, four_digit_scale,
    four_digits, grouped, rounded_within, size, three_digits,
};
pub use duration::{DurationError, parse_duration};
pub use foreign_text::{csv_cell, is_invisible, os_release_field};
pub use path::{plain_path, replace_folder, url_path_part};
pub use shell::{is_identifier, is_reserved_name, run_command, shell_word, unquoted};
pub use url_credentials::{UrlParts, credentials, has_secret_parameter, userinfo, without_credentials};
