//! What the crate promises, in one process: guards, windows, labels, exchanges, push.
use std::collections::HashSet;
use std::sync::Mutex;

use kiln::protos::{Message, Profile};
use kiln::{Config, Error, Format, LabelFuture, Output, ProfilerGuard, ProfilerGuardBuilder, Window};
use kiln_tests::burn;

/// The profiler is the process's: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn labels_of(bytes: &[u8]) -> HashSet<(String, String)> {
    let profile = Profile::decode(bytes).unwrap();
    let labels = profile.sample.iter().flat_map(|sample| &sample.label);
    labels.map(|l| (profile.text(l.key).to_owned(), profile.text(l.str).to_owned())).collect()
}

#[test]
fn a_guard_reports_again_and_again() {
    let _alone = alone();
    let guard =
        ProfilerGuardBuilder::default().frequency(997).blocklist(&["libc"]).build().unwrap();
    burn(300);
    let first = guard.report().build().unwrap();
    burn(300);
    let second = guard.report().build().unwrap();
    let count = |report: &kiln::Report| report.data.values().sum::<isize>();
    assert!(count(&first) > 20 && count(&second) > count(&first), "{first:?}");
    assert!(format!("{second:?}").contains("kiln_tests::burn"), "{second:?}");
    assert!(second.timing.frequency == 997 && second.timing.duration > first.timing.duration);

    let profile = second.pprof().unwrap();
    assert_eq!(Profile::decode(&profile.encode_to_vec()).unwrap(), profile);
    assert!(!profile.mapping.is_empty() && profile.location.iter().all(|l| l.address != 0));
    let mut svg = Vec::new();
    second.flamegraph(&mut svg).unwrap();
    assert!(String::from_utf8(svg).unwrap().contains("kiln_tests::burn"));
}

#[test]
fn a_post_processor_has_its_way() {
    let _alone = alone();
    let guard = ProfilerGuard::new(997).unwrap();
    burn(300);
    let report = guard
        .report()
        .frames_post_processor(|frames| frames.thread_name = "everybody".into())
        .build()
        .unwrap();
    assert!(report.data.keys().all(|frames| frames.thread_name == "everybody"));
    let profile = report.pprof().unwrap();
    assert!(labels_of(&profile.encode_to_vec()).contains(&("thread".into(), "everybody".into())));
    assert_eq!(
        profile.sample.iter().map(|sample| sample.value[0]).sum::<i64>() as isize,
        report.data.values().sum::<isize>()
    );
}

#[test]
fn guards_live_beside_each_other() {
    let _alone = alone();
    let first = ProfilerGuard::new(100).unwrap();
    let _second = ProfilerGuard::new(100).unwrap();
    assert!(matches!(ProfilerGuard::new(250), Err(Error::Running(_))));
    assert!(matches!(ProfilerGuard::new(0), Err(Error::Failed(_))));
    assert!(matches!(ProfilerGuard::new(-5), Err(Error::Failed(_))));
    drop(first);
    assert!(kiln::is_running());
    drop(_second);
    assert!(!kiln::is_running());
    assert!(kiln::last(5, Format::Pprof).is_err());
}

#[test]
fn labels_nest_and_go_with_futures() {
    let _alone = alone();
    let window = Window::begin_with(&Config::default().frequency(997), false).unwrap();
    {
        let _outer = kiln::label!("vehicle" = "car");
        burn(100);
        let _inner = kiln::label!("vehicle" = "bike", "n" = 1.to_string());
        burn(100);
    }
    assert_eq!(kiln::Labels::current(), kiln::Labels::empty());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let task = |kind: &'static str| {
        async move {
            for _ in 0..10 {
                burn(10);
                tokio::task::yield_now().await;
                kiln::add_tag("step", "late"); // stays with the task
            }
            assert_ne!(kiln::Labels::current(), kiln::Labels::empty());
        }
        .with_label("task", kind)
    };
    let tasks = [runtime.spawn(task("a")), runtime.spawn(task("b"))];
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    runtime.block_on(async {
        let none = tokio::spawn(async { kiln::Labels::current() }).await.unwrap();
        assert_eq!(none, kiln::Labels::empty(), "a worker has none of its own");
    });
    let found = labels_of(&window.write(Format::PprofPlain).unwrap());
    for (key, value) in
        [("vehicle", "car"), ("vehicle", "bike"), ("n", "1"), ("task", "a"), ("task", "b"), ("step", "late")]
    {
        assert!(found.contains(&(key.into(), value.into())), "{key}={value}: {found:?}");
    }
}

