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
//! Your own program can run a scenario with [`harness::run`]; the command line does the same:
//!
//! ```no_run
#![doc = include_str!("../tests/examples/run-a-scenario.rs")]
//! ```
//!
//! # The crates, from the ground up
//!
//! Each folder of `src` is a crate, and this one shows them all under one name. A crate uses only crates above it in this
//! table; what a crate may not reach at all is in `tests/it/walls.rs`, and words that it may not have in
//! `tests/it/rooms.rs`.
//!
//! | crate | purpose | what it must not do |
//! |---|---|---|
//! | [`base`] | clocks, ids, secrets and their masking, units, safe text | know of load tests, OSProfiler or HTTP |
//! | [`text`] | YAML with positions, diagnostics, templates, files, programs | know of load tests |
//! | [`statistics`] | tests and intervals, checked against SciPy | know what the numbers mean |
//! | [`osprofiler`] | OSProfiler in Rust: points, signing, middleware, notifiers, collectors, trees; for services, too | know of bench |
//! | [`config`] | the YAML as written, its JSON Schema, errors in its structure | resolve or default anything |
//! | [`import`] | curl commands, HTTP archives and OpenAPI documents as scenarios | read or write files, send requests |
//! | [`terms`] | what a run is asked for: the load, whose rows it takes, how good the results must be | know of steps or HTTP, read files |
//! | [`measure`] | samples, a recorder per worker, distributions with exemplars, the run log | lock, allocate or send per sample |
//! | [`results`] | the versioned result model and the run directory, made from the log | print; know how a load is made |
//! | [`analysis`] | why the slow iterations were slow | do I/O; know how a load is made |
//! | [`capacity`] | how much load a service takes, and what stops it: the search and its model of queues | make load, do I/O |
//! | [`verdict`] | whether a run, or one build compared with another, passes | print or exit; know how a load is made |
//! | [`live`] | a load under way: its figures, bounded, and the screen that shows them | read a clock, a terminal or a file; judge a run that is over |
//! | [`report`] | HTML and terminal: functions of results and a writer | compute statistics; know how a load is made |
//! | [`judging`] | what a run's log and traces amount to: results, explanations, the verdict | write files, except traces that it lets go of |
//! | [`rally`] | Rally's task files as scenarios, runs as Rally reports them | read files, start programs, send anything |
//! | [`grpc`] | gRPC without its connection: schemas, messages, frames, statuses, server reflection | send anything; know of scenarios |
//! | [`client`] | HTTP: connections, phases, limits, TLS; the only crate here that uses reqwest and h2 | know of scenarios |
//! | [`collect`] | fetches traces by id and builds trace trees, after the load | run during the load |
//! | [`receive`] | takes the spans that services send, and keeps those of the iterations that may be chosen | ask or wait for anybody, hold up the load; know what an iteration does |
//! | [`plan`] | the validated plan: references resolved, templates compiled, errors with their positions | do I/O beyond the files that the YAML names |
//! | [`iteration`] | a single iteration: actions, variables, checks, the fresh profiler | decide when to start |
//! | [`runner`] | when iterations start and stop | know what an iteration does |
//! | [`openstack`] | logging in to Keystone, its catalog, what a run makes in a cloud and deletes again | run during the load, except to renew tokens |
//! | [`demo`] | the embedded, instrumented service and its collector | be used by the load |
//! | [`harness`] | the life cycle of a run, of a comparison of two builds, and of stored runs | read arguments, print or exit |
//! | [`cli`] | arguments, terminal, exit codes | contain logic |
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
//!
#![doc = include_str!("../scenarios/glossary.md")]

pub use {
    analysis, base, capacity, cli, client, collect, config, demo, grpc, harness, import, iteration, judging,
    live, measure, osprofiler, plan, receive, report, results, runner, statistics, terms, text, verdict,
};
#[cfg(feature = "openstack")]
pub use {openstack, rally};
