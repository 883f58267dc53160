//! Renders the texts of a manifest: strict minijinja without loaders, I/O or clocks, and with a fuel limit.
//!
//! A text that is exactly one `{{ expression }}` keeps the expression's type; anything else becomes a text. What
//! names exist is the caller's business: it hands in a scope.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use super::expression_limits::{ExpressionProgress, LongCode, bound, check_nesting};
use super::expression_source::{self, write_value};
use super::read::{LimitedText, MapEntry, Node, NodeValue, is_template};
use super::value::{MAX_TEXT, NoValue, ValueBudget, is_too_deep, node_of};
use base::diag::{Diagnostic, Diagnostics, MissingValue, Span, did_you_mean, may_suggest};
use base::units::{DurationError, parse_duration};

/// Steps that one text may take: enough for loops over thousands of values, far from a minute.
const FUEL: u64 = 200_000;

/// Our own reasons why a text cannot be rendered: minijinja carries them through as the source of its error.
#[derive(Clone, Debug, thiserror::Error)]
enum RenderError {
    /// `none` in a text.
    #[error("it is `none` here, and `none` cannot be put into a text")]
    NoneInText,
    /// Complete with its own hint, which may be empty.
    #[error("{why}")]
    Explained { why: String, hint: String },
}

impl RenderError {
    fn explained(why: &str, hint: &str) -> Self {
        Self::Explained { why: why.to_owned(), hint: hint.to_owned() }
    }

    /// The reason that a minijinja error carries, also through includes and calls.
    fn find(error: &Error) -> Option<&Self> {
        let sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
        sources.into_iter().find_map(|error| error.downcast_ref())
    }
}

impl From<RenderError> for Error {
    fn from(error: RenderError) -> Self {
        Self::new(ErrorKind::InvalidOperation, error.to_string()).with_source(error)
    }
}

/// Evaluates texts against scopes.
pub struct Expressions {
    env: Environment<'static>,
    budget: ValueBudget,
}

/// The names that an expression may use.
#[derive(Clone)]
pub struct Scope {
    /// Params and vars.
    pub globals: Arc<IndexMap<String, Value>>,
    /// `foreach` variables, `stages`, `inputs`: they win.
    pub local: Vec<(String, Value)>,
}

impl Scope {
    pub(super) fn get(&self, name: &str) -> Option<Value> {
        let local = self.local.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        local.or_else(|| self.globals.get(name)).cloned()
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.local.iter().map(|(name, _)| name.as_str()).chain(self.globals.keys().map(String::as_str))
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.get(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.names().map(Value::from).collect())
    }
}

impl Default for Expressions {
    fn default() -> Self {
        Self::new()
    }
}

impl Expressions {
    pub fn new() -> Self {
        let mut env = Environment::new();
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        env.set_fuel(Some(FUEL));
        env.set_debug(true);
        env.remove_global("debug");
        env.set_formatter(|out, state, value| {
            if value.is_none() {
                return Err(RenderError::NoneInText.into());
            }
            if let Some(bare) = value.downcast_object_ref::<NoValue>() {
                return Err(RenderError::explained(&bare.why, &bare.hint).into());
            }
            if is_too_deep(value) {
                return Err(RenderError::explained("this value is nested too deeply", "").into());
            }
            write_value(out, state, value)
        });
        bound::<MAX_TEXT>(&mut env);
        // `10m` → 600000, for programs that count so.
        env.add_filter("milliseconds", |text: &str| {
            let wrong = |error: DurationError| Error::new(ErrorKind::InvalidOperation, error.to_string());
            parse_duration(text).map(|time| time.as_millis() as u64).map_err(wrong)
        });
        // What is impossible, with the manifest's own message: `{{ a if b else fail('why not', 'what to do') }}`.
        env.add_function("fail", |why: &str, hint: Option<&str>| {
            Err::<Value, Error>(RenderError::explained(why, hint.unwrap_or_default()).into())
        });
        Self { env, budget: ValueBudget::default() }
    }

    /// Of all values that these expressions make, and of what is made from them.
    pub const fn budget(&self) -> &ValueBudget {
        &self.budget
    }

    /// The names that a text uses and does not define itself, e.g. `versions`.
    pub fn names_in(&self, text: &str) -> Vec<String> {
        self.undeclared_in(text, false)
    }

    /// What a text looks at, with the steps inside it: `tuning.kv_fraction`.
    pub fn paths_in(&self, text: &str) -> Vec<String> {
        self.undeclared_in(text, true)
    }

