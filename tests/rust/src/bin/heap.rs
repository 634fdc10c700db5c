//! A program on jemalloc that knows nothing of kiln, for tests/endpoints/heap, which preloads libkiln.
//! Told what to do on standard input; every command is answered by one line.
//!   activate, deactivate     jemalloc's profiler
//!   allocate                 known amounts at two sites
use std::ffi::{c_char, c_int, c_void};
use std::hint::black_box;
use std::io::BufRead;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

extern "C" {
    fn _rjem_mallctl(
        name: *const c_char,
        old: *mut c_void,
        old_size: *mut usize,
        new: *mut c_void,
        new_size: usize,
    ) -> c_int;
}

fn set_active(mut on: bool) -> &'static str {
    let (name, new) = (c"prof.active".as_ptr(), (&raw mut on).cast());
    // SAFETY: prof.active takes a bool.
    match unsafe { _rjem_mallctl(name, std::ptr::null_mut(), std::ptr::null_mut(), new, 1) } {
        0 => "done",
        _ => "error",
    }
}

#[inline(never)]
fn boxes(n: usize) -> Vec<Box<[u8; 1024]>> {
    let made: Vec<_> = (0..n).map(|_| black_box(Box::new([1u8; 1024]))).collect();
    black_box(made) // so that this is no jump
}

#[inline(never)]
fn strings(n: usize) -> Vec<String> {
    let made: Vec<_> = (0..n).map(|_| black_box(String::with_capacity(512))).collect();
    black_box(made)
}

fn main() {
    let mut kept = (Vec::new(), Vec::new());
    for line in std::io::stdin().lock().lines() {
        let answer = match line.unwrap().as_str() {
            "activate" => set_active(true),
            "deactivate" => set_active(false),
            "allocate" => {
                kept = (boxes(20000), strings(20000));
                "done"
            }
            _ => "error",
        };
        println!("{answer}");
    }
    black_box(kept);
}
