//! Numbers, arguments and paths as text: sizes, counts, durations, digests, quoting for a shell, credentials in URLs.

mod digits;
mod path;
mod shell;

pub use digits::{
    DurationError, MOST_FILES_BYTES, counted, digits_of_interval, distinct_decimals, first_beyond_limit,
    four_digit_scale, four_digits, grouped, parse_duration, rounded_within, size, three_digits, two_decimals,
};
pub use path::{
    UrlParts, credentials, has_secret_parameter, plain_path, replace_folder, url_path_part, userinfo,
    without_credentials,
};
pub use shell::{
    csv_cell, is_identifier, is_invisible, is_reserved_name, os_release_field, run_command, shell_word, unquoted,
};
