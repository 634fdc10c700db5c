//! A profiler for criterion: `cargo bench -- --profile-time 5` writes a profile for each benchmark.
use std::fs::File;
use std::io::Write;
use std::marker::PhantomData;
use std::path::Path;

use crate::flamegraph::Options;
use crate::protos::Message;
use crate::ProfilerGuard;

/// What to write to the benchmark's folder.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output<'a> {
    /// `flamegraph.svg`.
    Flamegraph(Option<Options<'a>>),
    /// `profile.pb`.
    Protobuf,
}

/// Pass it to `Criterion::with_profiler`.
///
/// ```no_run
/// use criterion::{criterion_group, Criterion};
/// use kiln::criterion::{Output, PProfProfiler};
///
/// fn bench(c: &mut Criterion) {
///     c.bench_function("nothing", |b| b.iter(|| ()));
/// }
/// criterion_group! {
///     name = benches;
///     config = Criterion::default().with_profiler(PProfProfiler::new(100, Output::Flamegraph(None)));
///     targets = bench
/// }
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct PProfProfiler<'a, 'b> {
    frequency: i32,
    output: Output<'b>,
    guard: Option<ProfilerGuard<'a>>,
    life: PhantomData<&'a ()>,
}

impl<'b> PProfProfiler<'_, 'b> {
    /// Creates a profiler with this many samples per CPU-second.
    pub fn new(frequency: i32, output: Output<'b>) -> Self {
        PProfProfiler { frequency, output, guard: None, life: PhantomData }
    }

    fn start(&mut self) {
        match ProfilerGuard::new(self.frequency) {
            Ok(guard) => self.guard = Some(guard),
            Err(error) => panic!("kiln: {error}"),
        }
    }

    fn stop(&mut self, folder: &Path) {
        if let Some(guard) = self.guard.take().filter(|_| crate::is_supported()) {
            if let Err(error) = self.write(&guard, folder) {
                panic!("kiln: {}: {error}", folder.display());
            }
        }
    }

    fn write(&mut self, guard: &ProfilerGuard<'_>, folder: &Path) -> crate::Result<()> {
        std::fs::create_dir_all(folder)?;
        let report = guard.report().build()?;
        match &mut self.output {
            Output::Flamegraph(options) => {
                let file = File::create(folder.join("flamegraph.svg"))?;
                report.flamegraph_with_options(file, options.get_or_insert_with(Options::default))
            }
            Output::Protobuf => {
                let mut file = File::create(folder.join("profile.pb"))?;
                Ok(file.write_all(&report.pprof()?.encode_to_vec())?)
            }
        }
    }
}

/// Each version of criterion has its own trait.
macro_rules! profiler_for {
    ($criterion:ident) => {
        impl ::$criterion::profiler::Profiler for PProfProfiler<'_, '_> {
            fn start_profiling(&mut self, _benchmark: &str, _folder: &Path) {
                self.start();
            }

            fn stop_profiling(&mut self, _benchmark: &str, folder: &Path) {
                self.stop(folder);
            }
        }
    };
}

#[cfg(feature = "criterion")]
profiler_for!(criterion);
#[cfg(feature = "criterion-0-8")]
profiler_for!(criterion_0_8);
