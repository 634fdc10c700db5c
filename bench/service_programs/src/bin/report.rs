//! Measures the cost of reports: CPU milliseconds of the requesting thread, one report after
//! another, in an axum service under constant load.
//!
//! usage: report kiln|endpoint HZ REPORTS
//!
//! kiln: `guard.report().build()`, which covers the time since the guard was created. endpoint: a
//! profile of each second, as /debug/pprof/profile writes it.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use axum::routing::get;
use axum::Router;

/// Sends requests forever on one connection.
fn ask(address: &str) {
    let stream = TcpStream::connect(address).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        write!(stream, "GET /order HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            answers.read_line(&mut line).unwrap();
            if let Some(n) = line.strip_prefix("content-length: ") {
                length = n.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        std::io::Read::read_exact(&mut answers, &mut body).unwrap();
    }
}

fn thread_cpu_ms() -> f64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut ts) };
    ts.tv_sec as f64 * 1e3 + ts.tv_nsec as f64 / 1e6
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let (hz, reports): (u32, usize) = (args[2].parse().unwrap(), args[3].parse().unwrap());
    let endpoint = args[1] == "endpoint";
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let order = || async { format!("{:x}\n", kiln_bench_service::serve(2, 7)) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        for _ in 0..2 {
            let address = address.clone();
            std::thread::spawn(move || ask(&address));
        }
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            let before = resident_mib();
            let guard = kiln::ProfilerGuard::new(hz as i32).unwrap();
            for _ in 0..reports {
                let window = endpoint.then(|| kiln::Window::begin().unwrap());
                std::thread::sleep(Duration::from_secs(1));
                let begun = thread_cpu_ms();
                let n = match window {
                    Some(window) => window.write(kiln::Format::Pprof).unwrap().len(),
                    None => guard.report().build().unwrap().data.len(),
                };
                print!("{:.1} ms ({n}) ", thread_cpu_ms() - begun);
            }
            println!("\n{} MiB more", resident_mib().saturating_sub(before));
            std::process::exit(0);
        });
        axum::serve(listener, Router::new().route("/order", get(order))).await
    })
}
