//! The plan as text for a picture: Graphviz's `dot` and Mermaid. Solid edges carry outputs, dashed ones only order.

use std::fmt::Write as _;

use plan::{Lifetime, Plan, Task};

/// For `dot -Tsvg`.
pub fn graph_dot(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "digraph {} {{", quoted(&plan.name));
    out.push_str("  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    for (at, task) in plan.tasks.iter().enumerate() {
        let mut looks = vec![format!("label={}", quoted(task.id.as_str()))];
        if task.lifetime == Lifetime::Service {
            looks.push("peripheries=2".to_owned());
        }
        if task.skipped.is_some() {
            looks.push("color=gray, fontcolor=gray".to_owned());
        }
        let _ = writeln!(out, "  t{at} [{}];", looks.join(", "));
    }
    for (at, task) in plan.tasks.iter().enumerate() {
        for need in &task.needs {
            let style = if need.data { "" } else { " [style=dashed]" };
            let _ = writeln!(out, "  t{} -> t{at}{style};", need.task);
        }
    }
    out.push_str("}\n");
    out
}

/// For Markdown pages that draw Mermaid.
pub fn graph_mermaid(plan: &Plan) -> String {
    let mut out = String::from("flowchart LR\n");
    for (at, task) in plan.tasks.iter().enumerate() {
        let label = label(task);
        let _ = match task.lifetime {
            Lifetime::Service => writeln!(out, "  t{at}([\"{label}\"])"),
            Lifetime::Step => writeln!(out, "  t{at}[\"{label}\"]"),
        };
    }
    for (at, task) in plan.tasks.iter().enumerate() {
        for need in &task.needs {
            let arrow = if need.data { "-->" } else { "-.->" };
            let _ = writeln!(out, "  t{} {arrow} t{at}", need.task);
        }
    }
    let skipped: Vec<String> = plan
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| task.skipped.is_some())
        .map(|(at, _)| format!("t{at}"))
        .collect();
    if !skipped.is_empty() {
        let _ = writeln!(out, "  classDef skipped opacity:0.5\n  class {} skipped", skipped.join(","));
    }
    out
}

fn label(task: &Task) -> String {
    task.id.as_str().replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;

    #[test]
    fn a_service_has_a_double_border_and_order_is_dashed() {
        insta::assert_snapshot!(graph_dot(&test_runs::plan()), @r#"
        digraph "quickstart" {
          rankdir=LR;
          node [shape=box, style=rounded, fontname="sans-serif"];
          t0 [label="engine"];
          t1 [label="repository/server"];
          t2 [label="triton/server", peripheries=2];
          t3 [label="smoke", color=gray, fontcolor=gray];
          t4 [label="load/server"];
          t5 [label="package"];
          t0 -> t1;
          t1 -> t2;
          t2 -> t3 [style=dashed];
          t2 -> t4;
          t4 -> t5;
        }
        "#);
    }

    #[test]
    fn mermaid_says_the_same() {
        insta::assert_snapshot!(graph_mermaid(&test_runs::plan()), @r#"
        flowchart LR
          t0["engine"]
          t1["repository/server"]
          t2(["triton/server"])
          t3["smoke"]
          t4["load/server"]
          t5["package"]
          t0 --> t1
          t1 --> t2
          t2 -.-> t3
          t2 --> t4
          t4 --> t5
          classDef skipped opacity:0.5
          class t3 skipped
        "#);
    }
}
