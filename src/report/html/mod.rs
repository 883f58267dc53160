//! The page that stays: one self-contained HTML file, readable in light, dark and on paper, without JavaScript and
//! without a network. Pictures are SVG drawn here; text from outside is escaped by the template or by `svg::escape`.

mod bench;
mod block;
mod gpu;
mod network;
mod page;
mod plot;
mod preflight;
mod search;
mod server;
mod svg;
mod timeline;

pub use page::{About, render};
