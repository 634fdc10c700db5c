//! Reads commands from standard input and answers each with one line.
//!   stacks N                     allocates 512 KiB at the end of each of N distinct stacks
//!   load FILE                    loads a library and calls its site(malloc)
//!   dump FILE                    writes jemalloc's heap dump
//!   convert DUMP FILE            converts it with jemalloc_pprof to gzipped pprof; prints CPU s
//!   profile FILE                 dumps and converts now; prints seconds
use std::ffi::{c_char, c_void, CString};
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use tikv_jemalloc_ctl::raw;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// One of 2048 functions, which call each other on the way to an allocation.
#[inline(never)]
fn hop<const N: usize>(state: u64, depth: u32) -> Vec<u8> {
    let next = state.wrapping_mul(6364136223846793005).wrapping_add(N as u64 | 1);
    black_box(if depth == 0 {
        Vec::with_capacity(512 << 10)
    } else {
        HOPS[(next >> 40) as usize % HOPS.len()](next, depth - 1)
    })
}

type Hop = fn(u64, u32) -> Vec<u8>;

macro_rules! hops {
    ($($a:literal)*) => { [$(hops!(@row $a 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)),*] };
    (@row $a:literal $($b:literal)*) => { [$(hops!(@cell $a $b 0 1 2 3 4 5 6 7)),*] };
    (@cell $a:literal $b:tt $($c:literal)*) => {
        [$(hop::<{ $a * 128 + $b * 8 + $c }> as Hop),*]
    };
}
static TABLE: [[[Hop; 8]; 16]; 16] = hops!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
static HOPS: &[Hop] = TABLE.as_flattened().as_flattened();

extern "C" fn allocate(n: usize) -> *mut c_void {
    let layout = std::alloc::Layout::from_size_align(n, 16).unwrap();
    // SAFETY: n is not zero.
    unsafe { std::alloc::alloc(layout).cast() }
}

fn load(path: &str) -> String {
    let path = CString::new(path).unwrap();
    // SAFETY: the libraries of the test define this function with this type.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        let site = if library.is_null() { library } else { libc::dlsym(library, c"site".as_ptr()) };
        if site.is_null() {
            return "error not loaded".into();
        }
        let site: extern "C" fn(extern "C" fn(usize) -> *mut c_void) = std::mem::transmute(site);
        site(allocate);
    }
    "done".into()
}

fn dump(path: &str) -> String {
    let path = CString::new(path).unwrap();
    let text: *const c_char = path.as_ptr();
    // SAFETY: prof.dump takes a C string.
    match unsafe { raw::write(b"prof.dump\0", text) } {
        Ok(()) => "done".into(),
        Err(e) => format!("error {e}"),
    }
}

fn cpu_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: t is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn convert(from: &str, to: &str) -> String {
    let begin = cpu_seconds();
    let file = BufReader::new(std::fs::File::open(from).unwrap());
    let profile = pprof_util::parse_jeheap(file, mappings::MAPPINGS.as_deref()).unwrap();
    let bytes = profile.to_pprof(("inuse_space", "bytes"), ("space", "bytes"), None);
    let seconds = cpu_seconds() - begin;
    std::fs::write(to, bytes).unwrap();
    seconds.to_string()
}

fn profile(to: &str) -> String {
    let begin = Instant::now();
    let Some(control) = jemalloc_pprof::PROF_CTL.as_ref() else {
        return "error no profiler".into();
    };
    let bytes = control.try_lock().unwrap().dump_pprof().unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    std::fs::write(to, bytes).unwrap();
    seconds.to_string()
}

fn main() {
    let mut kept = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["stacks", n] => {
                kept = (0..n.parse().unwrap()).map(|i| HOPS[i % HOPS.len()](i as u64, 16)).collect();
                "done".into()
            }
            ["load", path] => load(path),
            ["dump", path] => dump(path),
            ["convert", from, to] => convert(from, to),
            ["profile", to] => profile(to),
            _ => format!("error {line}?"),
        };
        println!("{answer}");
    }
    black_box(kept);
}
