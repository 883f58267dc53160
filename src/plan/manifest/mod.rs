//! Turns text into a `Manifest` that needs no further checking; owns the JSON Schema.
//!
//! [`load()`] reads a manifest with everything it includes, gives parameters their values, merges the chosen catalog
//! files, and reports every error with its place. It starts nothing and writes nothing. Expressions inside stages
//! are rendered by `plan`, with [`Expressions`].

mod catalog_keys;
mod expression;
mod expression_code;
mod expression_limits;
mod expression_nesting;
mod expression_paths;
mod expression_progress;
mod expression_source;
mod expression_stack;
mod expression_syntax;
mod expression_text;
mod faulty_parts;
mod given_values;
mod key_hints;
mod library;
mod limited_text;
mod load;
mod loaded;
mod merge;
pub mod model;
mod outline;
mod override_usage;
mod overrides;
mod param;
mod read;
mod reference;
mod scalar;
mod schema;
mod schema_check;
mod syntax_fault;
mod target;
mod topological_order;
mod value;
mod value_budget;
mod value_origin;
mod value_shape;
mod vars;
mod yaml_node;

pub use expression::{Expressions, Scope};
pub use expression_limits::bound;
pub use expression_nesting::check_nesting;
pub use expression_progress::{ExpressionProgress, expression_in_progress, wait_for_expression};
pub use expression_stack::{EXPRESSION_STACK, on_expression_stack, on_stack};
pub use expression_text::{value_text, write_value};
pub use faulty_parts::FaultyParts;
pub use given_values::GivenValues;
pub use library::{ManifestLibrary, is_shipped, shipped};
pub use limited_text::LimitedText;
pub use load::{load, load_with_errors, outline, replaced_arguments};
pub use loaded::{ListedManifest, Manifest, ShownValue, list_manifests};
pub use outline::{DeclaredParam, ManifestOutline};
pub use overrides::is_place;
pub use param::ResolvedParam;
pub use reference::{AllowedValue, ManifestKey};
pub use schema::schema;
pub use schema_check::{TemplatePolicy, check, check_texts, coerce};
pub use target::{TargetError, Targets, targets};
pub(crate) use topological_order::topological_order;
pub use value::{NoValue, value_of};
pub use value_budget::{BudgetExceeded, ValueBudget};
pub use value_origin::ValueOrigin;
pub use value_shape::stage as stage_shape;
pub use yaml_node::{Map, MapEntry, Node, NodeValue, is_template};
