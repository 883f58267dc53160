//! What must not be taken for done, and links that must say what is true.

use pretty_assertions::assert_eq;

use crate::world::World;

#[test]
fn another_number_of_gpus_is_another_task() {
    let manifest = |gpus: u32| format!("stages:\n  a: {{ gpus: {gpus}, shell: 'echo $CUDA_VISIBLE_DEVICES > out' }}\n");
    let world = World::with(&manifest(1));
    world.good(&["run", "m", "--gpus", "0,1"]);
    assert_eq!(world.read("latest/a/out"), "0\n");
    world.manifest("m", &manifest(2));
    world.good(&["run", "m", "--gpus", "0,1"]);
    assert_eq!(world.read("latest/a/out"), "0,1\n");
}
