//! Preloads pprof-rs into programs without support for it. It samples from the start of the process
//! to its end. Then it writes a line `count thread` per stack (nothing is symbolized) to the file
//! PEER_OUTPUT. PEER_FREQUENCY is the sampling rate.
use std::fmt::Write;

static mut GUARD: Option<pprof::ProfilerGuard<'static>> = None;

extern "C" fn finish() {
    let guard = unsafe { (*std::ptr::addr_of_mut!(GUARD)).take() };
    let (Some(guard), Ok(path)) = (guard, std::env::var("PEER_OUTPUT")) else {
        return;
    };
    let mut text = String::new();
    if let Ok(report) = guard.report().build_unresolved() {
        for (stack, count) in &report.data {
            let _ = writeln!(text, "{} {}", count, stack.thread_id);
        }
    }
    let _ = std::fs::write(path, text);
}

extern "C" fn start() {
    if std::env::var("PEER_OUTPUT").is_err() {
        return;
    }
    let hz = std::env::var("PEER_FREQUENCY").ok().and_then(|v| v.parse().ok());
    match pprof::ProfilerGuard::new(hz.unwrap_or(100)) {
        Ok(guard) => unsafe { GUARD = Some(guard) },
        Err(e) => eprintln!("pprof-rs: {e}"),
    }
    unsafe { libc::atexit(finish) };
}

#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;
