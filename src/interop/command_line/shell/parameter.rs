//! What stands between the braces of `${ … }`.
//!
//! `$(( … ))`: whole numbers, `+ - * / %`, `**` and parentheses. Of a value that the text does not have it is a
//! formula.

use std::cmp::Ordering;

use base::spec::Quantity;

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
    /// `:3` and `:0:8`: what comes first is left out, and what comes behind so many.
    Slice {
        first: usize,
        count: usize,
    },
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
            _ if plain.len() < text.len() => {
                let (first, count) = plain.split_once(':').map_or((plain, None), |(first, count)| (first, Some(count)));
                let count = count.map_or(Some(usize::MAX), |count| count.trim().parse().ok())?;
                Self::Slice { first: first.trim().parse().ok()?, count }
            }
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

/// The value; `None` if this arithmetic is not supported. `value` returns the value of a name, or its placeholder.
pub(super) fn evaluate(text: &str, value: &mut dyn FnMut(&str) -> String) -> Option<Quantity<i64>> {
    let mut expression = Expression { chars: text.chars().collect(), at: 0, value };
    let result = expression.choice(0)?;
    expression.peek().is_none().then_some(result)
}

/// `LAST`, `FIRST LAST` and `FIRST STEP LAST`, as `seq` counts.
pub(crate) fn sequence(text: &str) -> Option<Vec<String>> {
    let numbers: Vec<usize> = text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let (first, step, last) = match numbers.as_slice() {
        [last] => (1, 1, *last),
        [first, last] => (*first, 1, *last),
        [first, step, last] if *step > 0 => (*first, *step, *last),
        _ => return None,
    };
    Some((first..=last).step_by(step).take(1000).map(|number| number.to_string()).collect())
}

struct Expression<'a> {
    chars: Vec<char>,
    at: usize,
    value: &'a mut dyn FnMut(&str) -> String,
}

impl Expression<'_> {
    /// Parentheses in parentheses of more than these are not read.
    const DEEPEST: usize = 32;

    /// The next character that is not a blank.
    fn peek(&mut self) -> Option<char> {
        self.at += self.chars[self.at..].iter().take_while(|c| c.is_whitespace()).count();
        self.chars.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_next = self.peek().is_some() && self.chars[self.at..].starts_with(&text.chars().collect::<Vec<_>>());
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    /// `A < B`, and `CONDITION ? ONE : OTHER`, of known numbers.
    fn choice(&mut self, depth: usize) -> Option<Quantity<i64>> {
        use Ordering::{Equal, Greater, Less};
        const SIGNS: [(&str, &[Ordering]); 6] = [
            ("<=", &[Less, Equal]),
            (">=", &[Greater, Equal]),
            ("==", &[Equal]),
            ("!=", &[Less, Greater]),
            ("<", &[Less]),
            (">", &[Greater]),
        ];
        if depth > Self::DEEPEST {
            return None;
        }
        let mut result = self.sum(depth)?;
        if let Some((_, orders)) = SIGNS.into_iter().find(|(sign, _)| self.takes(sign)) {
            let (Quantity::Known(left), Quantity::Known(right)) = (result, self.sum(depth)?) else { return None };
            result = Quantity::Known(i64::from(orders.contains(&left.cmp(&right))));
        }
        if !self.takes("?") {
            return Some(result);
        }
        let Quantity::Known(condition) = result else { return None };
        let first = self.choice(depth + 1)?;
        let second = self.takes(":").then(|| self.choice(depth + 1))??;
        Some(if condition == 0 { second } else { first })
    }

    fn sum(&mut self, depth: usize) -> Option<Quantity<i64>> {
        let mut total = self.product(depth)?;
        loop {
            total = match self.peek() {
                Some('+') => self.behind(total, "+", i64::checked_add, |it| it.product(depth))?,
                Some('-') => self.behind(total, "-", i64::checked_sub, |it| it.product(depth))?,
                _ => return Some(total),
            };
        }
    }

    fn product(&mut self, depth: usize) -> Option<Quantity<i64>> {
        let mut total = self.power(depth)?;
        loop {
            total = match self.peek() {
                Some('*') => self.behind(total, "*", i64::checked_mul, |it| it.power(depth))?,
                Some('/') => self.behind(total, "//", i64::checked_div, |it| it.power(depth))?,
                Some('%') => self.behind(total, "%", i64::checked_rem, |it| it.power(depth))?,
                _ => return Some(total),
            };
        }
    }

    fn power(&mut self, depth: usize) -> Option<Quantity<i64>> {
        let base = self.operand(depth)?;
        if !self.takes("**") {
            return Some(base);
        }
        self.at -= 1;
        let power = |base: i64, exponent: i64| base.checked_pow(u32::try_from(exponent).ok()?);
        self.behind(base, "**", power, |it| it.operand(depth))
    }

    /// `one` combined with the operand after the next operator. `operator` is how a manifest writes it.
    fn behind(
        &mut self,
        one: Quantity<i64>,
        operator: &str,
        compute: impl Fn(i64, i64) -> Option<i64>,
        operand: impl Fn(&mut Self) -> Option<Quantity<i64>>,
    ) -> Option<Quantity<i64>> {
        self.at += 1;
        match (one, operand(self)?) {
            (Quantity::Known(one), Quantity::Known(other)) => compute(one, other).map(Quantity::Known),
            // The operands are not both numbers.
            (one, other) => Some(one.combine(operator, other, |one, _| one)),
        }
    }

    fn operand(&mut self, depth: usize) -> Option<Quantity<i64>> {
        if depth > Self::DEEPEST {
            return None;
        }
        if self.peek() == Some('-') {
            return self.behind(Quantity::Known(0), "-", i64::checked_sub, |it| it.operand(depth + 1));
        }
        if self.takes("(") {
            let inner = self.choice(depth + 1)?;
            return self.takes(")").then_some(inner);
        }
        let rest = &self.chars[self.at..];
        if rest.starts_with(&['{', '{']) {
            let length = rest.windows(2).position(|pair| pair == ['}', '}'])? + 2;
            self.at += length;
            return rest[..length].iter().collect::<String>().parse().ok();
        }
        let length = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
        let word: String = rest[..length].iter().collect();
        self.at += length;
        let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let number = if is_name { (self.value)(&word).trim().to_owned() } else { word };
        // The shell reads 010 as 8.
        let is_octal = number.len() > 1 && number.starts_with('0');
        if is_octal { None } else { number.parse().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn shell_arithmetic_has_the_shells_precedence() {
        let mut value = |name: &str| if name == "N" { "4".to_owned() } else { "{{u}}".to_owned() };
        for (text, result) in [
            ("N*10", Some("40")),
            ("4 * 2 + N", Some("12")),
            ("2 + 3 * (N - 1)", Some("11")),
            ("2**10 / 3 % 100", Some("41")),
            ("-N", Some("-4")),
            ("U * 2", Some("{{u:int·*·2}}")),
            ("N * (U / 2 - 1)", Some("{{4·*·((u:int·//·2)·-·1)}}")),
            ("{{u:int·*·2}} + 1", Some("{{(u:int·*·2)·+·1}}")),
            ("1 2", None),
            ("1 / 0", None),
            ("010 + 1", None),
            ("(1", None),
            ("", None),
            ("9223372036854775807 + 1", None),
        ] {
            assert_eq!(evaluate(text, &mut value).map(|result| result.to_string()).as_deref(), result, "{text}");
        }
    }
}
