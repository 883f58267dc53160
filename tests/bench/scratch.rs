use regatta::event::*;
use regatta::plan::*;
use regatta::runner::*;
use regatta::store::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let per = 100;
    std::fs::create_dir_all(dir.join("src")).unwrap();
    let mut tasks: Vec<Task> = vec![];
    for i in 0..n {
        let layer = i / per;
        let mut needs = vec![];
        let mut inputs = BTreeMap::new();
        let mut reads = String::new();
        if layer == 0 {
            let f = dir.join(format!("src/{i}.txt"));
            if !f.exists() {
                std::fs::write(f, format!("{i}\n")).unwrap();
            }
            inputs.insert("src".to_string(), vec![format!("src/{i}.txt")]);
            reads = Reference::Input("src".into()).token();
        } else {
            let mut d = vec![];
            for k in 0..3 {
                d.push(((layer - 1) * per + (i * 7 + k * 13) % per) as u32);
            }
            d.sort();
            d.dedup();
            for x in d {
                needs.push(Need { task: x, data: true });
                reads += &format!("{}/o ", Reference::Out(TaskId::new(format!("t{x}"))).token());
            }
        }
        let action = serde_json::json!({"shell": format!("cat {reads} > o")}).to_string();
        tasks.push(Task {
            id: TaskId::new(format!("t{i}")),
            stage: format!("t{i}"),
            about: None,
            lifetime: Lifetime::Step,
            skipped: None,
            kind: ActionKind::Shell,
            action,
            needs,
            inputs,
            outputs: vec![],
            env: BTreeMap::new(),
            secrets: vec![],
            gpus: 0,
            cpus: Some(1),
            timeout: None,
            retry: None,
            cache: true,
            resume: false,
        });
    }
    let plan = Arc::new(Plan { name: "x".into(), params: BTreeMap::new(), tasks });
    let t = Instant::now();
    let home = Home::new(dir.clone(), dir.join(".regatta"));
    let id = RunId::new(format!("r{}", std::process::id()));
    let _ = regatta::process::adopt_orphans();
    let Taken::Yes(_lock) = Lock::try_take(&home, &id).unwrap() else { panic!() };
    let shelf = Arc::new(Shelf::open(&home).unwrap());
    let digests = Arc::new(Digests::load(&home));
    eprintln!("open {:?}", t.elapsed());
    shelf.begin().unwrap();
    let journal = Mutex::new(Journal::create(&home, &id).unwrap());
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let opts = Options { jobs: 2, gpus: vec![], keep_going: false, parts: vec![Part::Run; n], forced: vec![false; n] };
    let work = Arc::new(regatta::stage::Stages::new(home.state(), id.clone()));
    let s = rt.block_on(async {
        let (w, sh, dg) = (work, shelf.clone(), digests.clone());
        tokio::spawn(run(
            plan.clone(),
            w,
            sh,
            dg,
            opts,
            id,
            Stop::new(),
            Arc::new(move |e| journal.lock().unwrap().append(&e).unwrap()),
        ))
        .await
        .unwrap()
    });
    eprintln!("ran {:?} {:?} {:?}", t.elapsed(), s.tally, s.failures.first());
    shelf.sync().unwrap();
    digests.save(&home).unwrap();
    eprintln!("synced {:?}", t.elapsed());
    let rest = Rest { tally: s.tally, look_at: s.rest.unwrap_or_default() };
    let c = Compiler::new(&home, &["x"]);
    c.keep_rest(&rest).unwrap();
    c.keep_plan(&Compiled { sources: vec![], absent: vec![], env: vec![], plan: (*plan).clone() }).unwrap();
    let t = Instant::now();
    let p: Plan = c.plan(|_| None).unwrap();
    eprintln!("plan load {:?} {}", t.elapsed(), p.tasks.len());
    let t = Instant::now();
    let r = c.rest().unwrap();
    eprintln!("rest load {:?} {}", t.elapsed(), r.look_at.len());
    let h = r.holds();
    eprintln!("rest holds {h} {:?}", t.elapsed());
}
