//! The plan as a picture in text: Graphviz and Mermaid.

use std::fmt::Write as _;

use super::task::{Lifetime, Plan, Task};

impl Plan {
    /// Graphviz: services are ellipses, skipped tasks dashed, edges without data dotted.
    pub fn graph_dot(&self) -> String {
        let mut out = String::from("digraph plan {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
        for (at, task) in self.tasks.iter().enumerate() {
            let shape = if task.lifetime == Lifetime::Service { ", shape=ellipse" } else { "" };
            let style = if task.skipped.is_some() { ", style=dashed" } else { "" };
            let _ = writeln!(out, "  t{at} [label=\"{}\"{shape}{style}];", task.id);
        }
        for (at, task) in self.tasks.iter().enumerate() {
            for need in &task.needs {
                let style = if need.data { "" } else { " [style=dotted]" };
                let _ = writeln!(out, "  t{} -> t{at}{style};", need.task);
            }
        }
        out.push_str("}\n");
        out
    }

    /// Mermaid, for Markdown.
    pub fn graph_mermaid(&self) -> String {
        let mut out = String::from("flowchart LR\n");
        for (at, task) in self.tasks.iter().enumerate() {
            let (open, close) = if task.lifetime == Lifetime::Service { ("([", "])") } else { ("[", "]") };
            let Task { id, skipped, .. } = task;
            let note = if skipped.is_some() { " (skipped)" } else { "" };
            let _ = writeln!(out, "  t{at}{open}\"{id}{note}\"{close}");
        }
        for (at, task) in self.tasks.iter().enumerate() {
            for need in &task.needs {
                let arrow = if need.data { "-->" } else { "-.->" };
                let _ = writeln!(out, "  t{} {arrow} t{at}", need.task);
            }
        }
        out
    }
}
