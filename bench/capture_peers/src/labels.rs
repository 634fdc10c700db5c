//! Requests with one tag each: under pyroscope's agent, under libkiln, and without a profiler.
//!
//! usage: labels_peer none|kiln|pyroscope [LIBKILN [URL]]
//!
//! Reads the number of requests to serve, one line at a time. Answers with the nanoseconds of CPU
//! time they took, including all threads.
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void, CString};
use std::io::BufRead;

use pyroscope::backend::{pprof_backend, BackendConfig, PprofConfig};
use pyroscope::pyroscope::PyroscopeAgentBuilder;

const ENDPOINTS: [&str; 8] =
    ["/", "/login", "/search", "/cart", "/order", "/items", "/status", "/help"];

/// Typical work of a service: some hundred microseconds, a few calls deep.
#[inline(never)]
fn parse(seed: u64) -> BTreeMap<String, u64> {
    (0..1500u64).map(|i| (format!("key{}", i.wrapping_mul(seed | 1) % 9973), i)).collect()
}

#[inline(never)]
fn serve(seed: u64) -> u64 {
    let fields = parse(seed);
    let mut text = String::new();
    for (key, value) in &fields {
        text.push_str(key);
        text.push_str(&value.to_string());
    }
    text.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Not the process's CPU clock, which advances by kernel ticks while ITIMER_PROF runs.
fn cpu_ns() -> u64 {
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
    let (s, us) = (u.ru_utime.tv_sec + u.ru_stime.tv_sec, u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    s as u64 * 1_000_000_000 + us as u64 * 1000
}

fn run(mut request: impl FnMut(&'static str, u64) -> u64) {
    let mut n = 0u64;
    for line in std::io::stdin().lock().lines() {
        let count: u64 = line.unwrap().trim().parse().unwrap();
        let before = cpu_ns();
        for _ in 0..count {
            n += 1;
            std::hint::black_box(request(ENDPOINTS[(n % 8) as usize], n));
        }
        println!("{}", cpu_ns() - before);
    }
}

unsafe fn symbol<T>(library: *mut c_void, name: &str) -> T {
    let name = CString::new(name).unwrap();
    let found = libc::dlsym(library, name.as_ptr());
    assert!(!found.is_null(), "no {name:?} in libkiln");
    std::mem::transmute_copy(&found)
}

fn with_kiln(path: &str) {
    let path = CString::new(path).unwrap();
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "cannot load {path:?}");
        let start: extern "C" fn(*const c_void, *mut c_void) -> c_int =
            symbol(library, "kiln_start");
        let begin: extern "C" fn(*mut c_void) -> c_int = symbol(library, "kiln_window_begin");
        let push: extern "C" fn(*const c_char, *const c_char) -> u32 =
            symbol(library, "kiln_labels_push");
        let pop: extern "C" fn(u32) = symbol(library, "kiln_labels_pop");
        assert_eq!(start(std::ptr::null(), std::ptr::null_mut()), 0);
        assert!(begin(std::ptr::null_mut()) >= 0);
        run(|endpoint, n| {
            let key = CString::new("endpoint").unwrap();
            let value = CString::new(endpoint).unwrap();
            let had = push(key.as_ptr(), value.as_ptr());
            let result = serve(n);
            pop(had);
            result
        });
    }
}

fn with_pyroscope(url: &str) {
    let backend = pprof_backend(PprofConfig { sample_rate: 100 }, BackendConfig::default());
    let agent = PyroscopeAgentBuilder::new(url, "bench", 100, "pyroscope-rs", "2", backend)
        .build()
        .expect("pyroscope's agent")
        .start()
        .expect("pyroscope's agent");
    let (add, remove) = agent.tag_wrapper();
    run(|endpoint, n| {
        add("endpoint".to_string(), endpoint.to_string()).unwrap();
        let result = serve(n);
        remove("endpoint".to_string(), endpoint.to_string()).unwrap();
        result
    });
}

fn main() {
    // A service has threads, and glibc's malloc is slower in a multithreaded process. Start a
    // thread in every mode, so that this cost is not attributed to a profiler that starts one.
    std::thread::spawn(|| loop {
        std::thread::park()
    });
    let args: Vec<String> = std::env::args().collect();
    match args[1].as_str() {
        "kiln" => with_kiln(&args[2]),
        "pyroscope" => with_pyroscope(&args[3]),
        _ => run(|_, n| serve(n)),
    }
}
