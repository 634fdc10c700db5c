//! Continuous profiling inside a Linux service: where CPU time and memory go, always on, for a
//! fraction of a percent.
//!
//! One line adds Go's profiling endpoints to a service, on a port of their own:
//!
//! ```
//! kiln::serve("127.0.0.1:0")?; // http://.../debug/pprof/
//! # kiln::stop_serving();
//! # kiln::Result::Ok(())
//! ```
//!
//! | to | call |
//! | --- | --- |
//! | add the endpoints to axum | [`kiln::axum::router()`](crate::axum::router), feature `axum` |
//! | add them to hyper, warp, ... | [`kiln::http::respond`](crate::http::respond), feature `http` |
//! | push to kiln server or Pyroscope | [`kiln::agent(url, name).start()`](crate::agent()) |
//! | profile a section of code | [`ProfilerGuard`], as in pprof-rs, or [`Window`] |
//! | distinguish requests | [`label!`], [`LabelFuture`], [`tower::LabelLayer`](crate::tower) |
//! | profile the heap | [`heap`], [`used_with_profiling!`](crate::used_with_profiling!) for jemalloc |
//! | profile benchmarks | [`criterion::PProfProfiler`](crate::criterion), feature `criterion` or `criterion-0-8` |
//!
//! A timer on each thread's CPU clock triggers the samples. A signal handler unwinds the stack with
//! tables that kiln builds from `.eh_frame`; it allocates nothing, takes no lock and calls no
//! library. No `blocklist`, no frame pointers and no thread registration are needed. Names, files,
//! lines and inlined functions come from the program's debug information: set `debug =
//! "limited"` in your release profile to have them (`"line-tables-only"` merges unrelated inlined calls).
//!
//! The build script compiles the C core and needs only a C compiler. It runs on Linux with glibc on
//! x86-64 and aarch64. On other targets (macOS, Windows, musl, ...) the crate has the same functions and
//! no C code: functions that start something succeed and do nothing, labels cost nothing, endpoints answer
//! 501, and functions that return a profile return [`Error::Unsupported`]. [`is_supported`] tells which
//! form a program has.
//!
//! Rust 1.77 or newer. Before 1.0, a change of the minor version may break programs; a change of the patch
//! version does not. A newer minimum Rust counts as a change of the minor version.
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The C core calls zlib; this links it.
#[cfg(kiln_core)]
use libz_sys as _;

mod agent;
#[cfg(feature = "axum")]
pub mod axum;
#[cfg(any(feature = "criterion", feature = "criterion-0-8"))]
pub mod criterion;
mod error;
pub mod flamegraph;
pub mod heap;
pub mod http;
#[cfg(feature = "jemalloc")]
pub mod jemalloc;
mod labels;
pub mod protos;
mod report;
mod serve;
mod sys;
#[cfg(feature = "tower")]
pub mod tower;
mod window;

/// Returns whether this build can profile: on Linux with glibc, x86-64 or aarch64. Elsewhere the crate
/// compiles to functions that do nothing.
///
/// ```
/// if !kiln::is_supported() {
///     eprintln!("profiles are not available on this platform");
/// }
/// ```
pub const fn is_supported() -> bool {
    cfg!(kiln_core)
}

pub use agent::{agent, Agent, AgentBuilder, AgentStatistics};
pub use error::{Error, Result};
pub use labels::{
    add_tag, clear_trace, remove_tag, set_trace, tag_wrapper, LabelFuture, LabelGuard, Labeled,
    Labels,
};
pub use report::{
    Frame, Frames, ProfilerGuard, ProfilerGuardBuilder, Report, ReportBuilder, ReportTiming, Symbol,
};
pub use serve::{serve, serve_with_token, served_at, stop_serving};
pub use window::{
    convert, is_running, last, start, start_with, statistics, stop, Config, Format, Output,
    Statistics, Window,
};
