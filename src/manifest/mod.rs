//! Turns text into a `Manifest` that needs no further checking; owns the JSON Schema.
//!
//! [`load()`] reads a manifest with everything it includes, gives parameters their values, merges the chosen catalog
//! files, and reports every error with its place. It starts nothing and writes nothing. Expressions inside stages
//! are rendered by `plan`, with [`Expressions`].

mod check;
mod expression;
mod given;
mod library;
mod load;
mod loaded;
mod merge;
pub mod model;
mod node;
mod order;
mod overrides;
mod param;
mod read;
mod reference;
mod scalar;
mod schema;
mod shape;
mod target;
mod uses;
mod value;
mod vars;

pub use check::{Templates, check, check_texts, coerce};
pub use expression::{Expressions, Scope};
pub use given::{GivenValues, ValueOrigin};
pub use library::{ManifestLibrary, is_shipped, shipped};
pub use load::load;
pub use loaded::{ListedManifest, Manifest, ShownValue, catalogue};
pub use node::{Map, MapEntry, Node, Tree, is_template, shown};
pub(crate) use order::order;
pub use param::Chosen;
pub use reference::{AllowedValue, ManifestKey};
pub use schema::schema;
pub use shape::stage as stage_shape;
pub use target::{TargetError, Targets, targets};
pub use value::{NoValue, value_of};
