//! Profiles the CPU time of a section of code and writes it as pprof, as a flame graph and as text.
use std::fs::File;
use std::io::Write;

use kiln::protos::Message;

fn is_prime(n: u64) -> bool {
    (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)
}

fn main() -> kiln::Result<()> {
    let guard = kiln::ProfilerGuardBuilder::default().frequency(1000).build()?;
    let primes = (2..1_500_000).filter(|&n| is_prime(n)).count();
    println!("{primes} primes");

    let report = guard.report().build()?;
    report.flamegraph(File::create("flamegraph.svg")?)?;
    File::create("profile.pb")?.write_all(&report.pprof()?.encode_to_vec())?;
    println!("{report:?}");
    Ok(())
}
