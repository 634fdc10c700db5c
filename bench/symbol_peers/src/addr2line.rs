//! Looks up the inline chains of the addresses on stdin with the crate addr2line. Does not
//! demangle.
mod measure;

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let mut addresses = measure::addresses();
    addresses.sort();
    let loader = addr2line::Loader::new(&path).unwrap();
    let mut sum = 0u64;
    for a in addresses {
        let mut frames = loader.find_frames(a).unwrap();
        while let Some(f) = frames.next().unwrap() {
            if let Some(name) = f.function {
                sum += name.raw_name().map_or(0, |n| n.len() as u64);
            }
            if let Some(l) = f.location {
                sum += l.line.unwrap_or(0) as u64;
            }
        }
    }
    measure::report();
    println!("{}", sum);
}