    /// What all texts in a node look at.
    pub fn paths_in_node(&self, node: &Node) -> Vec<String> {
        match &node.tree {
            NodeValue::Text(text) if is_template(text) => self.paths_in(text),
            NodeValue::List(items) => items.iter().flat_map(|item| self.paths_in_node(item)).collect(),
            NodeValue::Map(map) => map.values().flat_map(|entry| self.paths_in_node(&entry.node)).collect(),
            _ => Vec::new(),
        }
    }

    /// Sorted; none of a text that cannot be compiled, which is reported where it is computed.
    fn undeclared_in(&self, text: &str, with_steps: bool) -> Vec<String> {
        if check_nesting(text).is_err() {
            return Vec::new();
        }
        let undeclared = self.env.template_from_str(text).map(|template| template.undeclared_variables(with_steps));
        let mut names: Vec<String> = undeclared.unwrap_or_default().into_iter().collect();
        names.sort();
        names
    }

    /// The names in a text that exist nowhere, without computing anything: for manifests that have other errors,
    /// so that all are reported at once. Texts that test whether something is defined are left alone.
    pub fn unknown_names(&self, node: &Node, known: &[&str], stages: &[&str], found: &mut Diagnostics) {
        match &node.tree {
            NodeValue::Text(text) if is_template(text) && !text.contains("defined") && !text.contains("default") => {
                for path in self.paths_in(text) {
                    let mut steps = path.split('.');
                    let first = steps.next().unwrap_or_default();
                    let at = find(&node.span, &path);
                    let part =
                        |range: Range<usize>| at.as_ref().map_or_else(|| node.span.first_line(), |at| at.part(range));
                    if let ("stages", Some(stage)) = (first, steps.next()) {
                        if !stages.contains(&stage) {
                            found.push(unknown_stage(stage, part(7..7 + stage.len()), stages.iter().copied()));
                        }
                    } else if !known.contains(&first) && !self.env.globals().any(|(name, _)| name == first) {
                        found.push(unknown_name(first, part(0..first.len()), known.iter().copied()));
                    }
                }
            }
            NodeValue::List(items) => items.iter().for_each(|item| self.unknown_names(item, known, stages, found)),
            NodeValue::Map(map) => map.values().for_each(|entry| self.unknown_names(&entry.node, known, stages, found)),
            _ => {}
        }
    }

    /// Renders every text in a node. What could not be rendered is reported and left as it is.
    pub fn render(&self, node: &Node, scope: &Arc<Scope>, found: &mut Diagnostics) -> Node {
        let tree = match &node.tree {
            NodeValue::Text(text) if is_template(text) => match self.text(text, scope, &node.span) {
                Ok(rendered) => return rendered,
                Err(faults) => {
                    found.extend(faults);
                    node.tree.clone()
                }
            },
            NodeValue::List(items) => {
                NodeValue::List(items.iter().map(|item| self.render(item, scope, found)).collect())
            }
            NodeValue::Map(map) => NodeValue::Map(
                map.iter()
                    .map(|(name, entry)| {
                        let node = self.render(&entry.node, scope, found);
                        (name.clone(), MapEntry { key: entry.key.clone(), node })
                    })
                    .collect(),
            ),
            other => other.clone(),
        };
        Node::new(node.span.clone(), tree)
    }

    /// Renders one text. Once the budget is exceeded, which is reported, nothing is rendered any more, and no error is
    /// one more.
    pub fn text(&self, text: &str, scope: &Arc<Scope>, span: &Span) -> Result<Node, Vec<Diagnostic>> {
        if self.budget.is_exceeded() {
            return Err(Vec::new());
        }
        let node = self.computed(text, scope, span)?;
        match self.budget.take_node(&node) {
            Ok(()) => Ok(node),
            Err(error) => Err(vec![Diagnostic::error(error.to_string()).at(span.first_line(), "this one is too much")]),
        }
    }

