use std::time::Duration;

use kiln_bench_service::{run, serve, tag_requests, Options, Stop};
use pyroscope::backend::{pprof_backend, BackendConfig, PprofConfig};
use pyroscope::pyroscope::PyroscopeAgentBuilder;

fn start_kiln(options: &Options) -> Stop {
    kiln::start_with(&kiln::Config::default().frequency(options.hz)).unwrap();
    let agent = kiln::agent(options.url.as_str(), "bench").start().unwrap();
    if options.tags {
        tag_requests(Box::new(|vehicle, units, n| {
            let _label = kiln::label!("vehicle" = vehicle);
            serve(units, n)
        }));
    }
    Box::new(|| {
        agent.stop();
        kiln::stop();
    })
}

fn start_pyroscope(options: &Options) -> Stop {
    let hz = options.hz;
    let backend = pprof_backend(PprofConfig { sample_rate: hz }, BackendConfig::default());
    let agent = PyroscopeAgentBuilder::new(&options.url, "bench", hz, "pyroscope-rs", "2", backend)
        .build()
        .unwrap()
        .start()
        .unwrap();
    let (add, remove) = agent.tag_wrapper();
    if options.tags {
        tag_requests(Box::new(move |vehicle, units, n| {
            add("vehicle".to_string(), vehicle.to_string()).unwrap();
            let result = serve(units, n);
            remove("vehicle".to_string(), vehicle.to_string()).unwrap();
            result
        }));
    }
    // A full shutdown would also wait for the agent's timer.
    Box::new(|| std::mem::forget(agent.stop().unwrap()))
}

fn take(options: &Options, window: Duration) -> Vec<u8> {
    if !kiln::is_running() {
        kiln::start_with(&kiln::Config::default().frequency(options.hz)).unwrap();
    }
    let taken = kiln::Window::begin().unwrap();
    std::thread::sleep(window);
    taken.write(kiln::Format::Pprof).unwrap()
}

fn main() -> std::io::Result<()> {
    let start = |options: &Options| match options.profiler.as_str() {
        "kiln" => start_kiln(options),
        "pyroscope" => start_pyroscope(options),
        _ => Box::new(|| ()),
    };
    run(start, take)
}
