//! What a job started on its node and would outlive it: containers of docker and podman, which are children of no process of
//! the job, and shared memory. The job removes them at every end that lets it; if it was killed, this machine cannot
//! reach that node, and the user gets a message about what may be left there.

use std::collections::BTreeSet;

use base::event::ExternalResource;
use exec::process::orders;

/// Of one attempt: what its job has announced and not removed.
#[derive(Debug, Default)]
pub struct OnNode {
    node: String,
    resources: BTreeSet<ExternalResource>,
}

impl OnNode {
    pub fn at(&mut self, node: &str) {
        node.clone_into(&mut self.node);
    }

    pub fn update(&mut self, thing: ExternalResource, there: bool) {
        if there {
            self.resources.insert(thing);
        } else {
            self.resources.remove(&thing);
        }
    }

    /// Message for the user after the attempt has finished.
    pub fn leftover_notices(&self) -> Vec<String> {
        let node = &self.node;
        let notice = |thing: &ExternalResource| match thing {
            ExternalResource::Container { name, .. } => {
                let orders: Vec<String> = orders(thing).iter().map(|words| words.join(" ")).collect();
                format!("its container {name} may still run on {node}, with its GPUs; there: `{}`", orders.join("; "))
            }
            ExternalResource::SharedMemory { mark } => {
                format!("shared memory of it may still be on {node}; there: `rm /dev/shm/*{mark}*`")
            }
            ExternalResource::GpuClocks { .. } => {
                format!("clocks of GPUs may still be locked on {node}; there: `{}`", orders(thing).concat().join(" "))
            }
        };
        self.resources.iter().map(notice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_resources_are_not_reported() {
        let container =
            |name: &str| ExternalResource::Container { program: "podman".to_owned(), name: name.to_owned() };
        let mut on_node = OnNode::default();
        on_node.at("n1");
        on_node.update(container("regatta-a"), true);
        on_node.update(container("regatta-b"), true);
        on_node.update(container("regatta-a"), false);
        let text = "its container regatta-b may still run on n1, with its GPUs; there: `podman kill regatta-b; podman rm -f regatta-b`";
        assert_eq!(on_node.leftover_notices(), [text]);
    }
}
