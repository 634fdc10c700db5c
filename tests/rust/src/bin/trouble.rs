//! What brought other profilers down, all at once, while CPU time is sampled a thousand times a
//! second, and allocations: backtraces, panics, threads that die of them, and profiles of both kinds
//! taken meanwhile.
//!
//! usage: trouble SECONDS
use std::backtrace::Backtrace;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: kiln::heap::Allocator = kiln::heap::Allocator::system();

static OVER: AtomicBool = AtomicBool::new(false);
static BACKTRACES: AtomicU64 = AtomicU64::new(0);
static PANICS: AtomicU64 = AtomicU64::new(0);
static OBJECTS: AtomicU64 = AtomicU64::new(0);
static PROFILES: AtomicU64 = AtomicU64::new(0);
static STACKS: AtomicU64 = AtomicU64::new(0);

fn rounds(count: &AtomicU64, mut round: impl FnMut(u64)) {
    let mut n = 0;
    while !OVER.load(Ordering::Relaxed) {
        round(n);
        n += 1;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The example backtrace_while_sampling of pprof-rs.
#[inline(never)]
fn deep_recursive(depth: u64) -> Backtrace {
    let found = if depth > 0 { deep_recursive(depth - 1) } else { Backtrace::force_capture() };
    std::hint::black_box(found)
}

/// With names, which take a lock, memory and files, now and then.
fn take_backtraces() {
    rounds(&BACKTRACES, |n| {
        let found = deep_recursive(20);
        if n % 200 == 0 {
            let text = found.to_string();
            assert_eq!(text.matches("trouble::deep_recursive").count(), 21, "{text}");
        }
    });
}

struct Counted<'a>(&'a mut u64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *self.0 += 1;
    }
}

#[inline(never)]
fn dive(depth: u64, dropped: &mut u64) -> usize {
    let counted = Counted(dropped);
    let text = "x".repeat(depth as usize % 9);
    match depth {
        0 => std::panic::panic_any(text),
        _ => dive(depth - 1, counted.0) + text.len(),
    }
}

fn panic_again_and_again() {
    rounds(&PANICS, |n| {
        let (depth, mut dropped) = (n % 40, 0);
        let caught = catch_unwind(AssertUnwindSafe(|| dive(depth, &mut dropped)));
        assert!(caught.unwrap_err().is::<String>());
        assert_eq!(dropped, depth + 1);
        if n % 50 == 0 {
            let dies = std::thread::spawn(|| dive(7, &mut 0));
            assert!(dies.join().is_err());
        }
    });
}

/// Objects of all sizes, which other threads free.
fn allocate(to: &mpsc::SyncSender<Vec<Vec<u8>>>) {
    rounds(&OBJECTS, |n| {
        let object = |i: u64| {
            let mut object = vec![i as u8; 1 << ((n + i) % 16)];
            object.extend_from_within(..);
            object
        };
        let _ = to.send((0..16).map(object).collect());
    });
}

/// Several guards at once, as two requests would have them, and the heap.
fn take_profiles() {
    rounds(&PROFILES, |n| {
        let guard = || kiln::ProfilerGuardBuilder::default().frequency(1000).build().unwrap();
        let (first, second) = (guard(), guard());
        std::thread::sleep(Duration::from_millis(200));
        let report = first.report().build().unwrap();
        // None in a process that the machine had no time for.
        STACKS.fetch_add(report.data.len() as u64, Ordering::Relaxed);
        drop(first);
        if n % 4 == 0 {
            second.report().build().unwrap().flamegraph(std::io::sink()).unwrap();
        }
        assert!(kiln::heap::dump_pprof().unwrap().starts_with(b"\x1f\x8b"));
    });
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(3.0);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    // Panics that are meant say nothing.
    set_hook(Box::new(|panic| {
        if panic.payload().downcast_ref::<String>().map_or(true, |text| text.len() > 8) {
            eprintln!("{panic}");
        }
    }));
    kiln::heap::activate_with_interval(4096).unwrap();
    kiln::start_with(&kiln::Config::default().frequency(1000)).unwrap();
    let (to, from) = mpsc::sync_channel(16);
    let workers = [
        std::thread::spawn(take_backtraces),
        std::thread::spawn(take_backtraces),
        std::thread::spawn(panic_again_and_again),
        std::thread::spawn(panic_again_and_again),
        std::thread::spawn(move || allocate(&to)),
        std::thread::spawn(move || from.into_iter().for_each(drop)),
        std::thread::spawn(take_profiles),
    ];
    // One round of each at least, however slow the machine is.
    let counts = [&BACKTRACES, &PANICS, &OBJECTS, &PROFILES, &STACKS];
    let done = || workers.iter().any(|worker| worker.is_finished());
    while !done()
        && (Instant::now() < until || counts.iter().any(|n| n.load(Ordering::Relaxed) == 0))
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    OVER.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
    let [backtraces, panics, objects, profiles, stacks] =
        counts.map(|n| n.load(Ordering::Relaxed));
    println!(
        "backtraces={backtraces} panics={panics} objects={objects} profiles={profiles} stacks={stacks}"
    );
}