    fn computed(&self, text: &str, scope: &Arc<Scope>, span: &Span) -> Result<Node, Vec<Diagnostic>> {
        let too_long = |error: LongCode| {
            vec![Diagnostic::error("this expression is too long").at(span.first_line(), error.to_string())]
        };
        let trimmed = text.trim();
        if let Some(inner) = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
            let inner = inner.strip_prefix('-').unwrap_or(inner);
            let inner = inner.strip_suffix('-').unwrap_or(inner);
            check_nesting(text).map_err(too_long)?;
            let _progress = ExpressionProgress::begin(span);
            match self.env.compile_expression(inner) {
                Ok(expression) => {
                    let result = expression.eval(Value::from_dyn_object(Arc::clone(scope)));
                    return match result {
                        Ok(value) if !value.is_undefined() => node_of(&value, span),
                        Ok(_) => {
                            let names = expression.undeclared_variables(true).into_iter().collect();
                            Err(self.undefined(names, scope, span).unwrap_or_else(|| {
                                vec![
                                    Diagnostic::error("this expression has no value")
                                        .at(span.first_line(), "undefined"),
                                ]
                            }))
                        }
                        Err(error) => {
                            let names = expression.undeclared_variables(true).into_iter().collect();
                            Err(self.explain(&error, inner, names, scope, span))
                        }
                    };
                }
                Err(error) if !inner.contains("{{") && !inner.contains("{%") => {
                    return Err(self.explain(&error, inner, Vec::new(), scope, span));
                }
                Err(_) => {}
            }
        }
        check_nesting(text).map_err(too_long)?;
        let _progress = ExpressionProgress::begin(span);
        let template = match self.env.template_from_str(text) {
            Ok(template) => template,
            Err(error) => return Err(self.explain(&error, text, Vec::new(), scope, span)),
        };
        let mut rendered = LimitedText::new(MAX_TEXT);
        let written = template.render_captured_to(Value::from_dyn_object(Arc::clone(scope)), &mut rendered).map(drop);
        match written {
            Ok(()) => Ok(Node::new(span.clone(), NodeValue::Text(rendered.into_text().into()))),
            Err(error) if error.kind() == ErrorKind::WriteFailure => {
                Err(vec![Diagnostic::error("this text becomes too long").at(span.first_line(), "more than 1 MiB")])
            }
            Err(error) => {
                let names = template.undeclared_variables(true).into_iter().collect();
                Err(self.explain(&error, text, names, scope, span))
            }
        }
    }

    fn explain(&self, error: &Error, text: &str, names: Vec<String>, scope: &Scope, span: &Span) -> Vec<Diagnostic> {
        if error.kind() == ErrorKind::UndefinedError
            && let Some(faults) = self.undefined(names, scope, span)
        {
            return faults;
        }
        let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        let place = error.range().and_then(|range| within(span, text, range)).unwrap_or_else(|| span.first_line());
        match RenderError::find(error) {
            Some(RenderError::Explained { why, hint }) => {
                let fault = Diagnostic::error(why).at(place, "");
                return vec![fault.maybe_hint((!hint.is_empty()).then(|| hint.clone()))];
            }
            Some(RenderError::NoneInText) => {
                let fault = Diagnostic::error("a value is missing in this text").missing(MissingValue::InText);
                return vec![fault.at(place, detail).hint("give it a value, or choose one: {{ a or b }}")];
            }
            None => {}
        }
        let (message, hint) = match error.kind() {
            ErrorKind::SyntaxError => {
                let at = error.range().map_or(0, |range| range.start);
                ("this expression is not well formed".to_owned(), expression_source::hint(&detail, text, at))
            }
            ErrorKind::OutOfFuel => {
                ("this expression takes too long".to_owned(), Some("compute less in a manifest".to_owned()))
            }
            ErrorKind::UnknownFilter => {
                let name = detail.strip_prefix("filter ").and_then(|rest| rest.strip_suffix(" is unknown"));
                let name = name.unwrap_or_default();
                let fault = Diagnostic::error(format!("unknown filter `{name}`")).at(place, "no such filter");
                return vec![fault.maybe_hint(did_you_mean(name, FILTERS.split(' ')))];
            }
            ErrorKind::UnknownMethod => {
                let name = detail.rsplit(' ').next().unwrap_or_default();
                let filter = match name {
                    "strip" => "trim",
                    name => name,
                };
                let hint = FILTERS.split(' ').any(|name| name == filter).then(|| {
                    let (value, arguments) = call_of(name, text).unwrap_or(("value", ""));
                    format!("it is a filter: write {{{{ {value} | {filter}{arguments} }}}}")
                });
                ("this expression cannot be computed".to_owned(), hint)
            }
            _ => ("this expression cannot be computed".to_owned(), None),
        };
        vec![Diagnostic::error(message).at(place, detail).maybe_hint(hint)]
    }

    /// Which of the names do not exist, each with the names that do.
    fn undefined(&self, mut names: Vec<String>, scope: &Scope, span: &Span) -> Option<Vec<Diagnostic>> {
        names.sort();
        let mut faults = Vec::new();
        for path in &names {
            let mut steps = path.split('.');
            let first = steps.next().unwrap_or_default();
            let Some(mut value) = scope.get(first) else {
                // Functions of the language are not names of the manifest.
                if self.env.globals().any(|(name, _)| name == first) {
                    continue;
                }
                let place = find(span, path).map_or_else(|| span.first_line(), |at| at.part(0..first.len()));
                faults.push(unknown_name(first, place, scope.names()));
                continue;
            };
            let mut walked = first.to_owned();
            for step in steps {
                let next = value.get_attr(step).unwrap_or_default();
                if next.is_undefined() {
                    let at = find(span, path).unwrap_or_else(|| span.first_line());
                    let begin = walked.len() + 1;
                    let place = at.part(begin..begin + step.len());
                    let place = if place.text() == step { place } else { at };
                    faults.push(no_attribute(&walked, step, &value, place));
                    break;
                }
                walked = format!("{walked}.{step}");
                value = next;
            }
        }
        (!faults.is_empty()).then_some(faults)
    }
}

