//! Where the C core does not run, what starts something succeeds, and what returns a profile says so.
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use kiln::{Error, Format, LabelFuture};

#[global_allocator]
static ALLOCATOR: kiln::heap::Allocator = kiln::heap::Allocator::system();

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

fn unsupported<T>(result: kiln::Result<T>) {
    match result {
        Err(error @ Error::Unsupported) => assert!(error.to_string().contains("is_supported")),
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("a profile"),
    }
}

fn profiles() {
    kiln::start().unwrap();
    assert!(!kiln::is_running());
    unsupported(kiln::last(10, Format::Pprof));
    unsupported(kiln::convert(b"", Format::Folded));
    let window = kiln::Window::begin().unwrap();
    unsupported(window.peek(Format::Svg));
    unsupported(window.write(Format::Json));
    let guard = kiln::ProfilerGuard::new(100).unwrap();
    unsupported(guard.report().build());
    assert_eq!(kiln::statistics().samples, 0);
    kiln::stop();
}

fn heap() {
    kiln::heap::activate().unwrap();
    kiln::heap::activate_with_interval(1 << 20).unwrap();
    assert!(!kiln::heap::activated());
    unsupported(kiln::heap::dump_pprof());
    unsupported(kiln::heap::HeapWindow::begin().unwrap().write(Format::Pprof));
    kiln::heap::deactivate().unwrap();
    let mut grown = vec![1u8; 100];
    grown.resize(100_000, 2);
    assert_eq!(grown.iter().map(|&byte| byte as usize).sum::<usize>(), 100 + 2 * 99_900);
}

fn labels() {
    let _label = kiln::label!("vehicle" = "car");
    let set = kiln::labels!("vehicle" = "car", "region" = "eu");
    assert_eq!(set.scope(|| 7), 7);
    assert_eq!(set, kiln::Labels::current());
    kiln::add_tag("a", "b");
    kiln::remove_tag("a");
    kiln::set_trace([1; 16], [2; 8]);
    kiln::clear_trace();
    let mut future = pin!(async { 8 }.with_labels(set));
    let waker = Waker::from(Arc::new(Nobody));
    assert_eq!(future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(8));
}

fn network() {
    kiln::serve("127.0.0.1:0").unwrap();
    assert_eq!(kiln::served_at(), None);
    kiln::stop_serving();
    let answer = kiln::http::respond_blocking("GET", "/debug/pprof/profile?seconds=9", &[], &[]);
    assert_eq!(answer.status, 501);
    assert!(String::from_utf8(answer.body).unwrap().contains("is_supported"));
    let agent = kiln::agent("http://127.0.0.1:1", "app").tags([("a", "b")]).start().unwrap();
    assert_eq!(agent.statistics().windows, 0);
    agent.stop();
}

fn main() {
    assert!(!kiln::is_supported());
    profiles();
    heap();
    labels();
    network();
    println!("ok");
}
