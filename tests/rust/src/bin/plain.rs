//! No framework: the system's allocator under kiln's, kiln's own server, push. Prints where it
//! listens; ends with its input.
use std::io::Read;

use kiln_tests::{burn, hoard};

#[global_allocator]
static ALLOCATOR: kiln::heap::Allocator = kiln::heap::Allocator::system();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    assert!(!kiln::heap::activated());
    kiln::heap::activate()?;
    assert!(kiln::heap::activated());
    let hoarded = hoard(32);
    kiln::serve("127.0.0.1:0")?;
    println!("{}", kiln::served_at().ok_or("not served")?);
    let agent = match std::env::args().nth(1) {
        Some(url) => Some(
            kiln::agent(url, "plain")
                .tags([("region", "eu"), ("host", "test")])
                .tenant("acme")
                .basic_auth("me", "secret:1")
                .headers([("X-More", "yes")])
                .interval(1)
                .start()?,
        ),
        None => None,
    };
    std::thread::spawn(|| loop {
        let _label = kiln::label!("job" = "sweep");
        burn(3);
        std::thread::sleep(std::time::Duration::from_millis(2));
    });
    let (add_tag, remove_tag) = kiln::tag_wrapper();
    std::thread::spawn(move || loop {
        add_tag("batch".into(), "first".into()).unwrap();
        burn(3);
        remove_tag("batch".into(), "first".into()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    std::hint::black_box(&hoarded);
    if let Some(agent) = agent {
        let statistics = agent.statistics();
        agent.stop();
        println!("{} {} {:?}", statistics.sent, statistics.dropped, statistics.last_error);
    }
    Ok(())
}
