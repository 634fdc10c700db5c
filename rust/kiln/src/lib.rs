//! Profiles of the process itself.
#![warn(missing_docs)]

// The C core calls it; this is what has it linked.
use libz_sys as _;

mod error;
pub mod flamegraph;
pub mod protos;
mod report;
mod sys;
mod window;

pub use error::{Error, Result};
pub use report::{
    Frames, ProfilerGuard, ProfilerGuardBuilder, Report, ReportBuilder, ReportTiming, Symbol,
};
pub use window::{
    convert, is_running, last, start, start_with, statistics, stop, Config, Format, Output,
    Statistics, Window,
};
