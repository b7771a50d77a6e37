//! Rebuilds the crate when what it embeds changes: the migrations and the browser console.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=playground/dist");
}
