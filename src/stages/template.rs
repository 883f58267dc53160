//! `template:` — a folder of minijinja templates rendered into files.
//!
//! `*.j2` are rendered and lose the suffix; other files are copied. Printing a name that is not given is an error,
//! never an empty text. The executable bit stays.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior};
use walkdir::WalkDir;

use super::task_context::TaskContext;
use crate::Run;
use base::diag::{SourceText, catch_panic, did_you_mean, list_of};
use base::event::{Done, Failure};
use base::files::{metadata_if_there, read_text};
use base::units::counted;
use plan::manifest::model::Template;
use plan::manifest::{EXPRESSION_STACK, ExpressionProgress, LimitedText, bound, check_nesting, on_stack, write_value};
use runner::store::WithPath as _;

/// Steps that one template may take: ten times those of an expression in a manifest. A value is nested in at most as
/// many others.
const MOST_STEPS: u64 = 2_000_000;
/// Stack size for a template of that many steps, in bytes.
const STACK: usize = 10 * EXPRESSION_STACK;
/// The most bytes of a text, or items of a list, that one filter makes.
const MOST_OF_FILTER: usize = 16 << 20;
/// The longest file that a template may become, bytes.
const LONGEST_FILE: usize = 256 << 20;

impl Run for Template {
    // 2: with `true` and `false`.
    const FORMAT: Option<u32> = Some(2);

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        let from = context.path(&self.from);
        let metadata = metadata_if_there(&from).at("look at", &from)?;
        if metadata.as_ref().is_some_and(fs::Metadata::is_file) {
            return Err(Failure::files(format!("{} is a file, and `from` names a folder", from.display()))
                .hint("name the folder that it is in; files in it that end in `.j2` are rendered, others are copied"));
        }
        if !metadata.is_some_and(|metadata| metadata.is_dir()) {
            return Err(Failure::files(format!("there is no folder {}", from.display()))
                .hint("`from` is a path relative to the current folder"));
        }
        let environment = environment()?;
        let (mut targets, mut used, mut templates) = (BTreeSet::new(), BTreeSet::new(), 0);
        for entry in WalkDir::new(&from).follow_links(true).min_depth(1).sort_by_file_name() {
            let entry = entry.at("list", &from)?;
            let name = entry.path().strip_prefix(&from).unwrap_or(entry.path());
            let mut target = context.lease.out.join(name);
            let is_template = entry.path().extension().is_some_and(|extension| extension == "j2");
            if is_template && !entry.file_type().is_dir() {
                target.set_extension("");
            }
            if entry.file_type().is_file() && !targets.insert(target.clone()) {
                return Err(Failure::refused(format!("two files become {}", target.display())));
            }
            if entry.file_type().is_dir() {
                fs::create_dir_all(&target).at("create", &target)?;
            } else if is_template {
                used.extend(render(&environment, entry.path(), &from, &target, self)?);
                templates += 1;
            } else {
                fs::copy(entry.path(), &target).at("copy", entry.path())?;
            }
        }
        let unused: Vec<&str> = self.with.keys().map(String::as_str).filter(|name| !used.contains(*name)).collect();
        if templates > 0 && !unused.is_empty() {
            context.lease.notice(format!("no template uses {} of `with`", list_of(unused.iter().copied())));
        }
        let written = targets.len();
        if written == 0 {
            return Err(Failure::files(format!("the folder {} has no files", from.display())));
        }
        Ok(Done { headline: Some(counted(written, "file")), ..Done::default() })
    }
}

fn environment() -> Result<Environment<'static>, Failure> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(keeping_line_ends()?);
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_formatter(write_value);
    bound::<MOST_OF_FILTER>(&mut environment);
    Ok(environment)
}

/// A text file keeps its last line break.
fn keeping_line_ends() -> Result<SyntaxConfig, Failure> {
    SyntaxConfig::builder()
        .keep_trailing_newline(true)
        .build()
        .map_err(|error| Failure::refused(format!("the template syntax cannot be set: {error}")))
}

/// Writes a file. Returns the names that its template uses.
fn render(
    environment: &Environment<'_>,
    source: &Path,
    from: &Path,
    target: &Path,
    template: &Template,
) -> Result<BTreeSet<String>, Failure> {
    let text = read_text(source).at("read", source)?;
    let name = source.strip_prefix(from).unwrap_or(source).display().to_string();
    let file = SourceText::new(name.as_str(), text.as_str());
    check_nesting(&text).map_err(|error| {
        Failure::refused(format!("{name}:{}: this expression is too long: {error}", file.line_of(error.at)))
    })?;
    let _progress = ExpressionProgress::begin(&file.start());
    let (rendered, used) = on_stack(STACK, || catch_panic(|| render_text(environment, &name, &text, template)))
        .map_err(|error| Failure::system(format!("no thread can render {name}: {error}")))?
        .map_err(|panic| Failure::refused(format!("{name}: {panic}")))??;
    fs::write(target, rendered).at("write", target)?;
    let mode = |path: &Path| {
        let metadata = fs::metadata(path).at("look at", path)?;
        Ok::<_, Failure>(metadata.permissions().mode())
    };
    let (given, made) = (mode(source)?, mode(target)?);
    // Users that may read it may run it, and no others.
    let executable = if given & 0o111 == 0 { 0 } else { (made & 0o444) >> 2 };
    fs::set_permissions(target, Permissions::from_mode(made | executable)).at("change", target)?;
    Ok(used)
}

