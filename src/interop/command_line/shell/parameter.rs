//! What stands between the braces of `${ … }`.

/// A variable, and what is done with its value.
pub(super) struct ParameterExpansion<'a> {
    pub name: &'a str,
    /// `[0]`, of an array.
    pub index: Option<&'a str>,
    /// `[@]`: all values of an array.
    pub is_list: bool,
    pub operation: Operation<'a>,
}

pub(super) enum Operation<'a> {
    Value,
    /// `:-`, where it has no value.
    Default(&'a str),
    /// `:=`
    Assign(&'a str),
    /// `:+`, where it has one.
    Alternative(&'a str),
    /// The number of its characters, or of the values of an array.
    Count,
    Changed(Change<'a>),
}

/// A part is taken from the value, or replaced.
pub(super) enum Change<'a> {
    /// The shortest or longest beginning or end that a pattern has.
    Cut {
        pattern: &'a str,
        is_end: bool,
        is_longest: bool,
    },
    Replace {
        from: &'a str,
        to: &'a str,
        is_every: bool,
    },
    UpperCase,
    LowerCase,
}

impl<'a> ParameterExpansion<'a> {
    /// None where it is of a kind that is not read.
    pub fn read(inner: &'a str) -> Option<Self> {
        let (is_count, inner) = match inner.strip_prefix('#') {
            Some(rest) if !rest.is_empty() => (true, rest),
            _ => (false, inner),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match inner.chars().next()? {
            first if first.is_ascii_digit() => inner.find(|c: char| !c.is_ascii_digit()).unwrap_or(inner.len()),
            first if is_name(first) => inner.find(|c| !is_name(c)).unwrap_or(inner.len()),
            first => usize::from("@*#?$!".contains(first)),
        };
        let (name, rest) = inner.split_at_checked(length).filter(|(name, _)| !name.is_empty())?;
        let (index, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((index, rest)) => (Some(index), rest),
            None => (None, rest),
        };
        let is_list = matches!(index, Some("@" | "*"));
        let operation = if is_count { Operation::Count } else { Operation::read(rest)? };
        Some(Self { name, index: index.filter(|_| !is_list), is_list, operation })
    }
}

impl<'a> Operation<'a> {
    fn read(text: &'a str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Value);
        }
        let plain = text.strip_prefix(':').unwrap_or(text);
        let mut chars = plain.chars();
        Some(match chars.next() {
            Some('-') => Self::Default(chars.as_str()),
            Some('=') => Self::Assign(chars.as_str()),
            Some('+') => Self::Alternative(chars.as_str()),
            Some('?') => Self::Value,
            _ if plain.len() < text.len() => return None,
            Some(cut @ ('%' | '#')) => {
                let rest = chars.as_str();
                let longest = rest.strip_prefix(cut);
                let (pattern, is_longest) = (longest.unwrap_or(rest), longest.is_some());
                Self::Changed(Change::Cut { pattern, is_end: cut == '%', is_longest })
            }
            Some('/') => {
                let every = chars.as_str().strip_prefix('/');
                let (from, to) =
                    every.unwrap_or(chars.as_str()).split_once('/').unwrap_or((every.unwrap_or(chars.as_str()), ""));
                Self::Changed(Change::Replace { from, to, is_every: every.is_some() })
            }
            Some('^') if chars.as_str() == "^" => Self::Changed(Change::UpperCase),
            Some(',') if chars.as_str() == "," => Self::Changed(Change::LowerCase),
            _ => return None,
        })
    }
}

/// No part is taken from a longer value: each place in it is tried.
const LONGEST_CUT: usize = 4096;

impl Change<'_> {
    /// None where its pattern is of a kind that is not read.
    pub fn apply(&self, value: &str) -> Option<String> {
        let is_read = |text: &str| !text.contains(['$', '`', '[', '\\', '"', '\'']);
        match self {
            Self::UpperCase => Some(value.to_uppercase()),
            Self::LowerCase => Some(value.to_lowercase()),
            Self::Replace { from, to, is_every } => {
                let is_plain = is_read(from) && is_read(to) && !from.contains(['*', '?']) && !from.is_empty();
                let replaced = if *is_every { value.replace(from, to) } else { value.replacen(from, to, 1) };
                is_plain.then_some(replaced)
            }
            Self::Cut { pattern, is_end, is_longest } => {
                if !is_read(pattern) || value.len() > LONGEST_CUT {
                    return None;
                }
                let places = value.char_indices().map(|(at, _)| at).chain([value.len()]);
                let mut places: Vec<usize> = places.collect();
                // The shortest part comes first, or the longest.
                if is_end != is_longest {
                    places.reverse();
                }
                let part = |at: usize| if *is_end { &value[at..] } else { &value[..at] };
                let Some(at) = places.into_iter().find(|at| matches(pattern, part(*at))) else {
                    return Some(value.to_owned());
                };
                Some(if *is_end { &value[..at] } else { &value[at..] }.to_owned())
            }
        }
    }
}

/// `*` and `?` of a shell's pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(c) if *c == '?' || *c == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, from) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}
