//! An axum service whose requests take some tens of microseconds each, under one profiler or none.
//!
//! usage: kiln-bench-service none|kiln|pprof|pyroscope HZ tags|plain URL FOLDER
//!
//! Prints where it listens. Then it is told what to do, a line at a time: `start` and `stop` the
//! profiler, `look`. Each is answered with: nanoseconds of CPU time, requests served, KiB resident
//! now and at most since `start`. Profiles are pushed to URL; pprof's go to files in FOLDER.
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, OnceLock};
use std::time::Duration;

use axum::routing::get;
use axum::Router;
use pprof::protos::Message;
use pyroscope::backend::{pprof_backend, BackendConfig, PprofConfig};
use pyroscope::pyroscope::{PyroscopeAgent, PyroscopeAgentBuilder, PyroscopeAgentRunning};

/// As long as the windows of the others are.
const WINDOW: Duration = Duration::from_secs(10);

static REQUESTS: AtomicU64 = AtomicU64::new(0);

type SetTag = Box<dyn Fn(String, String) + Send + Sync>;
static PYROSCOPE_TAGS: OnceLock<(SetTag, SetTag)> = OnceLock::new();
static TAGS: OnceLock<&'static str> = OnceLock::new();

#[inline(never)]
fn parse(units: u64, seed: u64) -> BTreeMap<String, u64> {
    (0..60 * units).map(|i| (format!("key{}", i.wrapping_mul(seed | 1) % 9973), i)).collect()
}

#[inline(never)]
fn serve(units: u64, seed: u64) -> u64 {
    let mut text = String::new();
    for (key, value) in &parse(units, seed) {
        text.push_str(key);
        text.push_str(&value.to_string());
    }
    text.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// One in two is a bike, which takes a quarter of a car's time: a fifth of it all.
async fn order() -> String {
    let n = REQUESTS.fetch_add(1, Ordering::Relaxed);
    let (vehicle, units) = if n % 2 == 0 { ("car", 4) } else { ("bike", 1) };
    let result = match TAGS.get() {
        Some(&"kiln") => {
            let _label = kiln::label!("vehicle" = vehicle);
            serve(units, n)
        }
        Some(&"pyroscope") => {
            let (add, remove) = PYROSCOPE_TAGS.get().unwrap();
            add("vehicle".to_string(), vehicle.to_string());
            let result = serve(units, n);
            remove("vehicle".to_string(), vehicle.to_string());
            result
        }
        _ => serve(units, n),
    };
    format!("{result:x}\n")
}

// --- profilers ---

enum Running {
    None,
    Kiln(kiln::Agent),
    Pprof(mpsc::Sender<()>, std::thread::JoinHandle<()>),
    Pyroscope(PyroscopeAgent<PyroscopeAgentRunning>),
}

/// A profile of every ten seconds, as an endpoint would be asked for it.
fn take_profiles(hz: i32, folder: String, stop: mpsc::Receiver<()>) {
    for n in 0.. {
        let guard = pprof::ProfilerGuardBuilder::default().frequency(hz).build().unwrap();
        let over = stop.recv_timeout(WINDOW).is_ok();
        let profile = guard.report().build().unwrap().pprof().unwrap();
        std::fs::write(format!("{folder}/{n}.pb"), profile.encode_to_vec()).unwrap();
        if over {
            return;
        }
    }
}

fn start(profiler: &str, hz: u32, tags: bool, url: &str, folder: &str) -> Running {
    let running = match profiler {
        "kiln" => {
            kiln::start_with(&kiln::Config::default().frequency(hz)).unwrap();
            Running::Kiln(kiln::agent(url, "bench").start().unwrap())
        }
        "pprof" => {
            let (stop, stopped) = mpsc::channel();
            let folder = folder.to_string();
            Running::Pprof(
                stop,
                std::thread::spawn(move || take_profiles(hz as i32, folder, stopped)),
            )
        }
        "pyroscope" => {
            let backend = pprof_backend(PprofConfig { sample_rate: hz }, BackendConfig::default());
            let agent = PyroscopeAgentBuilder::new(url, "bench", hz, "pyroscope-rs", "2", backend)
                .build()
                .unwrap()
                .start()
                .unwrap();
            let (add, remove) = agent.tag_wrapper();
            let _ = PYROSCOPE_TAGS.set((
                Box::new(move |key, value| add(key, value).unwrap()),
                Box::new(move |key, value| remove(key, value).unwrap()),
            ));
            Running::Pyroscope(agent)
        }
        _ => Running::None,
    };
    if tags && profiler == "kiln" {
        TAGS.set("kiln").unwrap();
    } else if tags && profiler == "pyroscope" {
        TAGS.set("pyroscope").unwrap();
    }
    running
}

fn stop(running: Running) {
    match running {
        Running::None => (),
        Running::Kiln(agent) => {
            agent.stop();
            kiln::stop();
        }
        Running::Pprof(stop, thread) => {
            stop.send(()).unwrap();
            thread.join().unwrap();
        }
        // Shutting it down as well takes until its timer expires.
        Running::Pyroscope(agent) => std::mem::forget(agent.stop().unwrap()),
    }
}

// --- what is asked ---

/// Not the process's CPU clock: that moves by the kernel's tick while ITIMER_PROF runs.
fn cpu_ns() -> u64 {
    // SAFETY: it is filled in.
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

fn obey(args: &[String]) {
    let mut running = Running::None;
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().trim() {
            "start" => {
                std::fs::write("/proc/self/clear_refs", "5").unwrap();
                running = start(
                    &args[1],
                    args[2].parse().unwrap(),
                    args[3] == "tags",
                    &args[4],
                    &args[5],
                );
            }
            "stop" => stop(std::mem::replace(&mut running, Running::None)),
            _ => (),
        }
        println!(
            "{} {} {} {}",
            cpu_ns(),
            REQUESTS.load(Ordering::Relaxed),
            kib("VmRSS"),
            kib("VmHWM")
        );
    }
    std::process::exit(0);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let app = Router::new().route("/order", get(order));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || obey(&args));
    axum::serve(listener, app).await
}
