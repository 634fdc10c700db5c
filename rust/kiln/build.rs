//! Compiles the C core, where it can run. Needs only a C compiler; libz-sys provides zlib.
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules that a service needs as a whole.
const WHOLE: [&str; 5] = ["base", "process", "unwind", "capture", "agent"];
/// Interposers of libc functions, which only work in a shared library.
const PRELOADED: [&str; 2] = ["agent/preload", "process/libc"];

/// Makes the build one without the core, as on other systems. For tests of that form.
const WITHOUT_CORE: &str = "KILN_WITHOUT_CORE";

/// Whether the C core runs on the target. Keep in step with Cargo.toml.
fn is_supported() -> bool {
    let is = |name: &str, values: &[&str]| {
        let value = env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
        values.contains(&value.as_str())
    };
    is("OS", &["linux"])
        && is("ENV", &["gnu"])
        && is("ARCH", &["x86_64", "aarch64"])
        && is("POINTER_WIDTH", &["64"])
        && is("ENDIAN", &["little"])
        && env::var_os(WITHOUT_CORE).is_none()
        // Documentation is not linked.
        && env::var_os("DOCS_RS").is_none()
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={WITHOUT_CORE}");
    println!("cargo:rustc-check-cfg=cfg(kiln_core)");
    if is_supported() {
        println!("cargo:rustc-cfg=kiln_core");
        build_core();
    }
}

fn build_core() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("csrc");
    let (src, include) = (root.join("src"), root.join("include"));
    println!("cargo:rerun-if-changed={}", src.display());
    println!("cargo:rerun-if-changed={}", include.display());

    let index = ("index_css".to_string(), src.join("agent/endpoints/index.css"));
    embed(&out.join("agent_assets.h"), &[index]);
    embed(&out.join("report/flame_assets.h"), &flame_assets(&src.join("report/flame")));

    // Code for signal handlers and malloc hooks needs special flags: see src/unwind/meson.build.
    let list = fs::read_to_string(src.join("handlers.txt")).unwrap();
    let (handlers, others): (Vec<String>, Vec<String>) =
        files(&src).into_iter().partition(|name| list.lines().any(|line| line == name));
    let mut objects = Vec::new();
    for (names, in_handlers) in [(handlers, true), (others, false)] {
        let mut build = cc::Build::new();
        build
            .files(names.iter().map(|name| src.join(format!("{name}.c"))))
            .include(&src)
            .include(&include)
            .include(&out)
            .define("_GNU_SOURCE", None)
            .define("KILN_VERSION", concat!("\"", env!("CARGO_PKG_VERSION"), "\""))
            // Optimize debug builds as well: a slow profiler would disturb what it measures.
            .opt_level(2)
            .debug(false)
            .pic(true)
            .warnings(false)
            .flag("-std=gnu11")
            .flag("-fvisibility=hidden")
            .flag("-fno-math-errno")
            .flag("-ffunction-sections")
            .flag("-fdata-sections");
        if let Some(zlib) = env::var_os("DEP_Z_INCLUDE") {
            build.include(zlib);
        }
        if in_handlers {
            build.flag_if_supported("-fno-stack-protector").flag_if_supported("-fno-plt");
        }
        objects.extend(build.compile_intermediates());
    }
    archive(&out, &objects);
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=kiln_core");
    println!("cargo:rustc-link-lib=m");
    println!("cargo:include={}", include.display());
}

/// The names of all sources as module/file, in a fixed order.
fn files(src: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for module in WHOLE {
        sources_below(src, module, &mut names);
    }
    // The files that a service needs of other modules; tests/check_sources compares the list with
    // libkiln.a.
    let list = fs::read_to_string(src.join("service.txt")).unwrap();
    names.extend(list.lines().map(String::from));
    names.sort();
    names
}

fn sources_below(src: &Path, folder: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(src.join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{folder}/{}", path.file_stem().unwrap().to_string_lossy());
        if PRELOADED.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            sources_below(src, &name, names);
        } else if path.extension().is_some_and(|extension| extension == "c") {
            names.push(name);
        }
    }
}

/// Makes one object in which only exported names stay visible, so that no other name can conflict
/// with the program's; without objcopy, an archive of all objects.
fn archive(out: &Path, objects: &[PathBuf]) {
    let whole = out.join("kiln_whole.o");
    let mut link = cc::Build::new().get_compiler().to_command();
    link.args(["-r", "-nostdlib", "-o"]).arg(&whole).args(objects);
    let objcopy = match (env::var("TARGET"), env::var("HOST")) {
        (Ok(target), Ok(host)) if target != host => match target.split('-').next() {
            Some(machine) => format!("{machine}-linux-gnu-objcopy"),
            None => "objcopy".into(),
        },
        _ => "objcopy".into(),
    };
    let localized = link.status().is_ok_and(|status| status.success())
        && Command::new(objcopy)
            .arg("--localize-hidden")
            .arg(&whole)
            .status()
            .is_ok_and(|status| status.success());
    let mut build = cc::Build::new();
    build.cargo_metadata(false);
    if localized {
        build.object(&whole);
    } else {
        build.objects(objects);
    }
    build.compile("kiln_core");
}

/// The scripts and style sheets of flame graphs: core.js becomes flame_core_js, flame.css
/// flame_css.
fn flame_assets(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut assets = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().replace('.', "_");
        if name.ends_with("_js") || name.ends_with("_css") || name.ends_with("_html") {
            let name = if name.starts_with("flame_") { name } else { format!("flame_{name}") };
            assets.push((name, path));
        }
    }
    assets.sort();
    assets
}

/// Embeds text files as string constants, like tools/embed.py: without indentation, blank lines and
/// comment lines; JavaScript modules without import and export.
fn embed(header: &Path, constants: &[(String, PathBuf)]) {
    let mut text = String::from("#pragma once\n");
    for (name, path) in constants {
        let content =
            fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        writeln!(text, "static const char {name}[] =").unwrap();
        let script = path.extension().is_some_and(|extension| extension == "js");
        for line in content.lines().map(str::trim) {
            let imports = script && line.starts_with("import ") && line.contains(" from ");
            if line.is_empty() || line.starts_with("//") || imports {
                continue;
            }
            let line = if script { line.strip_prefix("export ").unwrap_or(line) } else { line };
            text.push('"');
            for byte in line.bytes() {
                match byte {
                    b'\\' | b'"' | b'?' => write!(text, "\\{}", byte as char).unwrap(),
                    b' '..=b'~' => text.push(byte as char),
                    _ => write!(text, "\\{byte:03o}").unwrap(),
                }
            }
            text.push_str("\\n\"\n");
        }
        text.push_str(";\n");
    }
    fs::create_dir_all(header.parent().unwrap()).unwrap();
    fs::write(header, text).unwrap();
}
