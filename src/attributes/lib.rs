//! Attributes for the types of the other crates, which see them as `base::omit_empty`.
//!
//! A crate of its own, because the compiler runs it.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Above the `derive` of a type that serde writes: an option without a value, and a list or map without entries, is not
/// written. A list or map that is missing is read as empty.
///
/// A field that says itself when it is skipped, or that is flattened, stays as it is; so does a list or map with any
/// `serde` attribute of its own, and a field that the attribute excepts: `#[base::omit_empty(except(points))]`.
#[proc_macro_attribute]
pub fn omit_empty(except: TokenStream, item: TokenStream) -> TokenStream {
    let except = except.to_string();
    let written: Vec<&str> = except.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let with_attributes = |token| match token {
        TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
            braces(&body, fields(body.stream(), &written))
        }
        token => token,
    };
    item.into_iter().map(with_attributes).collect()
}

fn braces(body: &Group, content: TokenStream) -> TokenTree {
    let mut group = Group::new(Delimiter::Brace, content);
    group.set_span(body.span());
    group.into()
}

/// The fields of a type, each with its attribute, but for those that are always written.
fn fields(body: TokenStream, written: &[&str]) -> TokenStream {
    let (mut fields, mut field, mut depth) = (TokenStream::new(), Vec::new(), 0_u32);
    for token in body {
        let punctuation = if let TokenTree::Punct(mark) = &token { mark.as_char() } else { ' ' };
        field.push(token);
        match punctuation {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => fields.extend(with_attribute(std::mem::take(&mut field), written)),
            _ => {}
        }
    }
    fields.extend(with_attribute(field, written));
    fields
}

fn with_attribute(field: Vec<TokenTree>, written: &[&str]) -> TokenStream {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    let colon = field.iter().position(is_colon).unwrap_or(field.len());
    let (before, after) = field.split_at(colon);
    let text = |tokens: &[TokenTree]| tokens.iter().cloned().collect::<TokenStream>().to_string();
    let serde_texts = before.iter().filter(|token| matches!(token, TokenTree::Group(_))).map(ToString::to_string);
    let serde_texts: String = serde_texts.filter(|attribute| attribute.starts_with("[serde")).collect();
    let written_type = text(after).replace(' ', "");
    let outer = written_type.split('<').next().unwrap_or_default().rsplit(':').next().unwrap_or_default();
    let is_written = before.last().is_some_and(|name| written.contains(&name.to_string().as_str()));
    let attribute = match outer {
        _ if is_written || serde_texts.contains("skip") || serde_texts.contains("flatten") => String::new(),
        "Option" => "#[serde(skip_serializing_if = \"Option::is_none\")]".to_owned(),
        "Vec" | "IndexMap" | "BTreeMap" if serde_texts.is_empty() => {
            format!("#[serde(default, skip_serializing_if = \"{outer}::is_empty\")]")
        }
        _ => String::new(),
    };
    let attribute: TokenStream = attribute.parse().unwrap_or_default();
    attribute.into_iter().chain(field).collect()
}
