//! An axum service whose requests take some tens of microseconds each, under one profiler or none.
//!
//! usage: service none|kiln|pyroscope HZ tags|plain URL FOLDER, or with_pprof none|pprof ...
//!
//! There are two programs because pprof and pyroscope cannot be linked into one. Each prints the
//! URL it listens on. Then it reads commands, one per line: `start` and `stop` the profiler, take a
//! `profile` of one second, `look`. It answers each with: nanoseconds of CPU time, requests served,
//! resident KiB now and maximum since `start`. kiln and pyroscope push profiles to URL; pprof
//! writes them to FOLDER.
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use axum::routing::get;
use axum::Router;

pub struct Options {
    pub profiler: String,
    pub hz: u32,
    pub tags: bool,
    pub url: String,
    pub folder: String,
}

/// Stops the profiler.
pub type Stop = Box<dyn FnOnce()>;
/// Takes a profile of this length with names, like an endpoint.
pub type Take = fn(&Options, Duration) -> Vec<u8>;
/// Serves a request with the given units of work, tagged with the vehicle.
pub type Tagged = Box<dyn Fn(&'static str, u64, u64) -> u64 + Send + Sync>;

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static TAGGED: OnceLock<Tagged> = OnceLock::new();

/// Serves all further requests with this function.
pub fn tag_requests(tagged: Tagged) {
    let _ = TAGGED.set(tagged);
}

#[inline(never)]
fn parse(seed: u64) -> BTreeMap<String, u64> {
    (0..60u64).map(|i| (format!("key{}", i.wrapping_mul(seed | 1) % 9973), i)).collect()
}

#[inline(never)]
pub fn serve(units: u64, seed: u64) -> u64 {
    (0..units).fold(seed, |hash, unit| {
        let mut text = String::new();
        for (key, value) in &parse(seed ^ unit) {
            text.push_str(key);
            text.push_str(&value.to_string());
        }
        text.bytes().fold(hash, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    })
}

/// Half of the requests are bikes, which take a quarter of a car's time: one fifth of the total.
async fn order() -> String {
    let n = REQUESTS.fetch_add(1, Ordering::Relaxed);
    let (vehicle, units) = if n % 2 == 0 { ("car", 4) } else { ("bike", 1) };
    let result = match TAGGED.get() {
        Some(tagged) => tagged(vehicle, units, n),
        None => serve(units, n),
    };
    format!("{result:x}\n")
}

/// Not the process's CPU clock, which advances by kernel ticks while ITIMER_PROF runs.
fn cpu_ns() -> u64 {
    // SAFETY: getrusage fills u.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut u);
        u
    };
    let (s, us) = (u.ru_utime.tv_sec + u.ru_stime.tv_sec, u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    s as u64 * 1_000_000_000 + us as u64 * 1000
}

fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn obey(options: &Options, start: fn(&Options) -> Stop, take: Take) {
    let mut running: Option<Stop> = None;
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().trim() {
            "start" => {
                std::fs::write("/proc/self/clear_refs", "5").unwrap();
                running = Some(start(options));
            }
            "stop" => running.take().unwrap()(),
            "profile" => assert!(!take(options, Duration::from_secs(1)).is_empty()),
            _ => (),
        }
        let requests = REQUESTS.load(Ordering::Relaxed);
        println!("{} {requests} {} {}", cpu_ns(), kib("VmRSS"), kib("VmHWM"));
    }
    std::process::exit(0);
}

pub fn run(start: fn(&Options) -> Stop, take: Take) -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().unwrap();
    let options = Options {
        profiler: next(),
        hz: next().parse().unwrap(),
        tags: next() == "tags",
        url: next(),
        folder: next(),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let app = Router::new().route("/order", get(order));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        std::thread::spawn(move || obey(&options, start, take));
        axum::serve(listener, app).await
    })
}
