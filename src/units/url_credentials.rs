//! User and password in a URL: `https://user:password@host/path`.

/// The secret part of `scheme://user:password@host/…`, or of `scheme://token@host/…` for http.
pub fn credentials(url: &str) -> Option<String> {
    let (scheme, _) = url.split_once("://")?;
    let userinfo = userinfo(url)?;
    match userinfo.split_once(':') {
        Some((_, password)) => Some(password.to_owned()),
        None if scheme.starts_with("http") => Some(userinfo.to_owned()),
        None => None,
    }
    .filter(|secret| !secret.is_empty())
}

/// What stands before the `@` of the host.
pub fn userinfo(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next()?.rsplit_once('@').map(|(userinfo, _)| userinfo)
}

/// The URL as it may be shown and published.
pub fn without_credentials(url: &str) -> String {
    if credentials(url).is_none() {
        return url.to_owned();
    }
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest, rest.split('/').next()?))) {
        Some((scheme, rest, authority)) => {
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{}", &rest[authority.len()..])
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_what_stands_before_the_host() {
        assert_eq!(credentials("https://me:tok@host/x@y").as_deref(), Some("tok"));
        assert_eq!(credentials("https://tok@host/x").as_deref(), Some("tok"));
        assert_eq!(credentials("ssh://git@host/x"), None);
        assert_eq!(credentials("/a/path"), None);
        assert_eq!(without_credentials("https://me:tok@host/x@y"), "https://host/x@y");
        assert_eq!(without_credentials("git@host:x"), "git@host:x");
    }
}
