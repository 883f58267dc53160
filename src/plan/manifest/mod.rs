//! Turns text into a `Manifest` that needs no further checking; owns the JSON Schema.
//!
//! [`load()`] reads a manifest with everything it includes, gives parameters their values, merges the chosen catalog
//! files, and reports every error with its place. It starts nothing and writes nothing. Expressions inside stages
//! are rendered by `plan`, with [`Expressions`].

mod error_origin;
mod expression;
mod expression_limits;
mod expression_source;
mod library;
mod load;
mod loaded;
pub mod model;
mod override_usage;
mod overrides;
mod param;
mod read;
mod reference;
mod schema;
mod schema_check;
mod syntax_fault;
mod target;
mod value;
mod vars;

pub(crate) use error_origin::traced;
pub use expression::{Expressions, Scope};
pub use expression_limits::{
    EXPRESSION_STACK, ExpressionProgress, bound, check_nesting, expression_in_progress, on_expression_stack, on_stack,
    wait_for_expression,
};
pub use expression_source::{value_text, write_value};
pub use library::{ManifestLibrary, is_shipped, shipped};
pub(crate) use load::load_with_errors;
pub use load::{load, load_text, replaced_arguments};
pub use loaded::{FaultyParts, GivenValues, ListedManifest, Manifest, ShownValue, ValueOrigin, list_manifests};
pub use overrides::is_place;
pub use param::ResolvedParam;
pub use read::{LimitedText, Map, MapEntry, Node, NodeValue, is_template};
pub use reference::{AllowedValue, ManifestKey};
pub use schema::{schema, stage as stage_shape};
pub use schema_check::{TemplatePolicy, check, check_texts, coerce};
pub use target::{TargetError, Targets, targets};
pub use value::{BudgetExceeded, NoValue, ValueBudget, value_of};
pub(crate) use vars::topological_order;
