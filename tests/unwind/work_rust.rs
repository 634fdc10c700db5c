// Rust: panics that are caught, collections, formatting.
use std::collections::BTreeMap;
use std::panic;

#[inline(never)]
fn sum(map: &BTreeMap<String, Vec<u64>>) -> u64 {
    map.values().flat_map(|v| v.iter()).sum()
}

#[inline(never)]
fn deep(n: u32) -> u32 {
    if n == 0 {
        panic::panic_any(7u32);
    }
    let text = format!("{n} {:?}", Some(n));
    deep(n - 1) + text.len() as u32
}

#[no_mangle]
pub extern "C" fn rust_panic() {
    let caught = panic::catch_unwind(|| deep(4));
    assert!(caught.is_err());
}

#[no_mangle]
pub extern "C" fn rust_work() {
    let mut map = BTreeMap::new();
    for i in 0..20u64 {
        map.entry(format!("key {}", i % 7)).or_insert_with(Vec::new).push(i * i);
    }
    let mut all: Vec<_> = map.iter().map(|(k, v)| (v.len(), k.clone())).collect();
    all.sort();
    std::hint::black_box((sum(&map), all));
}

#[no_mangle]
pub extern "C" fn rust_quiet() {
    panic::set_hook(Box::new(|_| {}));
}
