//! Reads names and prints the alternate form of rustc-demangle for each, or `-`. With an argument:
//! demangles all names that many times and prints only the seconds.
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

fn main() {
    let rounds: u32 = std::env::args().nth(1).map_or(0, |a| a.parse().unwrap());
    let names: Vec<String> = io::stdin().lock().lines().map(|l| l.unwrap()).collect();
    if rounds > 0 {
        let start = std::time::Instant::now();
        let mut text = String::new();
        for _ in 0..rounds {
            for name in &names {
                if let Ok(d) = rustc_demangle::try_demangle(name) {
                    text.clear();
                    write!(text, "{:#}", d).unwrap();
                }
            }
        }
        println!("{:.4}", start.elapsed().as_secs_f64());
        return;
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    for name in &names {
        match rustc_demangle::try_demangle(name) {
            Ok(d) => writeln!(out, "{:#}", d).unwrap(),
            Err(_) => writeln!(out, "-").unwrap(),
        }
    }
}
