//! What the services of these tests have in common.
use std::sync::atomic::{AtomicU64, Ordering};

fn thread_cpu() -> u64 {
    // The kernel's own count of this thread.
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Spends CPU time, and says how much.
#[inline(never)]
pub fn burn(ms: u64) -> u64 {
    let begun = thread_cpu();
    let mut x = 1.0f64;
    loop {
        for i in 0..20_000 {
            x += 1.0 / (x + f64::from(i));
        }
        std::hint::black_box(x);
        let spent = thread_cpu() - begun;
        if spent >= ms * 1_000_000 {
            return spent;
        }
    }
}

/// CPU nanoseconds that were spent for something.
pub struct Spent(AtomicU64);

impl Spent {
    pub const fn new() -> Spent {
        Spent(AtomicU64::new(0))
    }
    pub fn add(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Spent {
    fn default() -> Self {
        Spent::new()
    }
}

/// Memory that stays.
#[inline(never)]
pub fn hoard(mib: usize) -> Vec<Vec<u8>> {
    (0..mib * 16).map(|i| vec![i as u8; 64 << 10]).collect()
}