fn unknown_name<'a>(name: &str, place: Span, known: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> Diagnostic {
    let hint = match name {
        "params" | "vars" => Some("parameters and vars are used by their names alone: {{ rate }}".to_owned()),
        "port" => Some("`{port}`, in one pair of braces, is the port in a server's `command`".to_owned()),
        "env" => Some("a parameter with `env: NAME` reads a variable of the environment".to_owned()),
        _ => did_you_mean(name, known),
    };
    Diagnostic::error(format!("unknown name `{name}`"))
        .missing(MissingValue::Name(name.to_owned()))
        .at(place, "no such param, var or foreach variable")
        .maybe_hint(hint)
}

fn unknown_stage<'a>(name: &str, place: Span, known: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> Diagnostic {
    Diagnostic::error(format!("unknown stage `{name}`"))
        .at(place, "no such stage")
        .maybe_hint(did_you_mean(name, known))
}

/// What a method is called on, `names`, and its arguments with their brackets: of `names.split(",")`, where both are
/// simple.
fn call_of<'a>(method: &str, text: &'a str) -> Option<(&'a str, &'a str)> {
    let call = format!(".{method}(");
    let at = text.find(&call)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let value = &text[text[..at].trim_end_matches(is_part).len()..at];
    let open = at + call.len() - 1;
    let arguments = &text[open..=open + text[open..].find(')')?];
    let is_simple = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && !arguments[1..].contains('(')
        && arguments.matches(['\'', '"']).count().is_multiple_of(2);
    is_simple.then_some((value, if arguments == "()" { "" } else { arguments }))
}

fn no_attribute(walked: &str, step: &str, value: &Value, place: Span) -> Diagnostic {
    let is_map = value.kind() == ValueKind::Map && may_suggest();
    let names = is_map.then(|| value.try_iter().into_iter().flatten().map(|name| name.to_string()));
    let keys: Vec<String> = names.into_iter().flatten().collect();
    let candidates = keys.iter().map(String::as_str);
    if walked == "stages" {
        return unknown_stage(step, place, candidates);
    }
    let is_reference = matches!(value.kind(), ValueKind::String | ValueKind::Seq);
    if let Some(stage) = walked.strip_prefix("stages.").filter(|_| is_reference) {
        let fault = Diagnostic::error(format!("`{walked}` has no `{step}`"));
        return if stage.split_once('.').is_some_and(|(_, attribute)| attribute == "out") {
            fault.at(place, "it is a folder").hint(format!("for a file in it, write {{{{ {walked} }}}}/{step}"))
        } else {
            fault
                .at(place, "it is a server, not a folder")
                .hint(format!("use `{{{{ {walked} }}}}`: the endpoints of its servers"))
        };
    }
    let label = match value.kind() {
        ValueKind::Map => "there is no such key".to_owned(),
        ValueKind::None => format!("`{walked}` is none here"),
        kind => format!("`{walked}` is a {kind}, it has no keys"),
    };
    Diagnostic::error(format!("`{walked}` has no `{step}`")).at(place, label).maybe_hint(did_you_mean(step, candidates))
}

/// Filters that people use in manifests: for suggestions only.
const FILTERS: &str = "\
    abs batch bool default dictsort first float groupby indent int items join last length list lower map max \
    milliseconds min reject rejectattr replace reverse round select selectattr slice sort split string sum title \
    tojson trim unique upper";

/// The position of a name in the source of a scalar.
fn find(span: &Span, path: &str) -> Option<Span> {
    let text = span.text();
    let boundary = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find(path) {
        let begin = from + at;
        let end = begin + path.len();
        let before = text.get(..begin)?.chars().next_back();
        let after = text.get(end..)?.chars().next();
        let after_fits = !after.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if boundary(before) && after_fits && text.get(..begin)?.contains('{') {
            return Some(span.part(begin..end));
        }
        from = end;
    }
    None
}

/// A range of a scalar's text as a place in its source: the same text, the same occurrence.
fn within(span: &Span, text: &str, range: Range<usize>) -> Option<Span> {
    let words = text.get(range.clone())?.trim();
    if words.is_empty() || words.contains('\n') {
        return None;
    }
    let nth = text.get(..range.start)?.matches(words).count();
    let (at, _) = span.text().match_indices(words).nth(nth)?;
    Some(span.part(at..at + words.len()))
}
