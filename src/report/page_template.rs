//! The template of an HTML page: its environment, and the head and style that all pages have.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

const HEAD: &str = include_str!("../../templates/report/head.html");
const STYLE: &str = include_str!("../../templates/report/style.css");

/// Renders `template` with `context`. What it writes is escaped, and an unknown name is an error.
pub(crate) fn render_page(template: &'static str, context: Value) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    environment.add_template("head.html", HEAD)?;
    environment.add_template("page.html", template)?;
    let page = environment.get_template("page.html")?.render(context)?;
    // Control characters are not allowed in a document, escaped or not.
    Ok(page.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "·"))
}
