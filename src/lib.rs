//! `bench`: a load-test harness that profiles every iteration.
//!
//! A scenario says what to do, how often and how good it must be; a deployment says where, as whom
//! and with which HMAC key. Each iteration gets a fresh OSProfiler profiler, its requests carry the
//! profiler's signed headers, and its trace id stands beside its latency in the results. After the
//! load the traces of the slow iterations are fetched and the trace point is named that took the time.
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
//! A program of your own runs a scenario with [`harness::run`]; the command line does the same.
//!
//! # The rooms, by rank
//!
//! An import points to an earlier rank only, never sideways and never back. A test holds every `use`
//! to that.
//!
//! | rank | room | what it is for | what it must not do |
//! |---|---|---|---|
//! | 0 | [`base`] | clocks, ids, secrets, units, YAML with positions, diagnostics, templates | know of load tests |
//! | 1 | [`osprofiler`] | OSProfiler in Rust, a crate of its own: points, signing, middleware, notifiers, collectors, trees | know of bench |
//! | 1 | [`client`] | HTTP: connections, phases, limits, TLS; the only room that names hyper's client and reqwest | know of scenarios |
//! | 2 | [`config`] | the YAML as written, its JSON Schema, its faults of shape | resolve or default anything |
//! | 3 | [`plan`] | valid and resolved: references read, templates compiled, faults with their places | do I/O beyond the files that the YAML names |
//! | 4 | [`measure`] | samples, a recorder a worker, distributions with exemplars, the run log | lock, allocate or send per sample |
//! | 5 | [`iteration`] | one pass: actions, variables, checks, the fresh profiler | decide when to start |
//! | 6 | [`runner`] | when iterations start and stop | know what an iteration does |
//! | 7 | [`results`] | the versioned result model and the run directory, made from the log | print |
//! | 8 | [`collect`] | from trace ids to trace trees, after the load | run during the load |
//! | 8 | [`analysis`] | why the slow iterations were slow | do I/O |
//! | 8 | [`verdict`] | whether a run, or a build against another, counts as good | print or exit |
//! | 9 | [`report`] | HTML and terminal: functions of results and a writer | compute statistics |
//! | 9 | [`demo`] | the embedded, instrumented service and its collector | be imported by the ranks below |
//! | 10 | [`harness`] | the life of a run, of a comparison of two builds, of a run that is over | read arguments, print or exit |
//! | 11 | [`cli`] | arguments, terminal, exit codes | hold logic |
//!
//! # Invariants
//!
//! 1. **A fresh profiler for each iteration.** Iterations never share a trace stack. Every iteration
//!    has a base_id even when nothing is profiled; the id then names it in the results.
//! 2. **One 128-bit id, two worlds.** The base_id read as an integer is the W3C trace id; the low 64
//!    bits of a point's UUID are its span id, as in OSProfiler's own OTLP driver ([`base::ids`]).
//! 3. **Two clocks.** Durations are monotonic; the wall clock is read once a run ([`base::clock`]).
//!    Response time counts from when an iteration was due, service time from its start; both are kept.
//! 4. **Measuring does not disturb the load.** No trace is fetched, no report rendered and no result
//!    formatted while load runs. Every queue is bounded, and what overflows is counted and shown.
//! 5. **Nothing that finished is lost.** Samples reach an append-only, checksummed log; every other
//!    output is made from it, after Ctrl-C and after SIGKILL too ([`measure::log`]).
//! 6. **No verdict without data.** A criterion without samples is INVALID, never PASS.
//! 7. **Secrets stay secret.** They live in one type that cannot be printed ([`base::secret`]).
//! 8. **What comes from outside is hostile**: bounded before it is decoded, escaped where it is shown.

pub mod analysis;
pub mod base;
pub mod cli;
pub mod client;
pub mod collect;
pub mod config;
pub mod demo;
pub mod harness;
pub mod iteration;
pub mod measure;
pub mod plan;
pub mod report;
pub mod results;
pub mod runner;
pub mod verdict;

pub use osprofiler;
