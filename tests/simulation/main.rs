//! Whole runs of bench in simulated time: the network, the service, the disk and the clock are drawn from a seed, with
//! faults at any step, and after each run the invariants of `invariants.rs` must hold.
//!
//! ```text
//! cargo test --test simulation                                  # a short series, part of CI
//! BENCH_SEEDS=10000 cargo test --release --test simulation      # a long one
//! BENCH_SEED=4711 cargo test --test simulation -- --nocapture   # one seed again, with what it was
//! ```
//! A seed that breaks an invariant is made smaller, and the smallest scene that still breaks it is printed.

#![expect(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod disk;
mod invariants;
mod receiver;
mod scene;
mod service;
mod smaller;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use scene::Scene;
use world::World;

/// The seeds of the series in CI.
const SEEDS: u64 = 150;

/// Runs a scene and checks it; gives what is wrong.
fn check(scene: &Scene) -> Result<(), String> {
    let checked = catch_unwind(AssertUnwindSafe(|| {
        let world = World::run(scene);
        invariants::check(scene, &world)
    }));
    checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("of another kind")))
    })
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

#[test]
fn every_seed_holds_every_invariant() {
    let one = variable("BENCH_SEED");
    let seeds = one.map_or(0..variable("BENCH_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let broken = std::sync::Mutex::new(Vec::new());
    let kinds = std::sync::Mutex::new(std::collections::BTreeMap::<&str, u64>::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let scene = Scene::of(seed);
                    for kind in scene.kinds() {
                        *kinds.lock().unwrap().entry(kind).or_default() += 1;
                    }
                    if one.is_some() {
                        println!("{scene:#?}\n{}", scene.scenario());
                    }
                    if let Err(why) = check(&scene) {
                        broken.lock().unwrap().push((seed, why));
                    }
                }
            });
        }
    });
    println!("{} seeds: {:?}", seeds.end - seeds.start, kinds.into_inner().unwrap());
    let mut broken = broken.into_inner().unwrap();
    broken.sort();
    for (seed, why) in &broken {
        println!("seed {seed}: {why}");
    }
    if let Some((seed, why)) = broken.first() {
        let (scene, why) = smaller::smallest(Scene::of(*seed), why.clone(), check);
        panic!("seed {seed}, made smaller: {why}\n{scene:#?}\n{}", scene.scenario());
    }
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 0..10 {
        let scene = Scene::of(seed);
        let (one, two) = (World::run(&scene), World::run(&scene));
        assert_eq!(one.recorded(), two.recorded(), "seed {seed}");
        assert_eq!(*one.seen.lock().unwrap(), *two.seen.lock().unwrap(), "seed {seed}");
        for (one, two) in one.processes.iter().zip(&two.processes) {
            assert_eq!(one.received.sent, two.received.sent, "seed {seed}");
        }
    }
}

/// The simulation would notice: each of these faults of bench, planted in what a run left, breaks an invariant.
#[test]
fn planted_faults_are_found() {
    for (name, plant) in invariants::PLANTS {
        let planted = (0..100).map(Scene::of).find_map(|scene| {
            let mut world = World::run(&scene);
            plant(&mut world).then_some((scene, world))
        });
        let (scene, world) = planted.unwrap_or_else(|| panic!("{name}: there is no place for it"));
        assert!(invariants::check(&scene, &world).is_err(), "{name} was not noticed\n{scene:#?}");
    }
}
