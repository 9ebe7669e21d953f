//! Work whose share of the processor is known: functions of their own, and the time that each took.

use std::hint::black_box;

use nix::time::{ClockId, clock_gettime};

/// Takes processor time in a function with this name, which no other work has.
macro_rules! burners {
    ($($name:ident),* $(,)?) => {
        $(
            #[inline(never)]
            pub(super) fn $name(rounds: u64) -> u64 {
                // Equal bodies would be merged under one name.
                black_box(stringify!($name));
                let mut sum = black_box(1_u64);
                for round in 0..rounds {
                    sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
                }
                black_box(sum)
            }
        )*
    };
}

burners!(
    task0_major,
    task0_minor,
    task1_major,
    task1_minor,
    task2_major,
    task2_minor,
    task3_major,
    task3_minor,
    task4_major,
    task4_minor,
    task5_major,
    task5_minor,
    task6_major,
    task6_minor,
    task7_major,
    task7_minor,
    planted,
    other,
);

/// A task's two functions.
pub(super) type Burner = fn(u64) -> u64;

/// Of each of eight tasks.
pub(super) const TASKS: [[Burner; 2]; 8] = [
    [task0_major, task0_minor],
    [task1_major, task1_minor],
    [task2_major, task2_minor],
    [task3_major, task3_minor],
    [task4_major, task4_minor],
    [task5_major, task5_minor],
    [task6_major, task6_minor],
    [task7_major, task7_minor],
];

/// Rounds that take about a millisecond.
pub(super) fn rounds_per_ms() -> u64 {
    const ROUNDS: u64 = 20_000;
    let took_ns = (0..5).map(|_| {
        cpu_ns(|| {
            black_box(other(ROUNDS));
        })
    });
    (ROUNDS * 1_000_000 / took_ns.min().unwrap().max(1)).clamp(1, 10_000_000)
}

/// How long this thread was on the processor while it ran `work`.
pub(super) fn cpu_ns(work: impl FnOnce()) -> u64 {
    let before = on_processor_ns();
    work();
    on_processor_ns() - before
}

fn on_processor_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    u64::try_from(time.tv_sec()).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap()
}