/// Renders a template. Returns the text and the names that it uses.
fn render_text(
    environment: &Environment<'_>,
    name: &str,
    text: &str,
    template: &Template,
) -> Result<(String, BTreeSet<String>), Failure> {
    let mut rendered = LimitedText::new(LONGEST_FILE);
    let mut used = BTreeSet::new();
    environment
        .template_from_named_str(name, text)
        .and_then(|compiled| {
            used.extend(compiled.undeclared_variables(false));
            let values = minijinja::Value::from(minijinja::value::Serde(&template.with));
            compiled.render_captured_to(values, &mut rendered).map(drop)
        })
        .map_err(|error| {
            let place = error.line().map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
            let detail =
                error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
            if error.kind() != minijinja::ErrorKind::UndefinedError {
                return Failure::refused(format!("{place}: {detail}"));
            }
            let line = error.line().and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
            let missing = missing_names(environment, text, line, template);
            let message = if missing.is_empty() {
                detail
            } else {
                format!("`with` does not give {}", list_of(missing.iter().map(String::as_str)))
            };
            let hint = missing.first().and_then(|name| alternatives(name, template));
            Failure::refused(format!("{place}: {message}"))
                .cause("the template uses a name that `with` does not give")
                .hint(hint.unwrap_or_else(|| "it gives none; write `with: { NAME: VALUE }`".to_owned()))
        })?;
    Ok((rendered.into_text(), used))
}

/// The names of a line that a template uses and `with` does not give, in alphabetical order.
fn missing_names(environment: &Environment<'_>, text: &str, line: &str, template: &Template) -> Vec<String> {
    let used =
        environment.template_from_str(text).map(|template| template.undeclared_variables(true)).unwrap_or_default();
    let is_given = |path: &str| {
        let mut parts = path.split('.');
        let mut value = parts.next().and_then(|root| template.with.get(root));
        for part in parts {
            value = value.and_then(|value| value.get(part));
        }
        value.is_some()
    };
    let words: BTreeSet<&str> = line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).collect();
    let mut missing: Vec<String> =
        used.into_iter().filter(|name| words.contains(name.as_str()) && !is_given(name)).collect();
    missing.sort();
    missing
}

/// What `with` gives in place of a missing name: at the top, or in the map that the name's first part names.
fn alternatives(missing: &str, template: &Template) -> Option<String> {
    if let Some((root, rest)) = missing.split_once('.')
        && let Some(map) = template.with.get(root).and_then(serde_json::Value::as_object)
    {
        return did_you_mean(rest, map.keys().map(String::as_str));
    }
    did_you_mean(missing, template.with.keys().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a template becomes, or why it does not.
    fn outcome(text: &str) -> Result<String, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let [source, target] = ["t.j2", "t"].map(|name| folder.path().join(name));
        fs::write(&source, text).unwrap();
        let template = Template { from: "t".into(), with: std::iter::empty().collect() };
        render(&environment().unwrap(), &source, folder.path(), &target, &template)?;
        Ok(fs::read_to_string(target).unwrap())
    }

    #[test]
    fn a_long_chain_is_an_error_with_its_line() {
        for chain in ["-".repeat(30_000), "1+".repeat(16_000), "not ".repeat(16_000)] {
            let error = outcome(&format!("a\n{{{{ {chain}1 }}}}\n")).unwrap_err().what;
            assert!(error.starts_with("t.j2:2: this expression is too long: it has "), "{error}");
        }
        let error = outcome(&format!("{{{{ 1{} }}}}", "|abs".repeat(16_000))).unwrap_err().what;
        assert!(error.starts_with("t.j2:1: this expression is too long: it has "), "{error}");
        let branches = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}\n".repeat(4000));
        assert_eq!(
            outcome(&branches).unwrap_err().what,
            "t.j2:1001: this expression is too long: it has more than 1000 `elif`"
        );
        // As long as they may be, they do not overflow.
        assert_eq!(outcome(&format!("{{{{ 1{} }}}}", "|abs".repeat(2000))).unwrap(), "1");
        assert_eq!(outcome(&format!("{{{{ {}1 }}}}", "-".repeat(8000))).unwrap(), "1");
        assert!(outcome(&"{% if 1 %}".repeat(5000)).is_err());
    }

    #[test]
    fn a_switch_is_written_as_true_or_false() {
        assert_eq!(outcome("decoupled: {{ 1 == 1 }}, {{ not true }}").unwrap(), "decoupled: true, false");
    }

    #[test]
    fn what_would_panic_or_grow_is_an_error() {
        assert_eq!(outcome("{% if 4 is divisibleby(0) %}a{% else %}b{% endif %}").unwrap(), "b");
        let error = outcome("{{ \"%(aé)s\"|format(1) }}").unwrap_err().what;
        assert!(error.starts_with("t.j2:1: ") && error.contains("ASCII"), "{error}");
        for grows in [
            "range(100000)|join('x' * 100000)",
            "'a\nb'|indent(2000000000)",
            "'%2000000000d'|format(1)",
            "[1]|batch(2000000000, 0)",
            "[1]|slice(2000000000)",
            "('x' * 100000)|replace('x', 'y' * 100000)",
        ] {
            let error = outcome(&format!("{{{{ ({grows})|length }}}}")).unwrap_err().what;
            assert!(error.contains("it would become"), "{grows}: {error}");
        }
        // Longer than a text of a manifest may be.
        assert_eq!(outcome("{{ (range(100000)|join('x' * 100))|length }}").unwrap(), "10488790");
    }

    #[test]
    fn a_value_of_any_depth_has_a_stack() {
        let deep = "[".repeat(60) + "n.x" + &"]".repeat(60);
        let each = format!("{{% set n.x = {deep} %}}").repeat(40);
        let text = format!(
            "{{% set n = namespace(x=1) %}}{{% for a in range(100000) %}}{each}{{% if a == 700 %}}{{{{ n.x == n.x \
             }}}}{{% endif %}}{{% endfor %}}"
        );
        let error = outcome(&text).unwrap_err().what;
        assert!(error.contains("fuel"), "{error}");
    }
}
