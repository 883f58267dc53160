//! The pages that stay, of a run and of a comparison: one self-contained HTML file each, readable in light, dark and on paper, without JavaScript and
//! without a network. Pictures are SVG drawn here; text from outside is escaped by the template or by `escape`.

mod axis;
mod bench;
mod block;
mod chart;
mod comparison_page;
mod gpu;
mod history_page;
mod hosts;
mod metric_row;
mod natural_order;
mod network;
mod overlay;
mod page;
mod page_top;
mod plot;
mod plot_frame;
mod preflight;
mod repeats;
mod search;
mod sections;
mod server;
mod step_plot;
mod svg;
mod sweep;
mod sweep_charts;
mod sweeps_page;
mod timeline;
mod trend_plot;
mod what_if_page;

pub use comparison_page::compare;
pub use history_page::history;
pub use page::{PageResult, RunOrigin, render};
pub use sweeps_page::compare_sweeps;
pub use what_if_page::what_if;
