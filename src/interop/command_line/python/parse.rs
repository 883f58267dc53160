//! Statements and expressions. Unknown ones are skipped to the end of their line or block, and kept as such.

use super::lex::{PythonToken, Spot, tokens};

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Number(f64, bool),
    Text(String),
    Bool(bool),
    None,
    /// A list or a tuple.
    List(Vec<Self>),
    Dict(Vec<PythonItem>),
    Name(String),
    /// `a.b`
    Field(Box<Self>, String),
    /// `a[b]`
    Index(Box<Self>, Box<Self>),
    Call(Box<Self>, Vec<Self>),
    Minus(Box<Self>),
    Binary(&'static str, Box<Self>, Box<Self>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum PythonItem {
    Pair(Expr, Expr),
    /// `**other`
    Spread(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// From 1.
    pub line: usize,
    pub what: StatementKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `import`, `from`, `pass`, a text alone: nothing that a config sets.
    Nothing,
    Assign(Expr, Expr),
    /// An expression alone, which may change something: `base.update({…})`.
    Expression(Expr),
    Class {
        name: String,
        bases: Vec<Expr>,
        decorators: Vec<Expr>,
        body: Vec<Statement>,
    },
    /// A condition, a loop, a function: known only by running it.
    Other(String),
}

/// The deepest nesting that is followed.
const DEEPEST: usize = 48;
/// The longest chain of `a + b + …` or `a.b.…` that is followed.
const LONGEST: usize = 256;

/// Reads a file. Any text can be read.
pub fn parse(text: &str) -> Vec<Statement> {
    let spots = tokens(text);
    let mut parser = Parser { spots: &spots, at: 0, depth: 0 };
    let mut statements = Vec::new();
    while parser.at < spots.len() {
        statements.extend(parser.block());
        // A dedent too many.
        parser.at += 1;
    }
    statements
}

struct Parser<'a> {
    spots: &'a [Spot],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a PythonToken> {
        self.spots.get(self.at).map(|spot| &spot.token)
    }

    fn line(&self) -> usize {
        self.spots.get(self.at).or(self.spots.last()).map_or(1, |spot| spot.line)
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(PythonToken::Mark(found)) if *found == mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let is = self.is(mark);
        self.at += usize::from(is);
        is
    }

    fn name(&mut self) -> Option<&'a str> {
        match self.peek() {
            Some(PythonToken::Name(name)) => {
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    /// Statements up to the end of the block.
    fn block(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        let mut decorators = Vec::new();
        while let Some(token) = self.peek() {
            match token {
                PythonToken::Dedent => break,
                PythonToken::Newline | PythonToken::Mark(";") => self.at += 1,
                // A block that nothing opened: its statements are as good as the others.
                PythonToken::Indent => statements.extend(self.indented()),
                PythonToken::Mark("@") => {
                    self.at += 1;
                    decorators.extend(self.expression());
                    self.skip_line();
                }
                _ => {
                    let line = self.line();
                    let begun = self.at;
                    let kind = self.statement(std::mem::take(&mut decorators));
                    statements.push(Statement { line, what: kind });
                    self.at = self.at.max(begun + 1);
                }
            }
        }
        statements
    }

    /// The statements of a block that an indent begins; none of one that is too deep.
    fn indented(&mut self) -> Vec<Statement> {
        self.at += 1;
        let block = self.nested(|parser| Some(parser.block()));
        if block.is_none() {
            self.at -= 1;
            self.skip_block();
        } else {
            self.at += usize::from(matches!(self.peek(), Some(PythonToken::Dedent)));
        }
        block.unwrap_or_default()
    }

    /// One level further in; `None` where that is too deep.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEEPEST {
            return None;
        }
        self.depth += 1;
        let inner = read(self);
        self.depth -= 1;
        inner
    }

    fn statement(&mut self, decorators: Vec<Expr>) -> StatementKind {
        let begun = self.at;
        if let Some(PythonToken::Name(word)) = self.peek() {
            match word.as_str() {
                "import" | "from" | "pass" => {
                    self.skip_line();
                    return StatementKind::Nothing;
                }
                "class" => return self.class(decorators),
                "if" | "for" | "while" | "with" | "try" | "def" | "async" | "elif" | "else" | "except" | "finally"
                | "assert" | "del" | "raise" | "return" | "global" | "lambda" | "match" => {
                    let word = word.clone();
                    self.skip_line();
                    if matches!(self.peek(), Some(PythonToken::Indent)) {
                        self.skip_block();
                    }
                    return StatementKind::Other(word);
                }
                _ => {}
            }
        }
        let Some(target) = self.expression() else { return self.other(begun) };
        // `name: type = value`
        if self.take(":") {
            let _ = self.expression();
        }
        if self.take("=") {
            return match self.expression() {
                Some(value) if self.at_end() => StatementKind::Assign(target, value),
                _ => self.other(begun),
            };
        }
        if !self.at_end() {
            return self.other(begun);
        }
        match target {
            Expr::Text(_) => StatementKind::Nothing,
            target => StatementKind::Expression(target),
        }
    }

    fn at_end(&self) -> bool {
        matches!(self.peek(), None | Some(PythonToken::Newline | PythonToken::Dedent | PythonToken::Mark(";")))
    }

    /// What cannot be read is skipped; its first token names it.
    fn other(&mut self, begun: usize) -> StatementKind {
        self.skip_line();
        if matches!(self.peek(), Some(PythonToken::Indent)) {
            self.skip_block();
        }
        match self.spots.get(begun).map(|spot| &spot.token) {
            Some(PythonToken::Name(name)) => StatementKind::Other(name.clone()),
            _ => StatementKind::Other("what stands there".to_owned()),
        }
    }

    fn skip_line(&mut self) {
        while !matches!(self.peek(), None | Some(PythonToken::Newline | PythonToken::Dedent | PythonToken::Indent)) {
            self.at += 1;
        }
        self.at += usize::from(matches!(self.peek(), Some(PythonToken::Newline)));
    }

    /// At an indent: to behind its dedent.
    fn skip_block(&mut self) {
        let mut open = 0usize;
        while let Some(token) = self.peek() {
            match token {
                PythonToken::Indent => open += 1,
                PythonToken::Dedent if open <= 1 => {
                    self.at += usize::from(open == 1);
                    return;
                }
                PythonToken::Dedent => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    fn class(&mut self, decorators: Vec<Expr>) -> StatementKind {
        let begun = self.at;
        self.at += 1;
        let Some(name) = self.name().map(str::to_owned) else { return self.other(begun) };
        let bases = if self.take("(") { self.list(")") } else { Some(Vec::new()) };
        let Some(bases) = bases else { return self.other(begun) };
        if !self.take(":") {
            return self.other(begun);
        }
        let mut body = Vec::new();
        if matches!(self.peek(), Some(PythonToken::Newline)) {
            self.at += 1;
        } else {
            // `class A(B): pass`
            let line = self.line();
            let kind = self.statement(Vec::new());
            body.push(Statement { line, what: kind });
        }
        if matches!(self.peek(), Some(PythonToken::Indent)) {
            body.extend(self.indented());
        }
        StatementKind::Class { name, bases, decorators, body }
    }

    fn expression(&mut self) -> Option<Expr> {
        self.nested(|parser| parser.chain(&["+", "-"], |parser| parser.chain(&["*", "/", "//"], Self::unary)))
    }

    /// Operands with these signs between them.
    fn chain(&mut self, signs: &[&'static str], operand: impl Fn(&mut Self) -> Option<Expr>) -> Option<Expr> {
        let mut left = operand(self)?;
        for _ in 0..LONGEST {
            let Some(sign) = signs.iter().copied().find(|sign| self.is(sign)) else { return Some(left) };
            self.at += 1;
            left = Expr::Binary(sign, Box::new(left), Box::new(operand(self)?));
        }
        None
    }

    fn unary(&mut self) -> Option<Expr> {
        if self.take("-") {
            return Some(Expr::Minus(Box::new(self.nested(Self::unary)?)));
        }
        let base = self.postfix()?;
        if !self.take("**") {
            return Some(base);
        }
        Some(Expr::Binary("**", Box::new(base), Box::new(self.nested(Self::unary)?)))
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut base = self.atom()?;
        for _ in 0..LONGEST {
            base = if self.take(".") {
                Expr::Field(Box::new(base), self.name()?.to_owned())
            } else if self.take("(") {
                Expr::Call(Box::new(base), self.list(")")?)
            } else if self.take("[") {
                let index = self.expression()?;
                if !self.take("]") {
                    return None;
                }
                Expr::Index(Box::new(base), Box::new(index))
            } else {
                return Some(base);
            };
        }
        None
    }

    fn atom(&mut self) -> Option<Expr> {
        let token = self.peek()?;
        self.at += 1;
        Some(match token {
            PythonToken::Number(number, is_whole) => Expr::Number(*number, *is_whole),
            PythonToken::Text(text) => {
                let mut text = text.clone();
                // Texts side by side are one.
                while let Some(PythonToken::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Expr::Text(text)
            }
            PythonToken::Name(name) => match name.as_str() {
                "True" => Expr::Bool(true),
                "False" => Expr::Bool(false),
                "None" => Expr::None,
                name => Expr::Name(name.to_owned()),
            },
            PythonToken::Mark("[") => Expr::List(self.list("]")?),
            PythonToken::Mark("(") => {
                let begun = self.at;
                let mut items = self.list(")")?;
                let is_tuple = self.spots[begun..self.at].iter().any(|spot| spot.token == PythonToken::Mark(","));
                if items.len() == 1 && !is_tuple { items.remove(0) } else { Expr::List(items) }
            }
            PythonToken::Mark("{") => self.dict()?,
            _ => return None,
        })
    }

    /// Expressions with commas, up to a bracket; of `name=value` the value.
    fn list(&mut self, end: &str) -> Option<Vec<Expr>> {
        let mut elements = Vec::new();
        while !self.take(end) {
            let mut element = self.expression()?;
            if self.take("=") {
                element = self.expression()?;
            }
            elements.push(element);
            if !self.take(",") && !self.is(end) {
                return None;
            }
        }
        Some(elements)
    }

    fn dict(&mut self) -> Option<Expr> {
        let mut items = Vec::new();
        while !self.take("}") {
            if self.take("**") {
                items.push(PythonItem::Spread(self.expression()?));
            } else {
                let key = self.expression()?;
                if !self.take(":") {
                    return None;
                }
                items.push(PythonItem::Pair(key, self.expression()?));
            }
            if !self.take(",") && !self.is("}") {
                return None;
            }
        }
        Some(Expr::Dict(items))
    }
}
