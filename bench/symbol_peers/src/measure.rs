use std::io::BufRead;

pub fn addresses() -> Vec<u64> {
    std::io::stdin()
        .lock()
        .lines()
        .map(|l| u64::from_str_radix(l.unwrap().trim().trim_start_matches("0x"), 16).unwrap())
        .collect()
}

/// Prints the anonymous memory of the process in the format of `lookup -M`.
pub fn report() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        status
            .lines()
            .find(|l| l.starts_with(name))
            .and_then(|l| l.split_whitespace().nth(1))
            .unwrap_or("0")
            .to_string()
    };
    eprintln!("anon_kib {} peak_kib {}", field("RssAnon:"), field("VmHWM:"));
}