/// Sets that nobody holds are forgotten: what a thread gets back must be held.
#[test]
fn what_a_guard_puts_back_is_still_there() {
    let _alone = alone();
    kiln::start().unwrap();
    kiln::add_tag("shift", "night");
    let churn = || {
        for i in 0..20_000 {
            drop(kiln::labels!("n" = i.to_string()));
        }
    };
    {
        let _label = kiln::label!("vehicle" = "car");
        kiln::add_tag("step", "late"); // the thread's own set is now nobody's but the guard's
        churn();
    }
    churn();
    let found = kiln::Labels::current().with("vehicle", "bike");
    assert_eq!(found, kiln::labels!("shift" = "night", "vehicle" = "bike"));
    kiln::remove_tag("shift");
    assert_eq!(kiln::Labels::current(), kiln::Labels::empty());
    kiln::stop();
}

#[test]
fn windows_in_all_formats() {
    let _alone = alone();
    kiln::start_with(&Config::default().frequency(500)).unwrap();
    assert!(kiln::start().is_err(), "starting what is running");
    let window = Window::begin().unwrap();
    burn(200);
    let folded = String::from_utf8(window.peek(Format::Folded).unwrap()).unwrap();
    assert!(folded.contains("kiln_tests::burn"), "{folded}");
    let addresses = window.peek(Output::from(Format::Folded).addresses()).unwrap();
    assert!(!String::from_utf8(addresses).unwrap().contains("kiln_tests::burn"));
    let html = window.write(Output::from(Format::Html).title("Mine")).unwrap();
    assert!(String::from_utf8(html).unwrap().contains("Mine"));
    let gzipped = kiln::last(5, Format::Pprof).unwrap();
    assert_eq!(gzipped[..2], [0x1f, 0x8b]);
    assert!(!kiln::convert(&gzipped, Format::Svg).unwrap().is_empty());
    assert!(kiln::convert(b"nonsense", Format::Svg).is_err());
    assert!(kiln::convert(&gzipped[..40], Format::Svg).is_err());
    assert!(kiln::statistics().samples > 0);
    kiln::stop();
}

#[test]
fn exchanges() {
    let _alone = alone();
    let ask = |target: &str| kiln::http::respond_blocking("GET", target, &[], &[]);
    assert_eq!(ask("/debug/pprof/profile?seconds=1").status, 503, "not running");
    kiln::start().unwrap();
    let answer = ask("/debug/pprof/profile?seconds=1&format=folded");
    assert_eq!(answer.status, 200);
    assert!(answer.headers.iter().any(|(name, _)| name == "Content-Type"));
    assert_eq!(ask("/nothing").status, 404);
    assert_eq!(ask("/debug/pprof/profile?seconds=0").status, 400);
    assert_eq!(ask("/profile?seconds=1").status, 200, "mounted at /debug/pprof");
    assert_eq!(kiln::http::respond_blocking("DELETE", "/metrics", &[], &[]).status, 405);
    let before = kiln::statistics().windows;
    let begun = kiln::http::Exchange::begin("GET", "/debug/pprof/profile?seconds=600", &[], &[]);
    assert_eq!(kiln::statistics().windows, before + 1);
    drop(begun);
    assert_eq!(kiln::statistics().windows, before, "who leaves ends his window");
    kiln::stop();
}

#[test]
fn agents_say_what_is_wrong() {
    let _alone = alone();
    let bad = |agent: kiln::AgentBuilder| agent.start().map(drop).unwrap_err().to_string();
    assert!(bad(kiln::agent("localhost:4040", "x")).contains("http://HOST:PORT"));
    assert!(bad(kiln::agent("http://x", "x").tags([("a b", "c")])).contains("a b"));
    assert!(bad(kiln::agent("http://x", "x").interval(4000)).contains("3600"));
    let agent = kiln::agent("http://127.0.0.1:1", "x").start().unwrap();
    assert!(kiln::is_running());
    assert!(bad(kiln::agent("http://x", "x")).contains("already"));
    drop(agent);
    assert!(!kiln::is_running());
}
