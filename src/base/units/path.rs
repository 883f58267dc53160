//! Paths and URLs as text: where a text names a folder, what a URL's path consists of, and the secrets in a URL.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// The text with `instead` wherever it names a folder, or something in it, by the folder's absolute path. The path as a
/// part of another one stays: `/srv` in `/opt/srv/x` and in `/srv2`. `None`: the text does not name it.
pub fn replace_folder(text: &str, folder: &str, instead: &str) -> Option<String> {
    let mut replaced: Option<String> = None;
    let mut copied = 0;
    // Of `/` everything would be a part.
    if folder.len() < 2 {
        return None;
    }
    for (at, _) in text.match_indices(folder) {
        let end = at + folder.len();
        let begins =
            text[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || BEFORE.contains(before));
        let ends = text[end..].chars().next().is_none_or(|after| after.is_whitespace() || AFTER.contains(after));
        if begins && ends {
            let to = replaced.get_or_insert_default();
            to.push_str(&text[copied..at]);
            to.push_str(instead);
            copied = end;
        }
    }
    let mut replaced = replaced?;
    replaced.push_str(&text[copied..]);
    Some(replaced)
}

/// What can stand before a path. Not `}` and `⟧`, which end a variable or a reference that the path goes on from.
const BEFORE: &str = "\"'`=:,;([<>|&@!";
/// What can stand after the path of a folder.
const AFTER: &str = "/\"'`:,;)]<>|&";

/// A path without `.` and `..`, by its text alone: links are not followed.
pub fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::with_capacity(path.as_os_str().len());
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// A part of a URL's path, with reserved characters escaped.
pub fn url_path_part(part: &str) -> String {
    part.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

// Secrets in a URL: `https://user:password@host/path`, `https://host/path?access_token=…`.

/// The parts of `scheme://userinfo@host/path?query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlParts<'t> {
    pub scheme: &'t str,
    /// What stands before the last `@` in front of the host.
    pub userinfo: Option<&'t str>,
    /// With its port.
    pub host: &'t str,
    /// From the first `/`, `?` or `#` after the host.
    pub rest: &'t str,
}

impl<'t> UrlParts<'t> {
    /// `None`: a text without `://`.
    pub fn parse(url: &'t str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        Some(Self { scheme, userinfo, host, rest })
    }

    /// The password; over http also a user alone, as in `https://token@host` and `https://token:@host`.
    fn secret(&self) -> Option<&'t str> {
        let (user, password) = self.userinfo?.split_once(':').unwrap_or((self.userinfo?, ""));
        let secret = if password.is_empty() && self.is_http() { user } else { password };
        Some(secret).filter(|secret| !secret.is_empty())
    }

    fn is_http(&self) -> bool {
        // `git+https` is one, too.
        let last = self.scheme.rsplit('+').next().unwrap_or_default();
        ["http", "https"].iter().any(|scheme| last.eq_ignore_ascii_case(scheme))
    }
}

/// The secret part of `scheme://user:password@host/…`, or of `scheme://token@host/…` for http.
pub fn credentials(url: &str) -> Option<String> {
    UrlParts::parse(url)?.secret().map(str::to_owned)
}

/// What stands before the `@` of the host.
pub fn userinfo(url: &str) -> Option<&str> {
    UrlParts::parse(url)?.userinfo
}

/// Names of parameters with a secret, without `_` and `-`.
const SECRET_PARAMETERS: &str = "accesskey accesstoken apikey apitoken auth authtoken key passwd password \
    privatetoken secret sig signature token";

/// Whether a parameter after the path is named like a secret: `?access_token=…`, `#token=…`.
pub fn has_secret_parameter(url: &str) -> bool {
    let Some(at) = url.find(['?', '#']) else { return false };
    url[at..].split(['?', '#', '&', ';']).filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
        let name = name.to_ascii_lowercase().replace(['_', '-'], "");
        !value.is_empty() && SECRET_PARAMETERS.split(' ').any(|secret| secret == name)
    })
}

/// The URL as it may be shown and published. `ssh://git:password@host` keeps its user, which is part of the address.
pub fn without_credentials(url: &str) -> String {
    let Some(parts) = UrlParts::parse(url).filter(|parts| parts.secret().is_some()) else { return url.to_owned() };
    let UrlParts { scheme, userinfo, host, rest } = parts;
    match userinfo.and_then(|userinfo| userinfo.split(':').next()).filter(|user| !user.is_empty() && !parts.is_http()) {
        Some(user) => format!("{scheme}://{user}@{host}{rest}"),
        None => format!("{scheme}://{host}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_replaced_where_it_is_no_part_of_another_path() {
        for (text, replaced) in [
            ("/srv", "P"),
            ("/srv/", "P/"),
            ("cat '/srv/a b' /srv/c >/srv/d", "cat 'P/a b' P/c >P/d"),
            ("--dir=/srv,/srv:/srv;(/srv)", "--dir=P,P:P;(P)"),
            ("sh\n/srv/x", "sh\nP/x"),
            ("/srv /srv2", "P /srv2"),
        ] {
            assert_eq!(replace_folder(text, "/srv", "P").as_deref(), Some(replaced), "{text}");
        }
        for text in ["", "/opt/srv/x", "/srv2", "/srv.old", "./srv", "$HOME/srv", "${x}/srv", "⟦out:a⟧/srv/x", "-I/srv"]
        {
            assert_eq!(replace_folder(text, "/srv", "P"), None, "{text}");
        }
        assert_eq!(replace_folder("/a", "/", "P"), None);
    }

    #[test]
    fn a_parameter_with_a_secret_is_known_by_its_name() {
        for url in
            ["https://h/x?access_token=a", "h:1/v1?a=b&API-Key=c", "https://h/x#token=t", "https://h?private_token=x"]
        {
            assert!(has_secret_parameter(url), "{url}");
        }
        for url in [
            "https://h/token=a",
            "https://h/x?api-version=2024-10-21",
            "https://h/x?token=",
            "https://h/x?tokens=5",
            "h:1",
        ] {
            assert!(!has_secret_parameter(url), "{url}");
        }
    }

    #[test]
    fn credentials_are_what_stands_before_the_host() {
        for (url, secret, shown) in [
            ("https://me:tok@host/x@y", Some("tok"), "https://host/x@y"),
            ("https://tok@host/x", Some("tok"), "https://host/x"),
            // As `curl -u tok:` has it.
            ("https://tok:@host/x", Some("tok"), "https://host/x"),
            ("HTTPS://tok@host", Some("tok"), "HTTPS://host"),
            ("git+https://tok@host", Some("tok"), "git+https://host"),
            ("https://:pw@host", Some("pw"), "https://host"),
            ("https://me:p@w@host:1?a#b", Some("p@w"), "https://host:1?a#b"),
            ("ssh://git:pw@host/x", Some("pw"), "ssh://git@host/x"),
            ("ssh://git@host/x", None, "ssh://git@host/x"),
            ("ssh://git:@host/x", None, "ssh://git:@host/x"),
            ("https://host?a=b@c", None, "https://host?a=b@c"),
            ("https://host#a:b@c", None, "https://host#a:b@c"),
            ("https://@host", None, "https://@host"),
            ("git@host:x", None, "git@host:x"),
            ("/a/path", None, "/a/path"),
        ] {
            assert_eq!(credentials(url).as_deref(), secret, "{url}");
            assert_eq!(without_credentials(url), shown);
        }
    }
}
