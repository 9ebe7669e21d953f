//! Makes a scene that breaks an invariant as small as it can be while it still breaks one.

use crate::scene::{DiskFaults, Scene, SceneRunner, ServiceFaults, SpanFaults};

type Change = fn(&mut Scene);

/// Each takes something away, or halves it.
const CHANGES: &[Change] = &[
    |scene| scene.happenings.clear(),
    |scene| scene.happenings.truncate(scene.happenings.len().saturating_sub(1)),
    |scene| {
        scene.shards = 1;
        scene.happenings.retain(|(shard, _, _)| *shard == 0);
    },
    |scene| scene.workloads.truncate(1),
    |scene| drop(scene.workloads.drain(..scene.workloads.len() - 1)),
    |scene| scene.workers = 1,
    |scene| scene.connections = "user",
    |scene| scene.disk = DiskFaults::default(),
    |scene| scene.disk.slow_ms = 0,
    |scene| scene.disk.short_writes = false,
    |scene| scene.disk.full_after = None,
    |scene| scene.disk.torn = None,
    |scene| scene.service = ServiceFaults { pieces: 1, typical_ms: 10, ..ServiceFaults::default() },
    |scene| scene.service.stall = None,
    |scene| scene.service.pieces = 1,
    |scene| (scene.service.slow, scene.service.errors) = (0, 0),
    |scene| (scene.service.garbage, scene.service.cut_off) = (0, 0),
    |scene| (scene.service.resets, scene.service.silence) = (0, 0),
    |scene| (scene.service.closes, scene.service.refused) = (0, 0),
    |scene| scene.service.connect_ms = 0,
    |scene| scene.spans = SpanFaults { in_request: 1, ..SpanFaults::default() },
    |scene| scene.spans.is_tight = false,
    |scene| scene.spans.room = None,
    |scene| (scene.spans.lost, scene.spans.doubled) = (0, 0),
    |scene| (scene.spans.linked, scene.spans.foreign) = (0, 0),
    |scene| (scene.spans.late_ms, scene.spans.batch_ms) = (0, 0),
    |scene| (scene.spans.inner, scene.spans.in_request) = (0, 1),
    |scene| scene.workloads.iter_mut().for_each(|one| one.warm_up = 0),
    |scene| scene.workloads.iter_mut().for_each(|one| one.think_ms = 0),
    |scene| scene.workloads.iter_mut().for_each(|one| one.actions = 1),
    |scene| scene.workloads.iter_mut().for_each(|one| one.p95_ms_max = None),
    |scene| scene.workloads.iter_mut().for_each(|one| one.aborts = false),
    |scene| {
        for workload in scene.workloads.iter_mut().filter(|_| scene.shards == 1) {
            match &mut workload.runner {
                SceneRunner::Times { times, .. } | SceneRunner::Rate { times, .. } => {
                    *times = times.div_ceil(2)
                }
                SceneRunner::Duration { ms, .. } | SceneRunner::RateFor { ms, .. } => *ms = ms.div_ceil(2),
                SceneRunner::Ramp { ms, .. } | SceneRunner::Users { ms, .. } => *ms = ms.div_ceil(2),
            }
        }
    },
    |scene| {
        // Each shard needs one.
        for workload in scene.workloads.iter_mut().filter(|_| scene.shards == 1) {
            match &mut workload.runner {
                SceneRunner::Times { users, .. } | SceneRunner::Duration { users, .. } => {
                    *users = users.div_ceil(2)
                }
                SceneRunner::Rate { users, .. } | SceneRunner::RateFor { users, .. } => {
                    *users = users.div_ceil(2)
                }
                SceneRunner::Users { users, .. } => *users = users.div_ceil(2),
                SceneRunner::Ramp { rps, .. } => *rps = rps.div_ceil(2),
            }
        }
    },
];

/// The smallest scene that was found, and what is wrong with it.
pub(crate) fn smallest(
    mut scene: Scene,
    mut why: String,
    check: impl Fn(&Scene) -> Result<(), String>,
) -> (Scene, String) {
    loop {
        let smaller = CHANGES.iter().find_map(|change| {
            let mut changed = scene.clone();
            change(&mut changed);
            let is_other = format!("{changed:?}") != format!("{scene:?}");
            let broken = if is_other { check(&changed).err() } else { None };
            broken.map(|why| (changed, why))
        });
        match smaller {
            Some((changed, reason)) => (scene, why) = (changed, reason),
            None => return (scene, why),
        }
    }
}
