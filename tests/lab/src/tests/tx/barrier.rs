// SPDX-License-Identifier: GPL-2.0
//! Whether the compiled driver writes the word that hands a descriptor over behind a write barrier.
//! No emulated processor shows that a barrier is missing, so the machine code is read.

use crate::env::Env;
use crate::proc::{self, Scratch};
use crate::steps::kernel::{self, Flavour};
use crate::steps::{module, root};
use crate::ui::Progress;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::Path;

/// What a line of a disassembly does that matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// Stores a word elsewhere than on the stack.
    Store,
    /// Orders stores before stores, for devices.
    Barrier,
}

/// Instructions that order stores as a device sees them: for the outer shareable domain.
const BARRIERS: &[&str] = &["dmb\toshst", "dmb\tosh", "dmb\tsy", "dsb\t"];

/// The kernel's function that Rust calls where the instruction is not inlined.
const BARRIER_FUNCTION: &str = "dma_wmb";

fn event(line: &str) -> Option<Event> {
    if line.contains("R_AARCH64_CALL26") && line.contains(BARRIER_FUNCTION)
        || BARRIERS.iter().any(|barrier| line.contains(barrier))
    {
        return Some(Event::Barrier);
    }
    let (_, operands) = line.split_once("\tstr\t")?;
    let stores =
        operands.starts_with('w') && !operands.contains("[sp") && !operands.contains("[x29");
    stores.then_some(Event::Store)
}

/// The functions of a disassembly with relocations: their names and what they do.
fn functions(text: &str) -> Vec<(&str, Vec<Event>)> {
    let mut functions = Vec::new();
    for line in text.lines() {
        if let Some(name) = line
            .strip_suffix(">:")
            .and_then(|line| line.split_once('<'))
        {
            functions.push((name.1, Vec::new()));
        } else if let Some((_, events)) = functions.last_mut() {
            events.extend(event(line));
        }
    }
    functions
}

/// Checks the functions that put frames into the ring: where the last word of a frame is written,
/// which is in the one the stack calls, other words are written, then comes a barrier, then that
/// word; and no barrier is anywhere that has no store behind it.
fn check(disassembly: &str) -> Result<()> {
    let transmits = |name: &str| name.contains("start_xmit") || name.contains("ravb_tx");
    let mut found = false;
    for (name, events) in functions(disassembly) {
        if !transmits(name) {
            continue;
        }
        for (at, _) in events
            .iter()
            .enumerate()
            .filter(|(_, event)| **event == Event::Barrier)
        {
            ensure!(
                events.get(at + 1) == Some(&Event::Store),
                "{name}: a barrier without a store behind it"
            );
            found |= name.contains("start_xmit") && events[..at].contains(&Event::Store);
        }
    }
    ensure!(
        found,
        "no write barrier before the word that hands a frame over"
    );
    Ok(())
}

fn disassemble(env: &Env, log: &Path, module: &Path) -> Result<String> {
    let dir = module.parent().context("the module has no place")?;
    let out = Scratch::new()?;
    let name = module.file_name().unwrap_or_default().to_string_lossy();
    let script = format!("llvm-objdump -dr --no-show-raw-insn /in/{name} > /out/text");
    let binds = [(dir, "/in"), (out.path(), "/out")];
    proc::run_logged(
        &mut root::get(env)?.command(&binds, &script),
        log,
        &Progress::quiet(),
    )?;
    Ok(fs::read_to_string(out.path().join("text"))?)
}

/// The driver as it is.
pub(super) fn present(env: &Env, log: &Path) -> Result<()> {
    let kernel = kernel::get(env, Flavour::Stock)?;
    check(&disassemble(env, log, &module::get(env, &kernel)?)?)
}

/// The statement that is the barrier, where descriptors are handed over.
const STATEMENT: &str = "dma_mb(Write);";
const PLACE: &str = "fn hand_over(";

/// The driver without the barrier: the check above must notice.
pub(super) fn missing(env: &Env, log: &Path) -> Result<()> {
    let kernel = kernel::get(env, Flavour::Stock)?;
    let dir = Scratch::new()?;
    module::copy_sources(&env.project, dir.path())?;
    let file = dir.path().join("ravb_ring.rs");
    let text = fs::read_to_string(&file)?;
    let at = text
        .find(PLACE)
        .context("hand_over() has another name now")?;
    let (before, behind) = text.split_at(at);
    ensure!(
        behind.contains(STATEMENT),
        "the barrier is written in another way now"
    );
    fs::write(
        &file,
        before.to_string() + &behind.replacen(STATEMENT, "", 1),
    )?;
    proc::run_logged(
        &mut kernel.make(dir.path(), "modules"),
        log,
        &Progress::quiet(),
    )?;
    match check(&disassemble(env, log, &dir.path().join("ravb-rs.ko"))?) {
        Ok(()) => bail!("nobody misses the barrier"),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    const GOOD: &str = "\
0000000000000010 <_Rxx10start_xmit>:
      10:      \tstr\tw2, [x8]
      14:      \tstr\tx2, [x9]
      18:      \tbl\t0x18 <_Rxx10start_xmit+0x8>
\t\t0000000000000018:  R_AARCH64_CALL26\trust_helper_dma_wmb
      1c:      \tldr\tw3, [x1]
      20:      \tstr\tw3, [x8, #0x4]
      24:      \tstr\tw3, [sp, #0x4]
";

    #[test]
    fn a_barrier_between_stores_is_found() {
        assert!(check(GOOD).is_ok());
        assert!(check(
            &GOOD
                .replace("bl\t0x18 <_Rxx10start_xmit+0x8>", "dmb\toshst")
                .replace("rust_helper_dma_wmb", "nothing")
        )
        .is_ok());
    }

    #[test]
    fn a_barrier_elsewhere_is_not_enough() {
        assert!(check(&GOOD.replace("rust_helper_dma_wmb", "rust_helper_dma_rmb")).is_err());
        assert!(check(&GOOD.replace("start_xmit", "other")).is_err());
        // Nothing before it, or nothing behind it.
        assert!(check(&GOOD.replace("str\tw2", "ldr\tw2")).is_err());
        assert!(check(&GOOD.replace("str\tw3, [x8", "ldr\tw3, [x8")).is_err());
        // Ordinary memory only.
        assert!(check(
            &GOOD
                .replace("bl\t0x18 <_Rxx10start_xmit+0x8>", "dmb\tishst")
                .replace("rust_helper_dma_wmb", "nothing")
        )
        .is_err());
    }
}
