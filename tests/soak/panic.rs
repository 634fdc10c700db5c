//! Panics that unwind through frames with destructors and are caught, in this thread and in
//! others; and a program of the same (`--cfg program`) that knows nothing of any profiler.

use std::panic::{catch_unwind, resume_unwind, set_hook, AssertUnwindSafe};

struct Counted<'a>(&'a mut u32);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *self.0 += 1;
    }
}

#[inline(never)]
fn dive(depth: u32, value: u32, dropped: &mut u32) -> u32 {
    let counted = Counted(dropped);
    let text = "x".repeat(depth as usize % 9);
    if depth > 0 {
        dive(depth - 1, value, counted.0) + text.len() as u32
    } else {
        std::panic::panic_any(value)
    }
}

fn caught(depth: u32, value: u32) -> bool {
    let mut dropped = 0;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let inner = catch_unwind(AssertUnwindSafe(|| dive(depth, value, &mut dropped)));
        resume_unwind(inner.unwrap_err())
    }));
    let payload: Box<dyn std::any::Any + Send> = match result {
        Ok(()) => return false,
        Err(payload) => payload,
    };
    payload.downcast_ref::<u32>() == Some(&value) && dropped == depth + 1
}

#[no_mangle]
pub extern "C" fn panic_round(n: u32) -> u32 {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| set_hook(Box::new(|_| {})));
    let here = (0..n / 2).filter(|i| caught(i % 40, *i)).count();
    let there = std::thread::spawn(move || (n / 2..n).filter(|i| caught(i % 40, *i)).count());
    (here + there.join().unwrap_or(0)) as u32
}

#[cfg(program)]
fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(3.0);
    let begin = std::time::Instant::now();
    let mut panics = 0u64;
    while begin.elapsed().as_secs_f64() < seconds {
        // A thread that dies of its panic, too.
        assert!(std::thread::spawn(|| panic!("one")).join().is_err());
        assert_eq!(panic_round(100), 100);
        panics += 101;
    }
    println!("panics={panics}");
}
