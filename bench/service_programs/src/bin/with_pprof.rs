use std::sync::mpsc;
use std::time::Duration;

use kiln_bench_service::{run, Options, Stop};
use pprof::protos::Message;

/// Same window length as the other profilers.
const WINDOW: Duration = Duration::from_secs(10);

fn begin(hz: i32) -> pprof::ProfilerGuard<'static> {
    pprof::ProfilerGuardBuilder::default().frequency(hz).build().unwrap()
}

fn encoded(guard: pprof::ProfilerGuard) -> Vec<u8> {
    guard.report().build().unwrap().pprof().unwrap().encode_to_vec()
}

/// Takes a profile every ten seconds, like requests to an endpoint.
fn take_profiles(hz: i32, folder: &str, stop: &mpsc::Receiver<()>) {
    for n in 0.. {
        let guard = begin(hz);
        let over = stop.recv_timeout(WINDOW).is_ok();
        std::fs::write(format!("{folder}/{n}.pb"), encoded(guard)).unwrap();
        if over {
            return;
        }
    }
}

fn start(options: &Options) -> Stop {
    if options.profiler == "none" {
        return Box::new(|| ());
    }
    let (stop, stopped) = mpsc::channel();
    let (hz, folder) = (options.hz as i32, options.folder.clone());
    let thread = std::thread::spawn(move || take_profiles(hz, &folder, &stopped));
    Box::new(move || {
        stop.send(()).unwrap();
        thread.join().unwrap();
    })
}

fn take(options: &Options, window: Duration) -> Vec<u8> {
    let guard = begin(options.hz as i32);
    std::thread::sleep(window);
    encoded(guard)
}

fn main() -> std::io::Result<()> {
    run(start, take)
}
