//! jemalloc's own profiler (feature `jemalloc`, by tikv-jemallocator).
//!
//! ```no_run
//! kiln::used_with_profiling!();
//!
//! fn main() -> kiln::Result<()> {
//!     assert!(kiln::jemalloc::activated());
//!     std::fs::write("heap.pb.gz", kiln::jemalloc::dump_pprof()?)?;
//!     Ok(())
//! }
//! ```
//!
//! Profiles, endpoints and push are those of [`kiln::heap`](crate::heap): jemalloc's profiler is used
//! by them when it is there.
pub use crate::heap::{activate, activated, deactivate, dump_flamegraph, dump_pprof};

#[doc(hidden)]
pub use tikv_jemallocator::Jemalloc;

/// Sets jemalloc up as the allocator of the program, with its profiler on: one sample in 512 KiB.
/// To be used once, outside of functions. `used_with_profiling!(off)` begins with the profiler off:
/// [`activate`] switches it on. `MALLOC_CONF` in the environment (`_RJEM_MALLOC_CONF` where
/// jemalloc is prefixed) overrides it.
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

        // One of both is read: whether jemalloc's names have a prefix is for its features to say.
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
