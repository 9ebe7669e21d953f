//! `bench`: a load-test harness that profiles every iteration.
//!
//! A scenario says what to do, how often, and how good the results must be. A deployment says where
//! the service is, how to authenticate, and which HMAC key to sign with. Each iteration gets a fresh
//! OSProfiler profiler, its requests carry the profiler's signed headers, and the results record its
//! trace id with its latency. After the load, `bench` fetches the traces of the slow iterations and
//! names the trace point that took the time.
//!
//! # How data flows
//!
//! ```text
//! scenario.yaml ──┐                                                      ┌─> results.json
//!                 ├─> config ─> plan ─> runner ─> iteration ─> measure ──┤
//! deployment.yaml ┘             (when)    (what)     (how long)          └─> run log
//!                                            │                                 │
//!                        osprofiler: a fresh profiler,                results: read back
//!                        signed headers                                        │
//!                                            v                       collect: trace trees
//!                              the deployment's services                       │
//!                                            │                    analysis · verdict
//!                                     its collector ────────>                  │
//!                                                            report: terminal, HTML, JSON
//! ```
//!
//! Your own program can run a scenario with [`harness::run`]; the command line does the same.
//!
//! # The modules, by rank
//!
//! A module may import only modules of a lower rank, and none of the same rank. A test checks every `use`.
//!
//! | rank | module | purpose | what it must not do |
//! |---|---|---|---|
//! | 0 | [`base`] | clocks, ids, secrets, units, YAML with positions, diagnostics, templates | know of load tests |
//! | 1 | [`osprofiler`] | OSProfiler in Rust, a separate crate: points, signing, middleware, notifiers, collectors, trees | know of bench |
//! | 2 | [`config`] | the YAML as written, its JSON Schema, errors in its structure | resolve or default anything |
//! | 2 | [`import`] | curl commands, HTTP archives and OpenAPI documents as scenarios | read or write files, send requests |
//! | 3 | [`terms`] | what a run is asked for: the load, whose rows it takes, how good the results must be | know of steps, HTTP or files |
//! | 4 | [`measure`] | samples, a recorder per worker, distributions with exemplars, the run log | lock, allocate or send per sample |
//! | 5 | [`client`] | HTTP: connections, phases, limits, TLS; the only module that uses hyper's client and reqwest | know of scenarios |
//! | 5 | [`results`] | the versioned result model and the run directory, made from the log | print; know how a load is made |
//! | 6 | [`plan`] | the validated plan: references resolved, templates compiled, errors with their positions | do I/O beyond the files that the YAML names |
//! | 6 | [`collect`] | fetches traces by id and builds trace trees, after the load | run during the load |
//! | 6 | [`receive`] | takes the spans that services send, and keeps those of the iterations that may be chosen | ask or wait for anybody, hold up the load; know what an iteration does |
//! | 6 | [`analysis`] | why the slow iterations were slow | do I/O; know how a load is made |
//! | 6 | [`verdict`] | whether a run, or one build compared with another, passes | print or exit; know how a load is made |
//! | 7 | [`iteration`] | a single iteration: actions, variables, checks, the fresh profiler | decide when to start |
//! | 8 | [`runner`] | when iterations start and stop | know what an iteration does |
//! | 9 | [`report`] | HTML and terminal: functions of results and a writer | compute statistics; know how a load is made |
//! | 9 | [`demo`] | the embedded, instrumented service and its collector | be imported by lower ranks |
//! | 9 | [`rally`] | Rally's task files as scenarios, runs as Rally reports them | read files, start programs, send anything |
//! | 10 | [`harness`] | the life cycle of a run, of a comparison of two builds, and of stored runs | read arguments, print or exit |
//! | 11 | [`cli`] | arguments, terminal, exit codes | contain logic |
//!
//! # Invariants
//!
//! 1. **A fresh profiler for each iteration.** Iterations never share a trace stack. Every iteration
//!    has a base_id, even without profiling; the id then only identifies it in the results.
//! 2. **The same 128-bit id for OSProfiler and W3C.** The base_id read as an integer is the W3C trace
//!    id; the low 64 bits of a point's UUID are its span id, as in OSProfiler's OTLP driver
//!    ([`base::ids`]).
//! 3. **Two clocks.** Durations use the monotonic clock; the wall clock is read once per run
//!    ([`base::clock`]). Response time counts from when an iteration was due, service time from its
//!    start; both are recorded.
//! 4. **Measuring does not disturb the load.** While load runs, no trace is fetched, no report is
//!    rendered and no result is formatted. Every queue is bounded; overflow is counted and shown.
//! 5. **No finished iteration is lost.** Samples go to an append-only, checksummed log. Every other
//!    output is made from it, even after Ctrl-C or SIGKILL ([`measure::log`]).
//! 6. **No verdict without data.** A criterion without samples is INVALID, never PASS.
//! 7. **Secrets stay secret.** They are kept in a single type that cannot be printed
//!    ([`base::secret`]).
//! 8. **All external input is hostile.** It is bounded before it is decoded, and escaped when shown.

pub mod analysis;
pub mod cli;
pub mod collect;
pub mod demo;
pub mod harness;
pub mod import;
pub mod rally;
pub mod report;
pub mod verdict;

// These are compiled as a crate of their own, harder than the rest: see `engine.rs`.
pub use engine::{
    base, client, config, iteration, measure, osprofiler, plan, receive, results, runner, terms,
};
