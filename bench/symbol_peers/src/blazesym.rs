//! Looks up the inline chains of the addresses on stdin with the crate blazesym: one batch, no
//! demangling.
mod measure;

use blazesym::symbolize::{source, Input, Symbolized, Symbolizer};

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let mut addresses = measure::addresses();
    addresses.sort();
    let symbolizer = Symbolizer::builder()
        .enable_demangling(false)
        .enable_code_info(true)
        .enable_inlined_fns(true)
        .build();
    let src = source::Source::Elf(source::Elf::new(path));
    let mut sum = 0u64;
    for s in symbolizer.symbolize(&src, Input::VirtOffset(&addresses)).unwrap() {
        if let Symbolized::Sym(sym) = s {
            sum += sym.name.len() as u64;
            sum += sym.code_info.as_ref().and_then(|c| c.line).unwrap_or(0) as u64;
            for i in sym.inlined.iter() {
                sum += i.name.len() as u64;
            }
        }
    }
    measure::report();
    println!("{}", sum);
}
