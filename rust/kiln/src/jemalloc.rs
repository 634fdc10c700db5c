//! jemalloc's own profiler (feature `jemalloc`, by tikv-jemallocator).
//!
//! ```no_run
//! kiln::used_with_profiling!();
//!
//! fn main() -> kiln::Result<()> {
//!     assert!(kiln::jemalloc::activated() || !kiln::is_supported());
//!     std::fs::write("heap.pb.gz", kiln::jemalloc::dump_pprof()?)?;
//!     Ok(())
//! }
//! ```
//!
//! Profiles, endpoints and push are those of [`kiln::heap`](crate::heap), which uses jemalloc's
//! profiler if there is one.
pub use crate::heap::{activate, activated, deactivate, dump_flamegraph, dump_pprof};

#[cfg(kiln_core)]
#[doc(hidden)]
pub use tikv_jemallocator::Jemalloc;

/// Makes jemalloc the program's allocator, with its profiler on: one sample per 512 KiB. Use it
/// once, outside of functions. `used_with_profiling!(off)` starts with the profiler off;
/// [`activate`] switches it on. The environment variable `MALLOC_CONF` (`_RJEM_MALLOC_CONF` if
/// jemalloc is prefixed) overrides the configuration.
///
/// Where kiln is [not supported](crate::is_supported), the program keeps its allocator.
#[cfg(kiln_core)]
#[macro_export]
macro_rules! used_with_profiling {
    () => {
        $crate::used_with_profiling!(@ b"prof:true,prof_active:true,lg_prof_sample:19\0");
    };
    (off) => {
        $crate::used_with_profiling!(@ b"prof:true,prof_active:false,lg_prof_sample:19\0");
    };
    (@ $configuration:literal) => {
        #[global_allocator]
        static KILN_JEMALLOC: $crate::jemalloc::Jemalloc = $crate::jemalloc::Jemalloc;

        // jemalloc reads one of the two; its features decide whether its names have a prefix.
        #[doc(hidden)]
        #[export_name = "_rjem_malloc_conf"]
        pub static KILN_RJEM_MALLOC_CONF: ::core::option::Option<&'static u8> =
            ::core::option::Option::Some(&$configuration[0]);
        #[doc(hidden)]
        #[export_name = "malloc_conf"]
        pub static KILN_MALLOC_CONF: ::core::option::Option<&'static u8> =
            ::core::option::Option::Some(&$configuration[0]);
    };
}

/// Keeps the program's allocator: kiln is not supported on this target.
#[cfg(not(kiln_core))]
#[macro_export]
macro_rules! used_with_profiling {
    () => {};
    (off) => {};
}
