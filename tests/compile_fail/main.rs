//! Programs that must not build: the seal of a delivery, proved by the compiler (design §2).
//!
//! Each program is one attempt to settle something without proof. The expected errors stand beside it; after a change of the
//! compiler's wording renew them with `TRYBUILD=overwrite`, and read what changed.

#[test]
fn attempts_to_break_the_seal_do_not_compile() {
    let programs = trybuild::TestCases::new();
    programs.pass("tests/compile_fail/programs/lawful_way.rs");
    programs.compile_fail("tests/compile_fail/programs/x_*.rs");
}
