//! `$(( … ))`: whole numbers, `+ - * / %`, `**` and parentheses over values that the text has.

/// The value; none where a name has no number, or where it is no arithmetic that is read here.
pub(super) fn evaluate(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<i64> {
    let mut expression = Expression { chars: text.chars().filter(|c| !c.is_whitespace()).collect(), at: 0, value };
    let result = expression.sum(0)?;
    (expression.at == expression.chars.len()).then_some(result)
}

struct Expression<'a> {
    chars: Vec<char>,
    at: usize,
    value: &'a dyn Fn(&str) -> Option<String>,
}

impl Expression<'_> {
    /// Parentheses in parentheses of more than these are not read.
    const DEEPEST: usize = 32;

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let is_next = self.chars[self.at..].starts_with(&text.chars().collect::<Vec<_>>());
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    fn sum(&mut self, depth: usize) -> Option<i64> {
        let mut total = self.product(depth)?;
        loop {
            total = match self.peek() {
                Some('+') => {
                    self.at += 1;
                    total.checked_add(self.product(depth)?)?
                }
                Some('-') => {
                    self.at += 1;
                    total.checked_sub(self.product(depth)?)?
                }
                _ => return Some(total),
            };
        }
    }

    fn product(&mut self, depth: usize) -> Option<i64> {
        let mut total = self.power(depth)?;
        loop {
            total = match self.peek() {
                Some('*') => {
                    self.at += 1;
                    total.checked_mul(self.power(depth)?)?
                }
                Some('/') => {
                    self.at += 1;
                    total.checked_div(self.power(depth)?)?
                }
                Some('%') => {
                    self.at += 1;
                    total.checked_rem(self.power(depth)?)?
                }
                _ => return Some(total),
            };
        }
    }

    fn power(&mut self, depth: usize) -> Option<i64> {
        let base = self.operand(depth)?;
        if !self.takes("**") {
            return Some(base);
        }
        let exponent = u32::try_from(self.operand(depth)?).ok()?;
        base.checked_pow(exponent)
    }

    fn operand(&mut self, depth: usize) -> Option<i64> {
        if depth > Self::DEEPEST {
            return None;
        }
        if self.takes("-") {
            return self.operand(depth + 1)?.checked_neg();
        }
        if self.takes("(") {
            let inner = self.sum(depth + 1)?;
            return self.takes(")").then_some(inner);
        }
        let is_in_braces = self.takes("${");
        let is_name = is_in_braces || self.takes("$") || self.peek()?.is_ascii_alphabetic() || self.peek()? == '_';
        let begin = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let word: String = self.chars[begin..self.at].iter().collect();
        if is_in_braces && !self.takes("}") {
            return None;
        }
        let number = if is_name { (self.value)(&word)?.trim().to_owned() } else { word };
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
        let value = |name: &str| (name == "N").then(|| "4".to_owned());
        for (text, result) in [
            ("N*10", Some(40)),
            ("$N * 2 + ${N}", Some(12)),
            ("2 + 3 * (N - 1)", Some(11)),
            ("2**10 / 3 % 100", Some(41)),
            ("-N", Some(-4)),
            ("M + 1", None),
            ("1 / 0", None),
            ("010 + 1", None),
            ("(1", None),
            ("", None),
            ("9223372036854775807 + 1", None),
        ] {
            assert_eq!(evaluate(text, &value), result, "{text}");
        }
    }
}
