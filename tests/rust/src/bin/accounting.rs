//! CPU time that reports tell of, beside what the process used: threads long and short, at once and
//! one after another. usage: accounting [RUNS]; exit 1 if a ratio is not within 0.97 to 1.03. Without
//! RUNS each rate and each kind of threads once; tests/capture/accounting.c has the other pairs.
use std::time::Duration;

fn cpu(clock: i32) -> f64 {
    #[repr(C)]
    struct Timespec {
        sec: i64,
        nsec: i64,
    }
    extern "C" {
        fn clock_gettime(clock: i32, ts: *mut Timespec) -> i32;
    }
    let mut ts = Timespec { sec: 0, nsec: 0 };
    unsafe { clock_gettime(clock, &mut ts) };
    ts.sec as f64 + ts.nsec as f64 / 1e9
}

const PROCESS: i32 = 2;
const THREAD: i32 = 3;

fn burn(length: Duration) {
    let mut x = 1u64;
    while cpu(THREAD) < length.as_secs_f64() {
        for i in 0..2000 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
    }
}

fn reported_of_used(hz: i32, n: usize, ms: u64, at_once: bool) -> f64 {
    let guard = kiln::ProfilerGuardBuilder::default().frequency(hz).build().unwrap();
    let begun = cpu(PROCESS);
    while cpu(PROCESS) - begun < 0.8 {
        let threads = (0..n).map(|_| std::thread::spawn(move || burn(Duration::from_millis(ms))));
        if at_once {
            threads.collect::<Vec<_>>().into_iter().for_each(|t| t.join().unwrap());
        } else {
            threads.for_each(|t| t.join().unwrap());
        }
    }
    let used = cpu(PROCESS) - begun;
    let report = guard.report().build().unwrap();
    let samples: isize = report.data.values().sum();
    samples as f64 / hz as f64 / used
}

fn main() {
    let long = std::env::args().nth(1);
    let runs = long.as_ref().map_or(1, |runs| runs.parse().unwrap());
    let mut bad = 0;
    for (rate, hz) in [100, 1000, 4000].into_iter().enumerate() {
        for (kind, (n, ms)) in [(2, 300), (6, 20), (64, 20)].into_iter().enumerate() {
            for at_once in [true, false] {
                if long.is_none() && rate != kind {
                    continue;
                }
                let ratios: Vec<f64> = (0..runs).map(|_| reported_of_used(hz, n, ms, at_once)).collect();
                let low = ratios.iter().copied().fold(f64::MAX, f64::min);
                let high = ratios.iter().copied().fold(0.0, f64::max);
                println!("{n} threads of {ms} ms, at once: {at_once}, {hz} Hz: {low:.3} to {high:.3}");
                bad += (low < 0.97 || high > 1.03) as i32;
            }
        }
    }
    std::process::exit((bad != 0) as i32);
}
